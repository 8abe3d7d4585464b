"""Failure handling of a job: whether it restarts, and what users can do."""
