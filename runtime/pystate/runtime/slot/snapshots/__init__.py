"""A subtask's part of snapshots: writing and restoring."""
