"""High availability of job managers: lease, election, and answers of standbys."""
