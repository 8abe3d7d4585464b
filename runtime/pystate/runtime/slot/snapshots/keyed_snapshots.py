"""Snapshots and restores of a subtask's keyed state: as a canonical file, or as the backend's native files."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import BinaryIO

from pystate.common.configuration.groups.state_backend_options import RocksDBOptions
from pystate.common.errors import CorruptSnapshotError
from pystate.core.snapshot.handles.incremental_handle import IncrementalKeyedStateHandle
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.native_state import NativeUpload, SharedTarget, download
from pystate.core.snapshot.storage.local_copies import LocalCopies
from pystate.core.state.base.backend_snapshot import KeyedStateSnapshot, NativeSource, unreadable_native
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.base.loader import name_of
from pystate.runtime.slot.snapshots.restore_progress import RestoreProgress, bytes_to_read
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator
from pystate.runtime.slot.snapshots.uploaded_files import UploadedFiles


class KeyedSnapshots:
    """The snapshots of one backend.

    Args:
        backend: The keyed state.
        copies: Stores local copies; None for none.
    """

    def __init__(self, backend: KeyedStateBackend, copies: LocalCopies | None = None) -> None:
        self._backend = backend
        self._copies = copies
        self._threads = backend.configuration.get(RocksDBOptions.CHECKPOINT_TRANSFER_THREAD_NUM)
        self._uploaded = UploadedFiles()

    def freeze(
        self, checkpoint_id: int, shared: SharedTarget | None, *, native: bool = False
    ) -> KeyedStateSnapshot | NativeUpload:
        """Freeze the last flushed epoch.

        Args:
            checkpoint_id: The checkpoint.
            shared: The directory for files that later checkpoints may refer to; None for a self-contained snapshot.
            native: Whether a self-contained snapshot uses the backend's native files, if it has such, instead of a canonical
                file.

        Raises:
            StateError: The backend doesn't support it.
        """
        own = self._backend.snapshot_native() if native or shared is not None else None
        if own is None:
            return self._backend.snapshot()
        if shared is None:  # later checkpoints must not refer to it, so it is not recorded
            return NativeUpload(own, self._backend.key_group_range, {}, None, self._threads)
        for completed in shared.completed:
            self._uploaded.confirm(completed)
        return NativeUpload(
            own,
            self._backend.key_group_range,
            {} if shared.anew else self._uploaded.confirmed(),
            shared,
            self._threads,
            None if self._copies is None else partial(self._copies.link, checkpoint_id),
            partial(self._uploaded.written, checkpoint_id),
        )

    def checkpoint_failed(self, checkpoint_id: int) -> None:
        """Record that a checkpoint was aborted. May be called from any thread.

        Completed checkpoints are passed to the next snapshot instead: a notification may be late or never come, and a
        snapshot may refer only to files that the coordinator expects.
        """
        self._uploaded.forget(checkpoint_id)

    def restore(self, restored: RestoredOperator) -> None:
        """Restore the backend.

        Raises:
            PystateError: See `KeyedStateBackend.restore` and `restore_native`, `SnapshotLocation.open`.
        """
        canonical = [handle for handle in restored.keyed_state if isinstance(handle, KeyedStateHandle)]
        native = [handle for handle in restored.keyed_state if isinstance(handle, IncrementalKeyedStateHandle)]
        if native and canonical:
            message = "The keyed state of one operator is in files of different kinds."
            raise CorruptSnapshotError(message, where=restored.location)
        if native:
            self._restore_native(restored, native)
            return
        with ExitStack() as opened:
            files = [opened.enter_context(self._counted(restored, handle)) for handle in canonical]
            self._backend.restore(files)

    def _counted(self, restored: RestoredOperator, handle: KeyedStateHandle) -> AbstractContextManager[BinaryIO]:
        expected = bytes_to_read(handle, self._backend.key_group_range)
        return (restored.progress or RestoreProgress()).reading(restored.open(handle.handle), expected)

    def _restore_native(self, restored: RestoredOperator, handles: list[IncrementalKeyedStateHandle]) -> None:
        backend, parent, location = self._backend, self._backend.working_directory, restored.snapshot_location()
        formats = {handle.format for handle in handles}
        if parent is None or formats != {backend.native_format}:
            raise unreadable_native(formats, name_of(backend))
        progress = restored.progress or RestoreProgress()
        sources: list[NativeSource] = []
        try:
            with ExitStack() as opened:
                for handle in handles:
                    directory = tempfile.mkdtemp(prefix="restored-", dir=parent)
                    download(handle, location, directory, self._threads, progress.add)
                    meta = opened.enter_context(location.open(handle.meta))
                    sources.append(NativeSource(directory, meta, restored.location, handle.key_group_range))
                base = backend.restore_native(sources)
        except BaseException:
            for source in sources:
                shutil.rmtree(source.directory, ignore_errors=True)
            raise
        if base is not None and restored.owned:
            self._uploaded = UploadedFiles(handles[base].shared)
