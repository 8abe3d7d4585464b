"""The names of a job's temporary folders: below the folder for temporary files, or in memory."""

from __future__ import annotations


def folder_prefix(job_id: str) -> str:
    """Return the prefix of a job's temporary folders; short, since a Unix socket path is limited to about 100 bytes."""
    return f"pystate-{job_id[:16]}-"
