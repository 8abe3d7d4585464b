"""The class data archive of Spark, which a driver's JVM maps into memory instead of loading classes from jars.

A third to a half of the time from a driver's start to its first epoch is spent on loading some 20,000 classes. Java's
application class-data sharing (JEP 310, 350) stores their in-memory form in one file for all processes of a user. Java
itself checks that the file was created by the same Java from the same jars, and continues without it otherwise.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from pystate.common.processes.java import JavaHome

SUFFIX = ".jsa"
_SAYS_NOTHING = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")
"""Otherwise Java would log that a jar has changed, and for each class why it isn't in the archive."""
_OWN_CHOICES = ("-Xshare", "SharedArchiveFile", "ArchiveClassesAtExit", "AutoCreateSharedArchive")
_SHARING = "sharing"


def archive_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of archives: one per user, for all homes."""
    cache = environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path(environ.get("HOME") or Path.home()) / ".cache") / "pystate"


def archive_path(java: JavaHome, environ: Mapping[str, str]) -> Path | None:
    """Return the path of the archive for a Java and the installed Spark, whether or not it exists.

    Args:
        java: The Java.
        environ: The environment variables of the process that starts it.

    Returns:
        None if this Java has no archive of its own classes, on which ours would be based, or if there is no Spark.
    """
    jars = _jars(environ)
    if _SHARING not in java.runtime or jars is None:
        return None
    known = (java.runtime, os.path.realpath(java.executable), str(jars), str(jars.stat().st_mtime_ns))
    name = hashlib.sha256("\0".join(known).encode()).hexdigest()[:16]
    return archive_folder(environ) / f"spark-{name}{SUFFIX}"


def archive_options(java: JavaHome, environ: Mapping[str, str], users: str) -> str:
    """Return the options that let a JVM use the archive, for `spark.driver.extraJavaOptions`; empty if there is none.

    Args:
        java: The Java.
        environ: The environment variables of the process that starts it.
        users: The user's options; if they choose an archive, none is added.
    """
    path = None if any(word in users for word in _OWN_CHOICES) else archive_path(java, environ)
    if path is None or not _is_trusted(path):
        return ""
    with contextlib.suppress(OSError):
        os.utime(path)  # it is in use: see `remove_unused`
    return " ".join((_quoted(f"-XX:SharedArchiveFile={path}"), *_SAYS_NOTHING))


def recording_options(path: Path) -> str:
    """Return the options that let a JVM write an archive of its loaded classes at its end."""
    return " ".join((_quoted(f"-XX:ArchiveClassesAtExit={path}"), *_SAYS_NOTHING))


def remove_unused(folder: Path, oldest: float) -> None:
    """Delete archives that no JVM has used since a given time.

    Args:
        folder: Where they are.
        oldest: Seconds since 1970.
    """
    for path in folder.glob(f"*{SUFFIX}"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < oldest:
                path.unlink()


def _is_trusted(path: Path) -> bool:
    """Return whether it exists and couldn't have been written by others: Java executes its content."""
    try:
        facts, folder = os.lstat(path), os.lstat(path.parent)
    except OSError:
        return False
    return stat.S_ISREG(facts.st_mode) and all(
        one.st_uid == os.getuid() and not one.st_mode & (stat.S_IWGRP | stat.S_IWOTH) for one in (facts, folder)
    )


def _jars(environ: Mapping[str, str]) -> Path | None:
    home = environ.get("SPARK_HOME")
    if not home:
        spec = find_spec("pyspark")
        if spec is None or spec.origin is None:
            return None
        home = os.path.dirname(spec.origin)
    jars = Path(os.path.realpath(home)) / "jars"
    return jars if jars.is_dir() else None


def _quoted(option: str) -> str:
    return f'"{option}"'  # Spark splits at spaces
