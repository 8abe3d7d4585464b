"""The small files of a job: on this machine, and in a storage where other machines see them.

Job managers that stand in for each other may share object storage, which replaces no file in place and is far away. A job's
files are then on the machine that runs it, as without stand-ins, and what is written goes to the storage first.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import Protocol, TypeAlias


def replace_file(path: Path, data: bytes, *, mode: int) -> None:
    """Replace a file of this machine so that a reader, or a crash at any moment, sees the old bytes or the new ones."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


class Replica(Protocol):
    """A job's files as other machines see them. Any method may raise OSError."""

    def write(self, name: str, data: bytes) -> None:
        """Make a file have this content."""

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            FileNotFoundError: There is none.
        """

    def delete(self, name: str) -> None:
        """Delete a file; nothing where there is none."""


class ReplicatedFile:
    """A file that is read here, and written to the replica before it is written here.

    Args:
        path: The file on this machine.
        name: Its name in the replica.
        replica: What other machines see.
    """

    def __init__(self, path: Path, name: str, replica: Replica) -> None:
        self.path = path
        self.name = name
        self._replica = replica

    def __str__(self) -> str:
        return str(self.path)

    def __fspath__(self) -> str:
        return str(self.path)

    def read_bytes(self) -> bytes:
        """Return the content here."""
        return self.path.read_bytes()

    def replace_by(self, data: bytes, *, mode: int) -> None:
        """Write it whole, there and here."""
        self._replica.write(self.name, data)
        replace_file(self.path, data, mode=mode)

    def stat(self) -> os.stat_result:
        """Return what this machine knows of it."""
        return self.path.stat()

    def exists(self) -> bool:
        """Whether it is here."""
        return self.path.exists()

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete it there and here."""
        self._replica.delete(self.name)
        self.path.unlink(missing_ok=missing_ok)


class FencingFile(ReplicatedFile):
    """A file that is read where others write it: what stands here may be out of date."""

    def read_bytes(self) -> bytes:
        """Return the content there."""
        return self._replica.read(self.name)

    def exists(self) -> bool:
        """Whether it is there."""
        try:
            self._replica.read(self.name)
        except FileNotFoundError:
            return False
        return True


JobFile: TypeAlias = Path | ReplicatedFile
