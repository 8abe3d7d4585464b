"""In-memory snapshots of one operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pystate.common.errors import StateError
from pystate.core.snapshot import round_robin_repartitioner
from pystate.core.snapshot.metadata import CheckpointMetadata, CheckpointType, SavepointFormatType
from pystate.core.snapshot.operator_state import OperatorState, OperatorSubtaskState
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.core.snapshot.state_assignment import JobVertex, StateAssignmentOperation
from pystate.core.snapshot.storage.memory_storage import MemorySnapshotLocation
from pystate.core.snapshot.storage.snapshot_location import MEMORY_SCHEME
from pystate.runtime.slot.snapshots.frozen_task import FrozenTask
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator

UID = "operator"
"""The uid of the operator in every harness."""

_ANY_SIZE = 1 << 62


@dataclass(frozen=True)
class OperatorSnapshot:
    """The state that one subtask wrote at a checkpoint, or the share of one subtask at another parallelism.

    Attributes:
        checkpoint_id: The id of the checkpoint; None for state that isn't of one.
        subtask_index: The subtask that wrote it, or gets it.
        parallelism: The number of subtasks.
        max_parallelism: The number of key groups.
        written: The state that the subtask wrote; None after a repartition.
        restored: The state for a subtask that starts from it.
    """

    checkpoint_id: int | None
    subtask_index: int
    parallelism: int
    max_parallelism: int
    written: OperatorSubtaskState | None = field(repr=False)
    restored: RestoredOperator = field(repr=False)

    @property
    def state_size(self) -> int:
        """The number of bytes that the subtask wrote; 0 after a repartition."""
        return 0 if self.written is None else self.written.state_size

    @staticmethod
    def write(
        frozen: FrozenTask, checkpoint_id: int, subtask_index: int, parallelism: int, max_parallelism: int
    ) -> OperatorSnapshot:
        """Write a snapshot to memory, with the code that writes it to a checkpoint storage."""
        location = MemorySnapshotLocation(f"{MEMORY_SCHEME}/test/chk-{checkpoint_id}")
        try:
            task = frozen.write(location, subtask_index, _ANY_SIZE)
        finally:
            frozen.release()
        written = task.operators.get(UID, OperatorSubtaskState())
        restored = RestoredOperator(
            location.uri,
            written.keyed_state,
            round_robin_repartitioner.repartition([written.operator_state], 1)[0],
            written.raw_keyed_state,
            round_robin_repartitioner.repartition([written.raw_operator_state], 1)[0],
        )
        return OperatorSnapshot(checkpoint_id, subtask_index, parallelism, max_parallelism, written, restored)

    @staticmethod
    def from_savepoint(path: str, uid: str, parallelism: int = 1) -> list[OperatorSnapshot]:
        """Return the state of an operator of a job in a savepoint or checkpoint, as the share of each subtask.

        Args:
            path: The directory of the savepoint or checkpoint, or its `_metadata`.
            uid: The operator's uid there.
            parallelism: The number of subtasks that take over.

        Raises:
            SnapshotError: There is no such snapshot or operator.
            RestoreError: The state can't be redistributed that way.
            StateError: It is an unaligned checkpoint, which has elements that are still to be processed.
        """
        reader = SnapshotReader(path)
        operator = reader.operator(uid)
        vertex = JobVertex(uid, operator.name, parallelism)
        assigned = StateAssignmentOperation(reader.metadata, [vertex], allow_non_restored=True, where=path).assign()
        if assigned.in_flight:
            message = f"The checkpoint has elements in flight to operator {uid!r}, which a harness can't be given."
            raise StateError(message, where=path, hint="take a savepoint, which has none")
        return [
            OperatorSnapshot(
                reader.metadata.checkpoint_id,
                index,
                parallelism,
                operator.max_parallelism,
                None,
                RestoredOperator.of(assigned, uid, index, reader.location.uri),
            )
            for index in range(parallelism)
        ]


def repartition(
    snapshots: Sequence[OperatorSnapshot], old_parallelism: int, new_parallelism: int, max_parallelism: int
) -> list[OperatorSnapshot]:
    """Redistribute the state of all subtasks of an operator to a new parallelism, as a restore does.

    Args:
        snapshots: The snapshots of all old subtasks at one checkpoint, in any order.
        old_parallelism: The number of old subtasks.
        new_parallelism: The number of new subtasks; may be the same.
        max_parallelism: The number of key groups, of both.

    Returns:
        The share of each new subtask.

    Raises:
        StateError: A subtask's snapshot is missing, or they don't belong together.
        RestoreError: The state can't be redistributed that way.
    """
    ordered = sorted(snapshots, key=lambda one: one.subtask_index)
    if [one.subtask_index for one in ordered] != list(range(old_parallelism)):
        found = [one.subtask_index for one in ordered]
        message = f"There must be one snapshot of each of {old_parallelism} subtasks; there are those of {found}."
        raise StateError(message)
    if any(one.max_parallelism != max_parallelism or one.parallelism != old_parallelism for one in ordered):
        message = "The snapshots are of operators with another parallelism or max parallelism."
        raise StateError(message)
    if len({one.checkpoint_id for one in ordered}) != 1 or any(one.written is None for one in ordered):
        message = "The snapshots must be of one checkpoint, and as the subtasks took them."
        raise StateError(message)
    checkpoint_id, location = ordered[0].checkpoint_id, ordered[0].restored.location
    subtasks = {one.subtask_index: one.written for one in ordered if one.written is not None}
    operator = OperatorState(UID, UID, old_parallelism, max_parallelism, subtasks=subtasks)
    metadata = CheckpointMetadata(
        checkpoint_id or 0,
        CheckpointType.CHECKPOINT,
        SavepointFormatType.CANONICAL,
        timestamp_ms=0,
        job_id="",
        job_name="",
        epoch=0,
        parallelism=old_parallelism,
        max_parallelism=max_parallelism,
        operators=[operator],
    )
    vertex = JobVertex(UID, UID, new_parallelism, max_parallelism)
    assignment = StateAssignmentOperation(metadata, [vertex]).assign()
    shares = [RestoredOperator.of(assignment, UID, index, location) for index in range(new_parallelism)]
    return [
        OperatorSnapshot(checkpoint_id, index, new_parallelism, max_parallelism, None, share)
        for index, share in enumerate(shares)
    ]
