"""Under which name pystate is installed. In the public index `pystate` is somebody else's package."""

from __future__ import annotations

NAME = "pystate-spark"
FOREIGN_NAME = "pystate"
"""Of 2016, and not ours. It has the same import name."""


def pip_install(extra: str) -> str:
    """Return the command that installs an extra of pystate."""
    return f"pip install '{NAME}[{extra}]'"
