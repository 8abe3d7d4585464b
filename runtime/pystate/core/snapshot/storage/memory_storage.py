"""Checkpoints whose state is sent in acknowledgements and kept in the driver's memory: Flink's job manager storage.

If a checkpoint directory is set as well, each checkpoint's `_metadata`, with all state in it, is also written there, and
outlives the driver. Nothing else is written; savepoints are written to files as usual.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, BinaryIO, cast

from pystate.common.configuration.groups.checkpointing_options import MAX_FRAME_BYTES, CheckpointingOptions
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.configuration.option_types import MemorySizeType
from pystate.common.errors import SnapshotError
from pystate.common.overrides import override
from pystate.core.snapshot.handles.handles import ByteStreamStateHandle, StateHandle
from pystate.core.snapshot.storage.checkpoint_storage_access import CheckpointStorageAccess
from pystate.core.snapshot.storage.snapshot_location import MEMORY_SCHEME, SnapshotLocation, no_metadata


class _MemorySink(io.RawIOBase):
    """Keeps a state's bytes up to a limit; beyond it they are only counted."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit
        self._buffer = bytearray()
        self.size = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Write all bytes."""
        view = memoryview(data).cast("B")
        self.size += len(view)
        if self.size <= self._limit:
            self._buffer += view
        else:
            self._buffer = bytearray()
        return len(view)

    def handle(self, name: str) -> ByteStreamStateHandle:
        """Return the handle with the bytes of the state of that name.

        Raises:
            SnapshotError: There are more than the limit.
        """
        if self.size > self._limit:
            message = (
                "Size of the state is larger than the maximum permitted memory-backed state. "
                f"Size={self.size}, maxSize={self._limit}."
            )
            storage, directory = CheckpointingOptions.CHECKPOINT_STORAGE.key, CheckpointingOptions.CHECKPOINTS_DIRECTORY.key
            most = MemorySizeType().format(MAX_FRAME_BYTES)
            limit_key = PystateOptions.JOBMANAGER_MAX_STATE_SIZE.key
            hint = f"set {storage} = filesystem and a {directory}, or raise {limit_key}, up to {most}"
            raise SnapshotError(message, where=name, hint=hint)
        return ByteStreamStateHandle(bytes(self._buffer))


def _write_inline(name: str, write: Callable[[BinaryIO], object], limit: int) -> StateHandle:
    sink = _MemorySink(limit)
    write(cast(BinaryIO, sink))
    return sink.handle(name)


class MemorySnapshotLocation(SnapshotLocation):
    """A checkpoint that only exists in the driver's memory; its URI is just a name.

    Args:
        uri: `jobmanager:/<job id>/chk-<n>`.
    """

    inline_only = True

    def __init__(self, uri: str) -> None:  # without a filesystem, so the base isn't initialized
        self.uri = uri

    def __reduce__(self) -> tuple[type[SnapshotLocation], tuple[str]]:
        return MemorySnapshotLocation, (self.uri,)

    @property
    def exists(self) -> bool:
        """Return False: there is no `_metadata`."""
        return False

    def create(self) -> None:
        """Do nothing."""

    def write_state(self, name: str, write: Callable[[BinaryIO], object], inline_threshold: int) -> StateHandle:
        """Store a piece of state in its handle.

        Args:
            name: What an error names.
            write: Writes the bytes to a sink that can't seek.
            inline_threshold: The most bytes it may have.

        Raises:
            SnapshotError: It has more; what `write` raises is passed on.
        """
        return _write_inline(name, write, inline_threshold)

    def open(self, handle: StateHandle) -> BinaryIO:
        """Open a piece of state for reading.

        Raises:
            SnapshotError: It isn't in the handle.
        """
        if not isinstance(handle, ByteStreamStateHandle):
            message = f"{self.uri} has no files."
            raise SnapshotError(message)
        return io.BytesIO(handle.data)

    def write_metadata(self, data: bytes) -> None:
        """Do nothing: the driver keeps the metadata."""

    def read_metadata(self) -> bytes:
        """Raise RestoreError."""
        raise no_metadata(self.uri)

    def discard(self) -> None:
        """Do nothing: the memory is freed when the driver drops the checkpoint."""


class InlineSnapshotLocation(SnapshotLocation):
    """The directory of a checkpoint whose entire state is in its `_metadata`."""

    inline_only = True

    def __reduce__(self) -> tuple[type[SnapshotLocation], tuple[str]]:
        return InlineSnapshotLocation, (self.uri,)

    @property
    def state_uri(self) -> str:
        """The location for subtasks, which write nothing there."""
        return f"{MEMORY_SCHEME}/{self.uri.rsplit('/', 1)[-1]}"

    def write_state(self, name: str, write: Callable[[BinaryIO], object], inline_threshold: int) -> StateHandle:
        """As `MemorySnapshotLocation.write_state`."""
        return _write_inline(name, write, inline_threshold)


def snapshot_location(uri: str) -> SnapshotLocation:
    """Return the location of a checkpoint or savepoint of this job, in memory or in files.

    Raises:
        SnapshotError: The URI names no place.
    """
    return MemorySnapshotLocation(uri) if uri.startswith(MEMORY_SCHEME) else SnapshotLocation(uri)


class MemoryCheckpointStorage(CheckpointStorageAccess):
    """Checkpoint storage in memory; a checkpoint directory, if there is one, is for `_metadata`."""

    def initialize(self) -> None:
        """Create the job's directory, if there is to be one.

        Raises:
            CheckpointFailedError: It can't be made.
        """
        if self.has_checkpoint_directory:
            super().initialize()

    @override
    def checkpoint_location(self, checkpoint_id: int) -> SnapshotLocation:
        if self.has_checkpoint_directory:
            return InlineSnapshotLocation(super().checkpoint_location(checkpoint_id).uri)
        return MemorySnapshotLocation(f"{MEMORY_SCHEME}/{self.job_id}/chk-{checkpoint_id}")
