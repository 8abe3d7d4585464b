"""Recovery of the checkpoints that an earlier driver of the job left on the storage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pystate.common.errors import CorruptSnapshotError, PystateError
from pystate.common.files.job_files import JobFile, Reserve
from pystate.core.snapshot.metadata_file import read_metadata
from pystate.core.snapshot.storage.checkpoint_storage_access import CheckpointStorageAccess
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.runtime.checkpoint.id_counter import CheckpointIdCounter
from pystate.runtime.job_folder.small_files import CheckpointIdsFile


class DurableCheckpointIds(CheckpointIdCounter):
    """A checkpoint id counter whose ids no later driver of the job repeats, including those of savepoints.

    Args:
        path: The file that holds the next id.
        reserve: Room for it on a full disk: a job can be stopped with a savepoint on another one.
    """

    def __init__(self, path: JobFile, reserve: Reserve | None = None) -> None:
        written = CheckpointIdsFile.read_from(path)
        super().__init__(1 if written is None else written.next)
        self._path = path
        self._reserve = reserve

    def get_and_increment(self) -> int:
        """Return the next id, after persisting that it is used."""
        written = CheckpointIdsFile.read_from(self._path)
        if written is not None:  # a driver that has taken the job over counts on in the same file
            self.continue_above(written.next - 1)
        given = super().get_and_increment()
        CheckpointIdsFile(given + 1).write_to(self._path, self._reserve)
        return given


@dataclass
class RecoveredCheckpoints:
    """The checkpoints of a job that another driver has run before.

    Attributes:
        completed: Those that are readable, oldest first.
        highest_id: The highest id of any, completed or not; 0 for none.
        damaged: Why the others can't be read, by id, newest first: which files they refer to is unknown.
        missing: The id and location of the newest, if it doesn't exist any more.
    """

    completed: list[CompletedCheckpoint] = field(default_factory=list)
    highest_id: int = 0
    damaged: dict[int, PystateError] = field(default_factory=dict)
    missing: tuple[int, str] | None = None

    def lost_after(self, checkpoint_id: int) -> tuple[int, str, str] | None:
        """Return the newest lost checkpoint, if it is newer than the given one: its id, its location, and the reason."""
        if self.missing is not None and self.missing[0] > max(checkpoint_id, *self.damaged, 0):
            number, uri = self.missing
            return number, uri, "It completed, as the job's statistics say, and there is no _metadata of it."
        for number, error in self.damaged.items():
            if number > checkpoint_id:
                return number, error.where or "", error.message
        return None


def recover_checkpoints(
    storage: CheckpointStorageAccess, job_id: str, say: Callable[[str], None], last_completed: int | None = None
) -> RecoveredCheckpoints:
    """Find the job's completed checkpoints, and delete the remains of incomplete ones.

    Args:
        storage: Where they are.
        job_id: The job; checkpoints of other jobs in the same directory are left alone.
        say: Is called with a sentence about a damaged one that an older one replaces.
        last_completed: The id of the last that is known to have completed; None if there is none. What is left of it stays.

    Raises:
        CorruptSnapshotError: The newest is damaged, and there is no older one.
        SnapshotError: The storage can't be read, or isn't there.
    """
    recovered = RecoveredCheckpoints()
    found = dict(storage.checkpoint_directories())
    if last_completed is not None and storage.has_checkpoint_directory:
        found.setdefault(last_completed, storage.checkpoint_location(last_completed))  # a listing may be out of date
    for checkpoint_id, location in sorted(found.items(), reverse=True):
        recovered.highest_id = max(recovered.highest_id, checkpoint_id)
        if not location.exists:
            if checkpoint_id != last_completed:
                _discard_incomplete(storage, location, say)
            continue
        try:
            metadata = read_metadata(location.read_metadata(), location.uri)
        except CorruptSnapshotError as error:
            recovered.damaged[checkpoint_id] = error
            continue
        if metadata.job_id == job_id:
            recovered.completed.insert(0, CompletedCheckpoint(metadata, location.uri, metadata.timestamp_ms))
    known = {*recovered.damaged, *(one.checkpoint_id for one in recovered.completed)}
    if last_completed is not None and storage.has_checkpoint_directory and last_completed > max(known, default=0):
        storage.check_there()  # else it would count as deleted, and the job would continue from an older state, or from none
        recovered.highest_id = max(recovered.highest_id, last_completed)
        recovered.missing = last_completed, storage.checkpoint_location(last_completed).uri
    if recovered.damaged and not recovered.completed:
        raise next(iter(recovered.damaged.values()))
    for damage in recovered.damaged.values():
        say(f"WARNING: A checkpoint is damaged and left out: {damage}")
    return recovered


def _discard_incomplete(storage: CheckpointStorageAccess, location: SnapshotLocation, say: Callable[[str], None]) -> None:
    if not storage.is_the_jobs_own:  # another job may be writing it
        return
    try:
        location.discard()
    except PystateError as error:
        say(f"WARNING: {error}")
