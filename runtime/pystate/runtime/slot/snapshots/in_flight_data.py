"""The in-flight data of a subtask, to be written into a checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO, Protocol

from pystate.core.snapshot.handles.handles import StateHandle
from pystate.core.snapshot.handles.input_channel_state import InputChannelStateHandle
from pystate.core.snapshot.operator_state import OperatorSubtaskState, TaskState
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation


class InFlightPart(Protocol):
    """One piece of encoded elements."""

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes in chunks."""

    def close(self) -> None:
        """Drop the bytes."""


@dataclass(frozen=True)
class InFlightData:
    """The in-flight data of a subtask.

    Attributes:
        upstream: By channel: the sending task and subtask.
        parts: The parts in replay order.
    """

    upstream: tuple[tuple[str, int], ...]
    parts: tuple[InFlightPart, ...]

    def add_to(self, state: TaskState, uid: str, subtask: int, location: SnapshotLocation, threshold: int) -> TaskState:
        """Write the data, and return a task's state that includes it.

        Args:
            state: The task's state.
            uid: The uid of the task, and of the operator that heads it.
            subtask: The subtask index.
            location: The snapshot's directory.
            threshold: Up to this many bytes are stored in the handle.

        Raises:
            SnapshotError: The data can't be written.
        """
        name = f"{hashlib.md5(uid.encode(), usedforsecurity=False).hexdigest()[:12]}-{subtask}-channel"
        handles = [_write(part, location, name, threshold) for part in self.parts]
        of_head = state.operators.get(uid, OperatorSubtaskState())
        in_flight = InputChannelStateHandle(list(self.upstream), handles)
        return TaskState({**state.operators, uid: replace(of_head, input_channel_state=in_flight)})

    def close(self) -> None:
        """Drop the data."""
        for part in self.parts:
            part.close()


def _write(part: InFlightPart, location: SnapshotLocation, name: str, threshold: int) -> StateHandle:
    def write(sink: BinaryIO) -> None:
        for chunk in part.chunks():
            sink.write(chunk)

    return location.write_state(name, write, threshold)
