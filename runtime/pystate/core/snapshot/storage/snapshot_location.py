"""The location of a checkpoint or savepoint, on any filesystem.

Layout, Flink's: `<dir>/<job id>/{shared,taskowned,chk-<n>}` and `<dir>/savepoint-<first 6 of job id>-<12 hex>`, each
snapshot's directory with a `_metadata` that is written last: a snapshot without one does not exist.
"""

from __future__ import annotations

import contextlib
import io
import re
import secrets
import shlex
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, cast

from pystate.common.configuration.file_system_settings import (
    FileSystemSettings,
    adopt,
    current_settings,
    travelling_settings,
)
from pystate.common.errors import (
    CorruptSnapshotError,
    NoSnapshotError,
    RestoreError,
    SnapshotError,
    SnapshotExistsError,
)
from pystate.core.file_systems.file_info import kind_of, scheme_of
from pystate.core.file_systems.file_stores import HeldFolder, store_of
from pystate.core.file_systems.local_files import open_new
from pystate.core.file_systems.places import MEMORY_SCHEME, join, parse_location, without_slash
from pystate.core.snapshot.handles.content_check import check_content, check_length
from pystate.core.snapshot.handles.handles import ByteStreamStateHandle, FileStateHandle, StateHandle, check_path
from pystate.core.snapshot.metadata_file import METADATA_HEAD_BYTES, stated_size
from pystate.core.snapshot.storage.state_sink import StateSink, storage_errors

__all__ = [
    "MEMORY_SCHEME",
    "METADATA_FILE",
    "SHARED_DIRECTORY",
    "TASK_OWNED_DIRECTORY",
    "SnapshotLocation",
    "is_snapshot_directory",
    "no_metadata",
    "parse_location",
    "resolve_snapshot",
    "snapshot_id_of",
]

METADATA_FILE = "_metadata"
SHARED_DIRECTORY = "shared"
TASK_OWNED_DIRECTORY = "taskowned"
MAX_METADATA_BYTES = 1 << 30

_SNAPSHOT_DIRECTORY = re.compile(r"chk-\d+|savepoint-[0-9a-f]{6}-([0-9a-f]{12})")
_CHECKPOINT = re.compile(r"chk-\d+")
_ANOTHER = "restore from another checkpoint or savepoint"
_CHUNK_BYTES = 1 << 20
_NO_SNAPSHOTS = (SHARED_DIRECTORY, TASK_OWNED_DIRECTORY)
_MAX_DEPTH = 3  # of snapshots below a directory: of an environment, of a job, its own
_MAX_LISTED = 200  # folders looked into: an error must not take minutes to say


class SnapshotLocation:
    """The directory of one checkpoint or savepoint. Compared and pickled by its URI, to be sent to other processes.

    Args:
        uri: The directory.
        fs: Its filesystem, if it isn't the one of the URI.

    Attributes:
        inline_only: Whether all state is stored in its handles; `write_state` rejects state above its `inline_threshold`.
    """

    inline_only = False

    def __init__(self, uri: str, *, fs: Any = None) -> None:
        found, self._path, self.uri = parse_location(uri)
        self._fs = found if fs is None else fs
        self._store = store_of(self._fs)

    def __reduce__(self) -> tuple[Any, ...]:
        settings = travelling_settings()
        return (SnapshotLocation, (self.uri,)) if settings is None else (_arrived, (self.uri, settings))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SnapshotLocation) and self.uri == other.uri

    def __hash__(self) -> int:
        return hash(self.uri)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    @property
    def state_uri(self) -> str:
        """URI of the location for the state of subtasks."""
        return self.uri

    @property
    def exists(self) -> bool:
        """Whether a completed snapshot is here, that is, whether `_metadata` exists.

        Raises:
            SnapshotError: The filesystem can't tell.
        """
        with storage_errors("look at", self.uri):
            self._fs.invalidate_cache()
            return kind_of(self._fs, self._child(METADATA_FILE)) == "file"

    def create(self) -> None:
        """Make the directory.

        Raises:
            SnapshotExistsError: A completed snapshot stands there.
            SnapshotError: It can't be made.
        """
        if self.exists:
            message = f"A completed snapshot stands at {self.uri} already; it is not overwritten."
            raise SnapshotExistsError(message, where=self.uri, hint="set another directory, or move that snapshot away")
        with storage_errors("create the directory", self.uri):
            self._store.make_directory(self._path)

    def write_state(self, name: str, write: Callable[[BinaryIO], object], inline_threshold: int) -> StateHandle:
        """Write a piece of state; at most `inline_threshold` bytes are held in memory.

        Args:
            name: The prefix of its file's name. The suffix is random: an execution attempt that is believed dead may still
                write the same checkpoint, and must not overwrite a file of the running one.
            write: Writes the bytes to a non-seekable sink.
            inline_threshold: Up to this many bytes are stored in the handle instead of a file.

        Raises:
            SnapshotError: The filesystem failed; what `write` raises is passed on. No file remains.
        """
        final = f"{name}-{secrets.token_hex(4)}"
        check_path(final)
        temporary = self._store.temporary_name(final)
        sink = StateSink(inline_threshold, join(self.uri, temporary), lambda: self._open_for_writing(temporary))
        try:
            write(cast(BinaryIO, sink))
            if sink.file is None:
                return ByteStreamStateHandle(sink.inline())
            with storage_errors("write", join(self.uri, temporary)):
                self._store.close(sink.file)
            with storage_errors("rename", join(self.uri, temporary)):
                self._store.rename(self._child(temporary), self._child(final))
        except BaseException:
            if sink.file is not None:
                self._store.abandon(sink.file, self._child(temporary))
            raise
        return FileStateHandle(final, sink.size, sink.crc32)

    def open(self, handle: StateHandle) -> BinaryIO:
        """Open a piece of state for reading; seekable. Its length and checksum have been checked.

        Raises:
            CorruptSnapshotError: It is missing or damaged.
            SnapshotError: It can't be read.
        """
        if isinstance(handle, ByteStreamStateHandle):
            return io.BytesIO(handle.data)
        return self._open_checked(handle, check_content)

    def open_unchecked(self, handle: StateHandle) -> BinaryIO:
        """Open a piece of state without checking it, for readers of a small part that has checksums of its own.

        Raises:
            CorruptSnapshotError: It is missing, or has another length.
            SnapshotError: It can't be read.
        """
        if isinstance(handle, ByteStreamStateHandle):
            return io.BytesIO(handle.data)
        return self._open_checked(handle, lambda file, file_handle, uri: check_length(file.seek(0, 2), file_handle, uri))

    def _open_checked(self, handle: FileStateHandle, check: Callable[[BinaryIO, FileStateHandle, str], object]) -> BinaryIO:
        """Open a file after checking it by `check`."""
        file, uri = self._open_for_reading(handle)
        with storage_errors("read", uri):
            try:
                check(file, handle, uri)
                file.seek(0)
            except BaseException:
                file.close()
                raise
        return file

    def download(self, handle: StateHandle, path: str) -> None:
        """Copy a piece of state to a new local file, and check its length and checksum.

        Raises:
            CorruptSnapshotError: It is missing or damaged.
            SnapshotError: It can't be read, or not be written here.
        """
        try:
            with open_new(path, current_settings().file_mode) as target:
                if isinstance(handle, ByteStreamStateHandle):
                    target.write(handle.data)
                    return
                file, uri = self._open_for_reading(handle)
                with storage_errors("read", uri), file:
                    check_content(file, handle, uri, target)
        except OSError as error:
            message = f"Cannot write {path}: {error.strerror or error}"
            raise SnapshotError(message, where=path) from error

    def _open_for_reading(self, handle: FileStateHandle) -> tuple[BinaryIO, str]:
        check_path(handle.path)
        fs, path, uri = self._fs, self._child(handle.path), join(self.uri, handle.path)
        if handle.is_absolute:
            fs, path, uri = parse_location(handle.path)
        with storage_errors("read", uri):
            try:
                file = store_of(fs).open(path)
            except FileNotFoundError as error:
                message = f"A file of the snapshot is missing: {uri}."
                raise CorruptSnapshotError(message, where=uri, hint=_ANOTHER) from error
        return file, uri

    def absolute(self, handle: StateHandle) -> StateHandle:
        """Return a handle of this directory in absolute form, for snapshots in other directories."""
        if isinstance(handle, ByteStreamStateHandle) or handle.is_absolute:
            return handle
        return FileStateHandle(join(self.uri, handle.path), handle.size, handle.crc32)

    def file_names(self) -> list[str]:
        """Return the names of the files in the directory; none if it doesn't exist.

        Raises:
            SnapshotError: It can't be listed.
        """
        with storage_errors("list", self.uri):
            self._fs.invalidate_cache()
            try:
                entries = self._fs.ls(self._path, detail=False)
            except FileNotFoundError:
                return []
        paths = (str(entry).rstrip("/") for entry in entries)
        own = self._path.rstrip("/")  # tools put an object of the directory's own name onto S3
        return [path.rsplit("/", 1)[-1] for path in paths if path != own]

    def read_file(self, name: str) -> bytes:
        """Return the content of a file of the directory.

        Raises:
            CorruptSnapshotError: The name leads elsewhere.
            SnapshotError: It can't be read.
        """
        check_path(name)
        with storage_errors("read", join(self.uri, name)), self._store.open(self._child(name)) as file:
            data = _read_on(file, bytearray(), MAX_METADATA_BYTES + 1)
        return self._within_bounds(data, join(self.uri, name))

    def read_whole(self, handle: StateHandle) -> bytes:
        """Return the bytes of a handle that holds no user state and so is never large: Spark's logs.

        Raises:
            CorruptSnapshotError: It is missing, damaged, or too large.
            SnapshotError: It can't be read.
        """
        if handle.size > MAX_METADATA_BYTES:
            raise _too_large(self.uri)
        with self.open(handle) as file:
            data = _read_on(file, bytearray(), MAX_METADATA_BYTES + 1)
        return self._within_bounds(data, self.uri)

    @staticmethod
    def _within_bounds(data: bytearray, where: str) -> bytes:
        if len(data) > MAX_METADATA_BYTES:
            raise _too_large(where)
        return bytes(data)

    def remove(self, name: str) -> None:
        """Delete a file of the directory; does nothing if it is gone already.

        Raises:
            CorruptSnapshotError: The name leads elsewhere.
            SnapshotError: It can't be deleted.
        """
        check_path(name)
        with storage_errors("delete", join(self.uri, name)), contextlib.suppress(FileNotFoundError):
            with self._store.held(self._path) as folder:
                folder.unlink(name)

    def write_metadata(self, data: bytes) -> None:
        """Write `_metadata`, the last step: from then on the snapshot is complete.

        Raises:
            SnapshotExistsError: It is there already.
            SnapshotError: It could not be written; no half-written file remains.
        """
        uri = join(self.uri, METADATA_FILE)
        with storage_errors("write", uri):
            try:
                self._store.write_new(self._child(METADATA_FILE), data)
            except FileExistsError as error:
                if self._store.may_repeat and self.read_metadata() == data:
                    return  # a retry of a request whose answer was lost
                message = f"{uri} exists already; it is not overwritten."
                hint = "two drivers may run this job: look for one that is no longer wanted"
                raise SnapshotExistsError(message, where=uri, hint=hint) from error

    def read_metadata(self) -> bytes:
        """Return the content of `_metadata`.

        Raises:
            RestoreError: There is none.
            CorruptSnapshotError: It is too large to be one.
            SnapshotError: It can't be read.
        """
        with storage_errors("read", join(self.uri, METADATA_FILE)):
            try:
                with self._store.open(self._child(METADATA_FILE)) as file:
                    return _read_metadata(file, self.uri)
            except FileNotFoundError as error:
                raise no_metadata(self.uri) from error

    @contextlib.contextmanager
    def held(self) -> Iterator[HeldSnapshot]:
        """Hold the snapshot's directory open; on this machine it stays the same one even if it is renamed.

        Raises:
            SnapshotError: The directory isn't there, is a link, or can't be opened.
        """
        with storage_errors("look at", self.uri), self._store.held(self._path) as folder:
            yield HeldSnapshot(self.uri, folder)

    def discard(self) -> None:
        """Delete the snapshot's directory and its content; does nothing if it is gone already.

        `_metadata` goes first, so that no half of a snapshot looks like one.

        Raises:
            SnapshotError: The path is not that of a snapshot, or it can't be deleted.
        """
        _check_deletable(self.uri)
        with storage_errors("delete", self.uri):
            self._fs.invalidate_cache()
            with contextlib.suppress(FileNotFoundError), self._store.held(self._path) as folder:
                folder.delete(METADATA_FILE)

    def _child(self, name: str) -> str:
        return f"{self._path.rstrip('/')}/{name}"

    def _open_for_writing(self, name: str) -> BinaryIO:
        with storage_errors("write", join(self.uri, name)):
            return self._store.open_new(self._child(name))


class HeldSnapshot:
    """The directory of a snapshot while it is being deleted.

    Args:
        uri: Its URI.
        folder: The directory.
    """

    def __init__(self, uri: str, folder: HeldFolder) -> None:
        self._uri = uri
        self._folder = folder

    def read_metadata(self) -> bytes:
        """Return the content of `_metadata`, provided that the directory looks like one of a snapshot.

        Raises:
            RestoreError: There is none.
            SnapshotError: It isn't a regular file, or can't be read; or something else is in the directory that is none.
        """
        with storage_errors("read", join(self._uri, METADATA_FILE)):
            odd = self._folder.odd_entry()
            if odd is not None:
                message = f"{self._uri} is no snapshot: {odd}, and a snapshot has regular files only."
                raise SnapshotError(message, where=self._uri)
            try:
                with self._folder.open(METADATA_FILE) as file:
                    return _read_metadata(file, self._uri)
            except FileNotFoundError as error:
                raise no_metadata(self._uri) from error

    def delete(self) -> None:
        """Delete the directory and its content, `_metadata` first, so that a partial snapshot never looks complete.

        Raises:
            SnapshotError: The path is not that of a snapshot, or it can't be deleted.
        """
        _check_deletable(self._uri)
        with storage_errors("delete", self._uri), contextlib.suppress(FileNotFoundError):
            self._folder.delete(METADATA_FILE)


def _check_deletable(uri: str) -> None:
    if not is_snapshot_directory(uri.rstrip("/").rsplit("/", 1)[-1]):
        message = f"{uri} is no directory of a checkpoint or savepoint; it is not deleted."
        raise SnapshotError(message, where=uri)


def _read_metadata(file: BinaryIO, uri: str) -> bytes:
    data = bytearray(file.read(METADATA_HEAD_BYTES))
    size = stated_size(data)
    if size is None:
        return bytes(_read_on(file, data, _CHUNK_BYTES))  # not a metadata file; the parser reports that
    if size > MAX_METADATA_BYTES:
        raise _too_large(join(uri, METADATA_FILE))
    return bytes(_read_on(file, data, size + 1))  # a byte too many is damage, and more say no more


def _read_on(file: BinaryIO, data: bytearray, most: int) -> bytearray:
    # in pieces: a file makes room for all that is asked for
    while len(data) < most and (chunk := file.read(min(_CHUNK_BYTES, most - len(data)))):
        data += chunk
    return data


def _too_large(where: str) -> CorruptSnapshotError:
    message = f"A file of the snapshot is larger than any such can be ({MAX_METADATA_BYTES} bytes)."
    return CorruptSnapshotError(message, where=where, hint=_ANOTHER)


def _arrived(uri: str, settings: FileSystemSettings) -> SnapshotLocation:
    """Unpickle a location in another process, with its filesystem settings."""
    adopt(settings)
    return SnapshotLocation(uri)


def is_snapshot_directory(name: str) -> bool:
    """Whether a name is valid for a checkpoint's or savepoint's directory."""
    return _SNAPSHOT_DIRECTORY.fullmatch(name) is not None


def snapshot_id_of(uri: str, job_id: str) -> str | None:
    """Return the short id of the snapshot in a directory; None if the directory's name doesn't contain it.

    Args:
        uri: The directory. The id of a savepoint is the random end of its name.
        job_id: The job that took it. The id of a checkpoint is `<first 6 of job id>-chk-<n>`.
    """
    name = uri.rstrip("/").rsplit("/", 1)[-1]
    found = _SNAPSHOT_DIRECTORY.fullmatch(name)
    if found is None:
        return None
    return found[1] or f"{job_id[:6]}-{name}"


def no_metadata(where: str) -> NoSnapshotError:
    """Return the error for a missing snapshot."""
    message = f"Cannot find meta data file '{METADATA_FILE}' in directory '{where}'."
    return NoSnapshotError(message, hint="the checkpoint or savepoint in it never completed: take another one")


def _no_snapshot(fs: Any, path: str, text: str) -> NoSnapshotError:
    """Return the error for a directory that isn't a snapshot; it says so if the directory contains snapshots."""
    error = no_metadata(text)
    found, all_seen = _snapshots_below(fs, path)
    if found:
        count = f"{len(found)}{'' if all_seen else ' or more'} {'is' if len(found) == 1 and all_seen else 'are'}"
        error.message = f"{error.message.rstrip('.')}: this is no snapshot; {count} below it."
        has_checkpoints = any(_CHECKPOINT.fullmatch(name) for name in found)
        error.hint = f"pystate savepoints list {shlex.quote(text)}{' --all' if has_checkpoints else ''}"
    return error


def _snapshots_below(fs: Any, path: str) -> tuple[list[str], bool]:
    """Return the names of the subdirectories with a complete snapshot, and whether all folders were checked."""
    found: list[str] = []
    folders, listed = [(path.rstrip("/"), 0)], 0
    while folders and listed < _MAX_LISTED:
        folder, depth = folders.pop()
        listed += 1
        try:
            entries = fs.ls(folder or "/", detail=True)
        except OSError:
            continue  # what can't be read isn't offered
        names = {str(entry["name"]).rstrip("/").rsplit("/", 1)[-1]: entry["type"] for entry in entries}
        if METADATA_FILE in names:
            found.append(folder.rsplit("/", 1)[-1])
        elif depth < _MAX_DEPTH:
            below = (name for name, kind in names.items() if kind == "directory")
            folders += [(f"{folder}/{name}", depth + 1) for name in below if name not in _NO_SNAPSHOTS]
    return found, not folders


def resolve_snapshot(text: str) -> SnapshotLocation:
    """Return the snapshot for a path: its directory, or the `_metadata` in it.

    Raises:
        RestoreError: There is none; of a directory that holds some it says so.
        SnapshotError: The path can't be looked at.
    """
    fs, path, uri = parse_location(text)
    with storage_errors("look at", text):
        fs.invalidate_cache()
        kind = kind_of(fs, path)
    if kind is None:
        message = f"Cannot find checkpoint or savepoint file/directory '{text}' on file system '{scheme_of(fs)}'."
        raise NoSnapshotError(message, hint="give a directory chk-N or savepoint-X-Y, or the _metadata file in it")
    if kind == "file":
        if uri.rsplit("/", 1)[-1] != METADATA_FILE:
            message = f"'{text}' is a file, but not the {METADATA_FILE} file of a checkpoint or savepoint."
            raise RestoreError(message, hint=f"give the snapshot's directory, or the {METADATA_FILE} file in it")
        return SnapshotLocation(without_slash(uri[: -len(METADATA_FILE)]))
    location = SnapshotLocation(uri)
    if not location.exists:
        raise _no_snapshot(fs, path, text)
    return location
