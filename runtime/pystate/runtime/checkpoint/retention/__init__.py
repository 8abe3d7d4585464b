"""Retention of checkpoints and their files: which are kept, can be restored, or are deleted."""
