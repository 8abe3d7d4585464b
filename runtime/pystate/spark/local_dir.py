"""Spark's local directory on this machine: shuffle files, which hold a job's records."""

from __future__ import annotations

import os
import stat
import tempfile


def private_local_dir() -> str:
    """Return a folder for all jobs of this user that nobody else can look into.

    Spark makes its folders with the modes that the umask gives them, directly below the folder for temporary files, where
    every user of the machine could read them. It deletes them when its JVM ends, after us; so the one around them stays.
    """
    path = os.path.join(tempfile.gettempdir(), f"pystate-{os.getuid()}")
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        facts = os.lstat(path)
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid():  # somebody else was here first
            return tempfile.mkdtemp(prefix=f"pystate-{os.getuid()}-")
        if facts.st_mode & 0o077:
            os.chmod(path, 0o700)
    return path
