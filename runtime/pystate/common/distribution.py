"""Under which name pystate is installed. In the public index `pystate` is somebody else's package."""

from __future__ import annotations

NAME = "pystate-spark"
FOREIGN_NAME = "pystate"
"""A distribution of 2016 that isn't ours, with the same import name."""


def pip_install(extra: str) -> str:
    """Return the command that installs an extra of pystate."""
    return f"pip install '{NAME}[{extra}]'"
