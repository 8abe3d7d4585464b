"""Filesystems that snapshots lie on: from the text of a place to one, and how each makes a file appear."""
