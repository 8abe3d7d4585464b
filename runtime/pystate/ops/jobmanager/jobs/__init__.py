"""What the job manager keeps of jobs on this machine: folders, records, leftovers."""
