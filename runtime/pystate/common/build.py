"""The commit that this pystate was built from: as its wheel says, or the git of the tree that it is imported from."""

from __future__ import annotations

from pathlib import Path

import pystate

_PACKAGE = Path(pystate.__file__).parent
_SHORT = 12


def commit() -> str | None:
    """Return the commit, shortened, with `-modified` if the tree of the wheel had changes; None if unknown."""
    try:
        built: str | None = (_PACKAGE / "commit.txt").read_text("utf-8").strip()
    except OSError:
        built = _head(_PACKAGE.parents[1])
    if built is None:
        return None
    head, _, changed = built.partition("-")
    return f"{head[:_SHORT]}-{changed}" if changed else head[:_SHORT]


def _head(tree: Path) -> str | None:
    if not (tree / ".git").exists():
        return None
    import subprocess  # not needed for an installed wheel

    try:
        asked = ["git", "-C", str(tree), "rev-parse", "HEAD"]
        return subprocess.check_output(asked, text=True, stderr=subprocess.DEVNULL).strip()  # noqa: S603 - fixed words
    except (OSError, subprocess.CalledProcessError):
        return None
