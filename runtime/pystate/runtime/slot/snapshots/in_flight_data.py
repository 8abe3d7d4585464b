"""Data in flight to a subtask, on its way into a checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO, Protocol

from pystate.core.snapshot.handles.handles import StateHandle
from pystate.core.snapshot.handles.input_channel_state import InputChannelStateHandle
from pystate.core.snapshot.metadata import OperatorSubtaskState, TaskState
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation


class InFlightPart(Protocol):
    """Encoded elements that are in one piece."""

    def chunks(self) -> Iterator[bytes]:
        """Go through the bytes."""

    def close(self) -> None:
        """Drop them."""


@dataclass(frozen=True)
class InFlightData:
    """What was under way to a subtask.

    Attributes:
        upstream: By channel: the task and the subtask of it that sent.
        parts: In the order in which they are to be replayed.
    """

    upstream: tuple[tuple[str, int], ...]
    parts: tuple[InFlightPart, ...]

    def add_to(self, state: TaskState, uid: str, subtask: int, location: SnapshotLocation, threshold: int) -> TaskState:
        """Write the data, and return a task's state with it.

        Args:
            state: Of the task.
            uid: The task's, and that of the operator that heads it.
            subtask: Which share.
            location: The snapshot's directory.
            threshold: Up to this many bytes go into the handle.

        Raises:
            SnapshotError: It can't be written.
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
