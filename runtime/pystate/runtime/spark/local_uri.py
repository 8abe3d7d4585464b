"""Paths of this machine as Spark is told them: without a scheme they would be on Hadoop's default file system."""

from __future__ import annotations

from pathlib import Path


def local_uri(path: Path) -> str:
    """Return the URI of a path of this machine, in Hadoop's form: no character in it is encoded.

    With Hadoop's settings at hand (`fs.defaultFS = hdfs://...`), Spark takes a plain path for one there.
    """
    return f"file://{path.absolute()}"
