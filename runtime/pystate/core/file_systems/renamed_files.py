"""Recoverable files on filesystems on which a file appears by rename: local disks, HDFS.

A file is written in its target folder as `.NAME.inprogress.TAG-RANDOM`: readers of folders skip names that begin with a dot.
A file is never resumed in place, since a process that is believed dead may still write to it: its bytes are copied to a new
one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from pystate.common.files.whole_writes import write_fully
from pystate.core.file_systems.file_info import kind_of
from pystate.core.file_systems.file_stores import Store, store_of
from pystate.core.file_systems.recoverable_files import (
    IN_PROGRESS,
    CommitOutcome,
    Recoverable,
    RecoverableFile,
    RecoverableFiles,
    UncommittableError,
)

_COPIED_AT_ONCE = 1 << 20


class RenamedFiles(RecoverableFiles):
    """Files below a folder of a filesystem that renames.

    Args:
        fs: The filesystem.
        folder: The folder's path on it.
        tag: Part of the names of files in progress: their owner.
    """

    readable = True

    def __init__(self, fs: Any, folder: str, tag: str) -> None:
        self._fs = fs
        self._store: Store = store_of(fs)
        self._folder = folder
        self._tag = tag

    def open(self, final: str) -> RecoverableFile:
        """Begin a file."""
        folder, _, name = final.rpartition("/")
        temporary = f"{folder}/.{name}{IN_PROGRESS}{self._tag}-{secrets.token_hex(4)}"
        self._make_folder(folder)
        return self._begun(temporary, final)

    def prefix(self, kept: Recoverable) -> Iterator[bytes] | None:
        """Return the bytes of a persisted file."""
        temporary, final, size = kept["temporary"], kept["final"], kept["size"]
        if (self._size(temporary) or 0) >= size:
            return self._bytes_of(temporary, size)
        visible = self._size(final)  # the name has a random part: only that file's one writer creates it
        if visible is not None and visible >= size:
            return None
        message = f"{temporary} is gone, and no {final} has its {size} bytes"
        raise UncommittableError(errno.ENOENT, message)

    def commit(self, kept: Recoverable) -> CommitOutcome:
        """Rename a closed file."""
        temporary, final, size = kept["temporary"], kept["final"], kept["size"]
        found = self._size(temporary)
        if found is None:
            return self._was_committed(final, size)
        if found != size:
            message = f"{temporary} has {found} bytes, and had {size} when it was closed"
            raise UncommittableError(errno.EIO, message)
        try:
            self._rename(temporary, final)
        except FileExistsError:
            if not self._is_same(temporary, final):
                if self._size(temporary) is None:  # another process has committed it, at this moment
                    return self._was_committed(final, size)
                message = f"{final} is there already, and is another file than {temporary}"
                raise UncommittableError(errno.EEXIST, message) from None
            self._forget(temporary, final)  # it died between giving the new name and taking the old one
            return CommitOutcome.ALREADY_COMMITTED
        except FileNotFoundError:
            return self._was_committed(final, size)
        return CommitOutcome.COMMITTED

    def discard(self, kept: Recoverable) -> None:
        """Delete a persisted file."""
        self._delete(kept["temporary"])

    def sweep(self, is_stale: Callable[[str], bool]) -> int:
        """Delete files in progress by their names."""
        found = [path for path in self._all_files() if _is_in_progress(path) and is_stale(path.rpartition(IN_PROGRESS)[2])]
        for path in found:
            self._delete(path)
        return len(found)

    # -- the filesystem

    def _make_folder(self, folder: str) -> None:
        self._store.make_directory(folder)

    def _begun(self, temporary: str, final: str) -> RecoverableFile:
        return _WrittenFile(self._store, self._store.open_new(temporary), temporary, final)

    def _rename(self, temporary: str, final: str) -> None:
        self._store.rename_new(temporary, final)

    def _is_same(self, temporary: str, final: str) -> bool:
        """Whether two names are hard links to the same file."""
        del temporary, final
        return False

    def _forget(self, temporary: str, final: str) -> None:
        """Remove the old name of a file that has the new one."""
        del final
        self._delete(temporary)

    def _size(self, path: str) -> int | None:
        """Return a file's size; None if there is none."""
        return int(self._fs.info(path)["size"]) if kind_of(self._fs, path) == "file" else None

    def _delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(path)

    def _open_to_read(self, path: str) -> BinaryIO:
        return self._store.open(path)

    def _all_files(self) -> list[str]:
        return list(self._fs.find(self._folder)) if kind_of(self._fs, self._folder) == "directory" else []

    def _bytes_of(self, path: str, size: int) -> Iterator[bytes]:
        with self._open_to_read(path) as file:
            while size:
                data = file.read(min(size, _COPIED_AT_ONCE))
                if not data:
                    raise UncommittableError(errno.EIO, f"{path} lacks {size} bytes that it had")
                size -= len(data)
                yield data

    def _was_committed(self, final: str, size: int) -> CommitOutcome:
        found = self._size(final)
        if found == size:  # the name has a random part: no other process creates it
            return CommitOutcome.ALREADY_COMMITTED
        what = "is not there" if found is None else f"has {found} bytes"
        message = f"what was written for {final} is gone, and {final} {what} instead of {size} bytes"
        raise UncommittableError(errno.ENOENT, message)


class Disk:
    """Operations on local files; created and deleted names are durable."""

    def make_folder(self, path: str) -> None:
        """Create a folder and its parents, with modes by the process's umask."""
        missing = []
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for one in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(one)
            self.sync_folder(os.path.dirname(one))

    def open_new(self, path: str) -> BinaryIO:
        """Open a new file for writing; it must not exist."""
        return open(path, "xb", buffering=1 << 16)

    def sync(self, file: BinaryIO) -> None:
        """Sync a file to disk."""
        file.flush()
        os.fsync(file.fileno())

    def sync_folder(self, path: str) -> None:
        """Sync a folder to disk."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def link(self, temporary: str, final: str) -> None:
        """Create a hard link.

        Raises:
            FileExistsError: The name is taken.
            OSError: There is no such file, or the filesystem has no hard links.
        """
        os.link(temporary, final)

    def rename(self, temporary: str, final: str) -> None:
        """Rename a file, for filesystems without hard links."""
        if os.path.lexists(final):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), final)
        os.rename(temporary, final)

    def unlink(self, path: str) -> None:
        """Delete a file.

        Raises:
            FileNotFoundError: There is none.
        """
        os.unlink(path)


class LocalFiles(RenamedFiles):
    """Files of this machine, which can be persisted while they are written.

    Args:
        fs: The filesystem.
        folder: See `RenamedFiles`.
        tag: Likewise.
        disk: The operations on files.
    """

    resumable = True

    def __init__(self, fs: Any, folder: str, tag: str, disk: Disk | None = None) -> None:
        super().__init__(fs, folder, tag)
        self._disk = disk or Disk()

    def _make_folder(self, folder: str) -> None:
        self._disk.make_folder(folder)

    def _begun(self, temporary: str, final: str) -> RecoverableFile:
        return _LocalFile(self._disk, temporary, final)

    def _rename(self, temporary: str, final: str) -> None:
        try:
            self._disk.link(temporary, final)
        except (FileExistsError, FileNotFoundError):
            raise
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK):
                raise
            self._disk.rename(temporary, final)
            self._disk.sync_folder(os.path.dirname(final))
        else:
            self._forget(temporary, final)

    def _is_same(self, temporary: str, final: str) -> bool:
        try:
            return os.path.samefile(temporary, final)
        except FileNotFoundError:
            return False

    def _forget(self, temporary: str, final: str) -> None:
        self._disk.sync_folder(os.path.dirname(final))
        self._delete(temporary)

    def _delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._disk.unlink(path)

    def _all_files(self) -> list[str]:
        return [f"{folder}/{name}" for folder, _, names in os.walk(self._folder) for name in names]


class _LocalFile(RecoverableFile):
    """A file of this machine.

    Args:
        disk: The operations on files.
        temporary: Its temporary name.
        final: Its final name.
    """

    def __init__(self, disk: Disk, temporary: str, final: str) -> None:
        self._disk = disk
        self._temporary = temporary
        self._final = final
        self._file = disk.open_new(temporary)
        self._size = 0
        self._named = False

    def write(self, data: bytes) -> None:
        """Add bytes."""
        try:
            self._file.write(data)
        except OSError as error:
            raise _named(error, self._temporary) from None
        self._size += len(data)

    def tell(self) -> int:
        """Return its size in bytes."""
        return self._size

    def persist(self) -> Recoverable:
        """Sync the bytes to disk."""
        try:
            self._disk.sync(self._file)
        except OSError as error:
            raise _named(error, self._temporary) from None
        if not self._named:
            self._disk.sync_folder(os.path.dirname(self._temporary))
            self._named = True
        return {"final": self._final, "temporary": self._temporary, "size": self._size}

    def close_for_commit(self) -> Recoverable:
        """Sync the bytes to disk, and close the file."""
        kept = self.persist()
        self._file.close()
        return kept

    def close(self) -> None:
        """Release the file."""
        self._file.close()

    def discard(self) -> None:
        """Delete it."""
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            self._disk.unlink(self._temporary)


class _WrittenFile(RecoverableFile):
    """A file of a filesystem on which data is only durable once the file is closed.

    Args:
        store: The filesystem.
        file: The open file.
        temporary: Its path.
        final: The path it gets.
    """

    def __init__(self, store: Store, file: BinaryIO, temporary: str, final: str) -> None:
        self._store = store
        self._file = file
        self._temporary = temporary
        self._final = final
        self._size = 0

    def write(self, data: bytes) -> None:
        """Add bytes."""
        try:
            write_fully(self._file, data)
        except OSError as error:
            raise _named(error, self._temporary) from None
        self._size += len(data)

    def tell(self) -> int:
        """Return its size in bytes."""
        return self._size

    def persist(self) -> Recoverable:
        """Raise an error: it has to be closed first."""
        message = "this filesystem can't go on with a file"
        raise NotImplementedError(message)

    def close_for_commit(self) -> Recoverable:
        """Close the file."""
        try:
            self._store.close(self._file)
        except OSError as error:
            raise _named(error, self._temporary) from None
        return {"final": self._final, "temporary": self._temporary, "size": self._size}

    def close(self) -> None:
        """Delete the file: it can't be resumed."""
        self.discard()

    def discard(self) -> None:
        """Delete it."""
        self._store.abandon(self._file, self._temporary)


def _named(error: OSError, path: str) -> OSError:
    """Return an error with its file name, which errors of writes to open files don't contain."""
    if error.filename is None and error.errno is not None:
        error.filename = path
    return error


def _is_in_progress(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith(".") and IN_PROGRESS in name
