"""Tools for snapshots as people see them: which there are, where they come from, what is in them, what may go."""
