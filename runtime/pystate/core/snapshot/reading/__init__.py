"""Reads the state of a snapshot without a job."""
