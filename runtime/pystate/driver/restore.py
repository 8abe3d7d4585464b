"""From a snapshot to what each slot gets: which handles, which epoch, which source position."""

from __future__ import annotations

from typing import Any

from pystate.checkpoint.metadata import read_metadata
from pystate.checkpoint.state_assignment import JobVertex, StateAssignmentOperation
from pystate.checkpoint.storage import resolve_snapshot
from pystate.common.errors import JobGraphError, RestoreError
from pystate.common.type_info import TypeInformation
from pystate.driver.restored_state import RestoredState, Snapshot
from pystate.spark.job_plan import JobPlan
from pystate.spark.spark_checkpoint import unpack_archive
from pystate.state.base.keys import KeyCompatibility, check_key_compatible, key_type_name


def load_snapshot(path: str) -> Snapshot:
    """Read the metadata of the snapshot at `path`, a directory or its `_metadata`.

    Raises:
        RestoreError: There is none.
        CorruptSnapshotError: It is damaged.
    """
    location = resolve_snapshot(path)
    return Snapshot(location, read_metadata(location.read_metadata(), location.uri), starting=True)


class RestorePlan:
    """Fits snapshots to one job.

    Args:
        plan: The job.
        explicit_max_parallelism: The max parallelism the author set, None where it is left to us.
        allow_non_restored: Whether state of operators the job doesn't have may be left behind.
    """

    def __init__(self, plan: JobPlan, explicit_max_parallelism: int | None, *, allow_non_restored: bool) -> None:
        self._plan = plan
        self._explicit = explicit_max_parallelism
        self._allow_non_restored = allow_non_restored

    def adopt_max_parallelism(self, snapshot: Snapshot) -> None:
        """Give the job's tasks the number of key groups their state has.

        Raises:
            RestoreError: The snapshot doesn't fit the job.
        """
        assignment = self._assignment(snapshot)
        for task in self._plan.tasks:
            task.max_parallelism = assignment.max_parallelism.get(task.uid, task.max_parallelism)

    def check_parallelism(self) -> None:
        """Refuse more subtasks than key groups.

        Raises:
            JobGraphError: So it is.
        """
        for task in self._plan.tasks:
            if task.parallelism > task.max_parallelism:
                message = (
                    f"{task.name!r} has parallelism {task.parallelism} above its max parallelism {task.max_parallelism}."
                )
                raise JobGraphError(message, hint=f"run with -p {task.max_parallelism} or less")

    def nothing(self, epoch: int) -> RestoredState:
        """Return the start from nothing; the first epoch's number is `epoch` + 1."""
        return RestoredState(handles=[{} for _ in range(self._plan.tasks[0].parallelism)], spark_files={}, epoch=epoch)

    def from_snapshot(self, snapshot: Snapshot, epoch: int, job_id: str) -> RestoredState:
        """Return the state of a snapshot, spread over this job's slots.

        Args:
            snapshot: What to restore.
            epoch: The number that the snapshot's epoch gets in this job.
            job_id: This job; sinks see a query of its own where the snapshot is another job's.

        Raises:
            RestoreError: It doesn't fit.
            CorruptSnapshotError: It is damaged.
        """
        self._check_key_types(snapshot)
        assignment = self._assignment(snapshot)
        handles: list[dict[str, list[tuple[str, dict[str, Any]]]]] = []
        for index in range(self._plan.tasks[0].parallelism):
            by_uid = {}
            for task in self._plan.tasks:
                found = assignment.keyed_state_handles.get((task.uid, index), [])
                by_uid[task.uid] = [(snapshot.location.uri, handle.to_plain()) for handle in found]
            handles.append(by_uid)
        position = snapshot.metadata.source_position
        files: dict[str, bytes] = {}
        batch_id = -1
        if position is not None:
            batch_id = position.epoch
            with snapshot.location.open(position.files) as archive:
                files = unpack_archive(archive.read())
        return RestoredState(handles, files, batch_id, epoch, keep_query_id=snapshot.metadata.job_id == job_id)

    def _assignment(self, snapshot: Snapshot) -> Any:
        vertices = [
            JobVertex(task.uid, task.name, task.parallelism, self._explicit)
            for task in self._plan.tasks
            if task.key is not None
        ]
        return StateAssignmentOperation(snapshot.metadata, vertices, allow_non_restored=self._allow_non_restored).assign()

    def _check_key_types(self, snapshot: Snapshot) -> None:
        old = {operator.uid: operator for operator in snapshot.metadata.operators}
        for task in self._plan.tasks:
            operator = old.get(task.uid)
            if operator is None or task.key is None:
                continue
            old_type = None if operator.key_type is None else TypeInformation.from_plain(operator.key_type)
            if check_key_compatible(old_type, task.key.key_type) is KeyCompatibility.INCOMPATIBLE:
                old_name, new_name = key_type_name(old_type), key_type_name(task.key.key_type)
                message = (
                    f"The state of {task.name!r} was written with keys of type {old_name}; the job's key_by() gives "
                    f"{new_name}. A key type never changes."
                )
                raise RestoreError(message, where=f"uid {task.uid}", hint="give key_by() the old key_type")
