"""The restored state of one operator in one subtask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from pystate.common.key_groups import KeyGroupRange
from pystate.core.snapshot.handles.handles import StateHandle
from pystate.core.snapshot.handles.incremental_handle import AnyKeyedStateHandle
from pystate.core.snapshot.handles.input_channel_state import InputChannelStateHandle
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.handles.operator_state_handle import RAW_STATE_NAME, OperatorStateShare
from pystate.core.snapshot.state_assignment import StateAssignment
from pystate.core.snapshot.storage.local_copies import LocalCopies
from pystate.core.snapshot.storage.memory_storage import snapshot_location
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.operator.operator_state_backend import OperatorStateBackend
from pystate.core.state.operator.raw_state import RAW_KEYED_FORMAT, RAW_OPERATOR_FORMAT, read_raw_state
from pystate.runtime.slot.snapshots.restore_progress import RestoreProgress


@dataclass(frozen=True)
class RestoredOperator:
    """The parts of restored state that are assigned to one subtask of an operator.

    Attributes:
        location: The URI of the snapshot's directory.
        keyed_state: The complete handles that contain key groups of the subtask.
        operator_state: The parts of handles that the subtask reads.
        raw_keyed_state: Like `keyed_state`, for raw state.
        raw_operator_state: Like `operator_state`, for raw state.
        in_flight: The subtask's in-flight data, for the operator that heads a task; None for none.
        owned: Whether the job's own checkpoints may refer to the snapshot's shared files, since the job took the snapshot
            itself.
        copies: Local copies, read if they match; None for none.
        progress: Counts the bytes read; None for no count.
    """

    location: str = ""
    keyed_state: list[AnyKeyedStateHandle] = field(default_factory=list)
    operator_state: list[OperatorStateShare] = field(default_factory=list)
    raw_keyed_state: list[KeyedStateHandle] = field(default_factory=list)
    raw_operator_state: list[OperatorStateShare] = field(default_factory=list)
    in_flight: InputChannelStateHandle | None = None
    owned: bool = False
    copies: LocalCopies | None = None
    progress: RestoreProgress | None = None

    @staticmethod
    def of(assignment: StateAssignment, uid: str, subtask: int, location: str, *, owned: bool = False) -> RestoredOperator:
        """Return the state that an assignment gives to a subtask of an operator.

        Args:
            assignment: The state assignment.
            uid: The operator's uid.
            subtask: The index of the subtask.
            location: The URI of the snapshot's directory.
            owned: See the attribute.
        """
        place = (uid, subtask)
        return RestoredOperator(
            location,
            assignment.keyed_state_handles.get(place, []),
            assignment.operator_state.get(place, []),
            assignment.raw_keyed_state.get(place, []),
            assignment.raw_operator_state.get(place, []),
            assignment.in_flight.get(place),
            owned,
        )

    def restore_operator(self, backend: OperatorStateBackend) -> None:
        """Restore an operator state backend.

        Raises:
            PystateError: See `OperatorStateBackend.restore`, `SnapshotLocation.open`.
        """
        for share in self.operator_state:
            with self.open(share.handle.handle) as file:
                backend.restore(file, share.elements, self.location)

    def raw_keyed(self, key_groups: KeyGroupRange) -> Iterator[tuple[int, BinaryIO]]:
        """Yield (key group, bytes) of the key groups that a subtask owns."""
        for handle in self.raw_keyed_state:
            mine = handle.key_group_range.intersect(key_groups)
            with self.open(handle.handle) as file:
                yield from read_raw_state(file, RAW_KEYED_FORMAT, range(mine.start, mine.end + 1), self.location)

    def raw_operator(self) -> Iterator[BinaryIO]:
        """Yield the partitions."""
        for share in self.raw_operator_state:
            with self.open(share.handle.handle) as file:
                wanted = range(*share.elements[RAW_STATE_NAME])
                for _, stream in read_raw_state(file, RAW_OPERATOR_FORMAT, wanted, self.location):
                    yield stream

    def snapshot_location(self) -> SnapshotLocation:
        """Return the location from which the snapshot is read, preferably from local copies, if there are any."""
        location = snapshot_location(self.location)
        return location if self.copies is None else self.copies.reading(location)

    def open(self, handle: StateHandle) -> BinaryIO:
        """Open a verified part of the snapshot for reading.

        Raises:
            PystateError: See `SnapshotLocation.open`.
        """
        return self.snapshot_location().open(handle)
