"""Small files of a job: atomic replacement, reserved disk space, replicas on shared storage.

Job managers that stand in for each other may share object storage, which replaces no file in place and is far away. A job's
files are then on the machine that runs it, as without stand-ins, and what is written goes to the storage first.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from pystate.common.files.regular_files import MAX_SMALL_BYTES, OddFileError, read_small_file

_ROOM_BYTES = 256 << 10
"""An upper bound of what a driver writes before its job has begun."""
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
"""The error numbers for a full disk or an exceeded quota."""

OF_THE_MACHINE = (*NO_SPACE, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""What it says where nothing is wrong with what it was asked for, and the same may work later."""


def replace_file(path: Path, data: bytes, *, mode: int) -> None:
    """Replace a local file atomically: a reader, or a crash at any moment, leaves the old or the new bytes."""
    temporary = _temporary(path)
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


@dataclass(frozen=True)
class Reserve:
    """Disk space reserved for one file, for what must be written even on a full disk.

    Attributes:
        path: A file of zeros, in the folder of the file that it is for.
        size: Its size in bytes, and the largest content it is good for.
    """

    path: Path
    size: int

    def ensure(self) -> None:
        """Reserve the space, if it isn't reserved yet.

        Raises:
            OSError: There is none.
        """
        with contextlib.suppress(FileNotFoundError):
            if self.path.stat().st_size == self.size:
                return
        replace_file(self.path, bytes(self.size), mode=0o600)

    def replace(self, path: Path, data: bytes, *, mode: int) -> None:
        """Replace a file as `replace_file` does; on a full disk use the reserved space, and try to reserve it again.

        Raises:
            OSError: The file can't be written, not even there.
        """
        try:
            replace_file(path, data, mode=mode)
        except OSError as error:
            if error.errno not in NO_SPACE or not self._replace_in_place(path, data, mode):
                raise
        with contextlib.suppress(OSError):
            self.ensure()

    def _replace_in_place(self, path: Path, data: bytes, mode: int) -> bool:
        """Write into the reserved file and rename it; return False if the content doesn't fit."""
        ours = _temporary(path)
        try:
            if self.path.stat().st_size < len(data):
                return False
            self.path.rename(ours)  # so that no other process writes to it
        except FileNotFoundError:
            return False
        try:
            with ours.open("r+b") as file:
                file.write(data)
                file.truncate()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            ours.replace(path)
        finally:
            with contextlib.suppress(OSError):
                ours.unlink()  # where it has not become the file
        return True


def check_room(folder: Path) -> None:
    """Check that more files can be created in a folder.

    Raises:
        OSError: It doesn't.
    """
    probe = _temporary(folder / "room")
    try:
        probe.write_bytes(bytes(_ROOM_BYTES))
    finally:
        probe.unlink(missing_ok=True)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


class Replica(Protocol):
    """The replica of a job's files for other machines. Any method may raise OSError."""

    def write(self, name: str, data: bytes) -> None:
        """Write a file with this content."""

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            FileNotFoundError: There is none.
        """

    def delete(self, name: str) -> None:
        """Delete a file; does nothing if there is none."""


class ReplicatedFile:
    """A file that is read locally, and written to the replica before it is written locally.

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

    def read_bytes(self, most: int = MAX_SMALL_BYTES) -> bytes:
        """Return the local content.

        Args:
            most: The maximum size in bytes.

        Raises:
            OddFileError: It is larger, or isn't a regular file.
        """
        return read_small_file(self.path, most)

    def replace_by(self, data: bytes, *, mode: int, reserve: Reserve | None = None) -> None:
        """Write it atomically, to the replica and locally."""
        self._replica.write(self.name, data)
        if reserve is None:
            replace_file(self.path, data, mode=mode)
        else:
            reserve.replace(self.path, data, mode=mode)

    def stat(self) -> os.stat_result:
        """Return the status of the local file."""
        return self.path.stat()

    def exists(self) -> bool:
        """Whether it exists locally."""
        return self.path.exists()

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete it from the replica and locally."""
        self._replica.delete(self.name)
        self.path.unlink(missing_ok=missing_ok)


class FencingFile(ReplicatedFile):
    """A file that is read from the replica, since the local copy may be out of date."""

    def read_bytes(self, most: int = MAX_SMALL_BYTES) -> bytes:
        """Return the content of the replica.

        Args:
            most: The maximum size in bytes.

        Raises:
            OddFileError: It has more.
        """
        data = self._replica.read(self.name)
        if len(data) > most:
            message = f"{self.name} has more than {most} bytes"
            raise OddFileError(message)
        return data

    def exists(self) -> bool:
        """Whether it exists in the replica."""
        try:
            self._replica.read(self.name)
        except FileNotFoundError:
            return False
        return True


JobFile: TypeAlias = Path | ReplicatedFile


def read_job_file(file: JobFile, most: int = MAX_SMALL_BYTES) -> bytes:
    """Return the content of a small file.

    Args:
        file: The file.
        most: The maximum size in bytes.

    Raises:
        OddFileError: It is larger, or isn't a regular file.
        OSError: It doesn't exist, or can't be read.
    """
    return file.read_bytes(most) if isinstance(file, ReplicatedFile) else read_small_file(file, most)
