"""Upload and download of native snapshots: files that are on the storage are referred to, the rest is uploaded."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO, TypeVar

from pystate.common.errors import PystateError, SnapshotError
from pystate.common.key_groups import KeyGroupRange
from pystate.core.snapshot.handles.handles import FileStateHandle, StateHandle
from pystate.core.snapshot.handles.incremental_handle import IncrementalKeyedStateHandle, SharedFile
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.base.backend_snapshot import NativeSnapshot

_CHUNK_BYTES = 1 << 20

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class SharedTarget:
    """The target of a checkpoint for files that later ones may refer to.

    Attributes:
        location: The directory.
        prefix: The prefix of this checkpoint's files.
        anew: Whether existing files are uploaded again, so that the checkpoint refers to no older one.
        completed: The checkpoints completed meanwhile, oldest first, whose files may be referred to.
    """

    location: SnapshotLocation
    prefix: str
    anew: bool = False
    completed: Sequence[int] = ()


class NativeUpload:
    """Uploads one native snapshot.

    Args:
        snapshot: The files of the snapshot.
        key_groups: The key groups of the subtask.
        known: The files that may be referred to, by name in the backend.
        shared: The target for new shared files; None for a self-contained snapshot, which owns all its files.
        threads: How many files are uploaded concurrently.
        keep: Called with the local path and the handle of each shared file, old and new, or None.
        written: Called with the shared files when everything is uploaded.
    """

    def __init__(
        self,
        snapshot: NativeSnapshot,
        key_groups: KeyGroupRange,
        known: Mapping[str, SharedFile],
        shared: SharedTarget | None,
        threads: int,
        keep: Callable[[str, FileStateHandle], None] | None = None,
        written: Callable[[Mapping[str, SharedFile]], None] = lambda _: None,
    ) -> None:
        self._snapshot = snapshot
        self._key_groups = key_groups
        self._known = known
        self._shared = shared
        self._threads = threads
        self._keep = keep
        self._written = written

    def write(self, location: SnapshotLocation, prefix: str, inline_threshold: int) -> IncrementalKeyedStateHandle:
        """Upload the files that aren't on the storage yet.

        Args:
            location: The target for private files.
            prefix: The prefix of the private files.
            inline_threshold: A private file up to this size is stored in the handle.

        Raises:
            SnapshotError: It can't be written; no new shared file remains.
        """
        snapshot, threads, target = self._snapshot, self._threads, self._shared
        if target is None:
            own = {**snapshot.private_files, **snapshot.shared_files}
            private, meta = self._write_own(location, prefix, inline_threshold, own)
            return self._handle({}, private, meta, (*private.values(), meta))
        new = {name: path for name, path in snapshot.shared_files.items() if name not in self._known}
        uploaded: list[FileStateHandle] = []

        def upload_shared(name: str) -> FileStateHandle:
            handle = target.location.write_state(f"{target.prefix}{name}", _copier(new[name]), 0)
            if not isinstance(handle, FileStateHandle):
                message = f"{name} is empty."
                raise SnapshotError(message, where=new[name])
            uploaded.append(handle)
            return handle

        try:
            written = dict(zip(new, parallel(threads, upload_shared, new), strict=True))
            private, meta = self._write_own(location, prefix, inline_threshold, snapshot.private_files)
        except BaseException:
            for handle in uploaded:
                with contextlib.suppress(PystateError):  # the driver retries when the failure is reported
                    target.location.remove(handle.path)
            raise
        shared = {
            name: self._known.get(name) or self._new_file(target, name, written[name]) for name in snapshot.shared_files
        }
        if self._keep is not None:
            for name, file in shared.items():
                self._keep(snapshot.shared_files[name], file.handle)
        self._written(shared)
        return self._handle(shared, private, meta, (*written.values(), *private.values(), meta))

    def _write_own(
        self, location: SnapshotLocation, prefix: str, inline_threshold: int, files: Mapping[str, str]
    ) -> tuple[dict[str, StateHandle], StateHandle]:
        """Upload the private files of the snapshot; return their handles by name, and that of the meta file."""

        def upload(name: str) -> StateHandle:
            return location.write_state(f"{prefix}-{name}", _copier(files[name]), inline_threshold)

        written = dict(zip(files, parallel(self._threads, upload, files), strict=True))
        return written, location.write_state(f"{prefix}-meta", self._snapshot.write_meta, inline_threshold)

    def _handle(
        self,
        shared: Mapping[str, SharedFile],
        private: Mapping[str, StateHandle],
        meta: StateHandle,
        written: Iterable[StateHandle],
    ) -> IncrementalKeyedStateHandle:
        return IncrementalKeyedStateHandle(
            self._key_groups.start,
            self._key_groups.end,
            self._snapshot.format,
            self._snapshot.backend_id,
            shared,
            private,
            meta,
            sum(handle.size for handle in written),
        )

    def _new_file(self, target: SharedTarget, name: str, handle: FileStateHandle) -> SharedFile:
        absolute = target.location.absolute(handle)
        assert isinstance(absolute, FileStateHandle)  # noqa: S101 - it is one, made absolute
        # under its own key it is not taken for a second upload of the file that is there
        again = f"@{target.prefix}" if target.anew else ""
        return SharedFile(f"{self._snapshot.backend_id}/{name}{again}", absolute)

    def release(self) -> None:
        """Remove the local files."""
        self._snapshot.release()


def download(
    handle: IncrementalKeyedStateHandle,
    location: SnapshotLocation,
    directory: str,
    threads: int,
    downloaded: Callable[[int], object] = lambda _: None,
) -> None:
    """Download all files of a native snapshot to a local folder, and check them.

    Args:
        handle: Which.
        location: The snapshot's directory.
        directory: A folder that exists and is empty; it is removed after an error.
        threads: How many files are read at once.
        downloaded: Called with the size of each file that is there.

    Raises:
        CorruptSnapshotError: A file is missing or damaged.
        SnapshotError: One can't be read.
    """
    files = handle.files

    def bring(name: str) -> None:
        location.download(files[name], os.path.join(directory, name))
        downloaded(files[name].size)

    try:
        parallel(threads, bring, files)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def parallel(threads: int, function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Call a function for each item concurrently, and return the results in order; stops at an error."""
    items = list(items)
    if len(items) < 2 or threads < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(threads, len(items)), thread_name_prefix="transfer") as pool:
        futures = [pool.submit(function, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _copier(path: str) -> Callable[[BinaryIO], None]:
    def copy(sink: BinaryIO) -> None:
        try:
            with open(path, "rb") as file:
                shutil.copyfileobj(file, sink, _CHUNK_BYTES)
        except FileNotFoundError as error:
            message = "The snapshot was released before it was written."
            raise SnapshotError(message, where=path) from error

    return copy
