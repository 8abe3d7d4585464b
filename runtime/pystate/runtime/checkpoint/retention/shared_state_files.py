"""The files shared by several checkpoints of a job: their location, and when they are deleted.

The names of the files contain the checkpoint and the driver that wrote them. So the remains of a failed checkpoint are found
even if the slot that wrote them is dead, and a driver never takes another one's files for its own.
"""

from __future__ import annotations

import secrets
import sys
import threading
from collections.abc import Iterable

from pystate.common.errors import PystateError
from pystate.core.snapshot.handles.handles import FileStateHandle
from pystate.core.snapshot.handles.incremental_handle import AnyKeyedStateHandle, IncrementalKeyedStateHandle, SharedFile
from pystate.core.snapshot.metadata import CheckpointMetadata, CheckpointType
from pystate.core.snapshot.storage.checkpoint_storage_access import CheckpointStorageAccess
from pystate.core.snapshot.storage.ownership import place_of_shared
from pystate.core.snapshot.storage.shared_state_folder import SHARED_FILE, SharedStateFolder, shared_folders
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.runtime.checkpoint.retention.shared_state_registry import SharedStateRegistry


class SharedStateFiles:
    """The shared files of one job. Its methods may be called from any thread.

    Args:
        storage: The checkpoint storage.
        job_id: The job.
        writes: Whether checkpoints are to be incremental.
    """

    def __init__(self, storage: CheckpointStorageAccess, job_id: str, *, writes: bool) -> None:
        self._writes = writes
        self._location = storage.shared_location if storage.has_checkpoint_directory else None
        self._job_id = job_id
        self._directory = storage.job_directory if storage.has_checkpoint_directory else None
        self._job = job_id[:16]
        self._driver = secrets.token_hex(4)
        self._registry: SharedStateRegistry[FileStateHandle] = SharedStateRegistry()
        self._latest: dict[str, FileStateHandle] = {}  # what the last checkpoint names, by content
        self._duplicates: dict[int, list[FileStateHandle]] = {}
        self._lock = threading.Lock()

    def target(self, checkpoint_id: int) -> tuple[str | None, str]:
        """Return the URI of the directory for a checkpoint's shared files, or None, and how their names begin."""
        if not self._writes or self._location is None:
            return None, ""
        return self._location.uri, self._prefix(checkpoint_id)

    def settled(self, metadata: CheckpointMetadata) -> CheckpointMetadata:
        """Return the metadata of a checkpoint without duplicates of files that the previous checkpoint has.

        Two checkpoints that were under way at the same time may both have written a file. It is the one before that counts,
        not any that is there: slots decide the same when they confirm the checkpoint, see `UploadedFiles`, and must not be
        left with a file that is gone.
        """
        duplicates: list[FileStateHandle] = []

        def settle_file(file: SharedFile) -> SharedFile:
            known = self._latest.get(file.key)
            if known is None or known.path == file.handle.path:
                return file
            duplicates.append(file.handle)
            return SharedFile(file.key, known)

        def settle(handle: AnyKeyedStateHandle) -> AnyKeyedStateHandle:
            return handle.with_shared(settle_file) if isinstance(handle, IncrementalKeyedStateHandle) else handle

        with self._lock:
            settled = metadata.map_keyed_state(settle)
            self._duplicates[metadata.checkpoint_id] = duplicates
        return settled

    def completed(self, metadata: CheckpointMetadata) -> None:
        """Register the files of a checkpoint that completed with the metadata of `settled`."""
        with self._lock:
            self._register(metadata)
            if metadata.checkpoint_type is CheckpointType.CHECKPOINT:
                self._latest = {file.key: file.handle for file in metadata.shared_files}
            # what an older checkpoint names goes with that one: it may be kept, or be there because it can't be deleted
            replaced = self._duplicates.pop(metadata.checkpoint_id, [])
            duplicates = [handle for handle in replaced if handle.path not in self._registry]
        self._delete(duplicates)

    def begin_attempt(self) -> None:
        """Register that slots begin with the files they are restored from."""
        with self._lock:
            self._latest = {}

    def subsumed(self, lowest: int) -> None:
        """Delete the files that neither that checkpoint nor a newer one refers to."""
        with self._lock:
            unused = self._registry.unregister_unused(lowest)
        self._delete(unused)

    def discard_failed(self, checkpoint_id: int) -> None:
        """Delete the files that a failed checkpoint has created; no other one ever refers to them."""
        with self._lock:
            self._duplicates.pop(checkpoint_id, None)
        if self._writes:
            prefix = self._prefix(checkpoint_id)
            self._delete_names(name for name in self._names() if name.removeprefix(".").startswith(prefix))

    def recover(self, retained: Iterable[CompletedCheckpoint]) -> None:
        """Replace the content by the files of an earlier driver's checkpoints."""
        with self._lock:
            self._registry = SharedStateRegistry()
            for checkpoint in sorted(retained, key=lambda one: one.checkpoint_id):
                self._register(checkpoint.metadata)

    def adopt(self, metadata: CheckpointMetadata, *, claimed: bool) -> None:
        """Adopt the shared files of the checkpoint the job starts from.

        A note beside the files declares that this job uses them, as long as any of its checkpoints may.

        Args:
            metadata: The metadata of that checkpoint.
            claimed: Whether the files are the job's from now on; else they are never deleted.

        Raises:
            PystateError: The note can't be written.
        """
        for uri in shared_folders(metadata):
            uses = SharedStateFolder(uri).uses
            known = uses.read().get(self._job_id)
            if known is None or known.owned != claimed:
                uses.remove(self._job_id)
                uses.write(self._job_id, self._directory, owned=claimed)
        files = [(file.handle.path, file.handle) for file in metadata.shared_files]
        with self._lock:
            self._registry.register_restored(files, metadata.checkpoint_id, claimed=claimed)

    def end(self, retained: Iterable[CheckpointMetadata]) -> None:
        """Delete the files that aren't needed after the job's end, except for those in other jobs' folders.

        Args:
            retained: The job's checkpoints that stay.
        """
        retained = list(retained)
        held = {file.handle.path for metadata in retained for file in metadata.shared_files}
        with self._lock:
            handles = self._registry.handles()
            self._registry = SharedStateRegistry()
            for metadata in retained:
                self._register(metadata)
        self._delete_foreign(handle for handle in handles if handle.path not in held)
        self.delete_orphans()

    def delete_orphans(self, below: int | None = None) -> None:
        """Delete the job's files that no retained checkpoint refers to, while no checkpoint is pending.

        Args:
            below: Only those of checkpoints with a lower number; None for all.
        """
        with self._lock:
            held = {self._name(handle) for handle in self._registry.handles()}
        found = [(name, SHARED_FILE.fullmatch(name)) for name in self._names() if name not in held]
        self._delete_names(
            name
            for name, match in found
            if match is not None and match[1] == self._job and (below is None or int(match[2]) < below)
        )

    def _register(self, metadata: CheckpointMetadata) -> None:
        for file in metadata.shared_files:
            self._registry.register(file.handle.path, file.handle, metadata.checkpoint_id)

    def _prefix(self, checkpoint_id: int) -> str:
        return f"{self._job}-{checkpoint_id}-{self._driver}-"

    def _name(self, handle: FileStateHandle) -> str | None:
        """Return the name of a file of the job's own; None for one of another job, or in another directory."""
        directory, name = place_of_shared(handle)
        match = SHARED_FILE.fullmatch(name)
        ours = not self._is_foreign(directory) and match is not None and match[1] == self._job
        return name if ours else None

    def _is_foreign(self, directory: str) -> bool:
        return self._location is None or directory != self._location.uri.rstrip("/")

    def _names(self) -> list[str]:
        if self._location is None:
            return []
        try:
            return self._location.file_names()
        except PystateError as error:
            _warn(error)
            return []

    def _delete(self, handles: Iterable[FileStateHandle]) -> None:
        handles = list(handles)
        self._delete_names(name for name in map(self._name, handles) if name is not None)
        self._delete_foreign(handle for handle in handles if self._name(handle) is None)

    def _delete_foreign(self, handles: Iterable[FileStateHandle]) -> None:
        """Delete files written by other jobs that this job has claimed and no other one needs.

        The job leaves a folder with the last file in it that its checkpoints refer to.
        """
        folders: dict[str, list[FileStateHandle]] = {}
        for handle in handles:
            if self._name(handle) is None:
                folders.setdefault(place_of_shared(handle)[0], []).append(handle)
        with self._lock:
            used = {place_of_shared(handle)[0] for handle in self._registry.handles()}
        for uri, files in folders.items():
            try:
                folder = SharedStateFolder(uri)
                note = folder.uses.read().get(self._job_id)
                if note is not None and note.owned:
                    folder.free(files, besides=self._job_id)
                if note is not None and uri not in used:
                    folder.uses.remove(self._job_id)
            except PystateError as error:  # it is unknown whether they are needed
                _warn(error)

    def _delete_names(self, names: Iterable[str]) -> None:
        for name in names:
            try:
                self._shared().remove(name)
            except PystateError as error:
                _warn(error)

    def _shared(self) -> SnapshotLocation:
        assert self._location is not None  # noqa: S101 - there are names only where there is a directory
        return self._location


def _warn(error: PystateError) -> None:
    sys.stderr.write(f"WARNING: {error}\n")
