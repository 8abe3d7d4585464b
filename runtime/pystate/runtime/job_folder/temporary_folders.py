"""How the folders are called that a job has for a while: below the folder for temporary files, or in memory."""

from __future__ import annotations


def folder_prefix(job_id: str) -> str:
    """Return how the names of a job's temporary folders begin; short, for the path of a Unix socket has about 100 bytes."""
    return f"pystate-{job_id[:16]}-"
