"""A disk of a few MB that a test fills: a tmpfs, for which one must be root, or be it in a namespace of one's own."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

IS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not IS_ROOT, reason="mounts a tmpfs: needs root, or `unshare -rm` around the test run")


def can_unshare() -> bool:
    """Whether this user may have mounts of his own."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0  # noqa: S607


class SmallDisk:
    """A mounted tmpfs.

    Args:
        root: Its folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._filling = root / "filling"

    def fill(self) -> None:
        """Leave no byte free."""
        with self._filling.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            for size in (1 << 20, 4096):
                with contextlib.suppress(OSError):
                    while file.write(bytes(size)):
                        pass
        free = os.statvfs(self.root).f_bavail
        assert free == 0, f"{free} blocks are free"

    def free(self) -> None:
        """Give the room back."""
        self._filling.unlink()

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        self.fill()
        try:
            yield
        finally:
            self.free()


@contextlib.contextmanager
def small_disk(root: Path) -> Iterator[SmallDisk]:
    root.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(root)], check=True)  # noqa: S607
    try:
        yield SmallDisk(root)
    finally:
        subprocess.run(["umount", "-l", str(root)], check=True)  # noqa: S607
