"""The output of a subtask to others: rows by routing, watermarks and barriers to all (Flink's RecordWriter)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pyarrow as pa

from pystate.core.records.codec import KIND_FIELD
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.engines.real_time.slot.frames import Frame, FrameKind, local_frame, pack_frame, pack_message
from pystate.runtime.engines.real_time.slot.output.channel_selector import channel_selector
from pystate.runtime.plan.channels import JobChannels, Place
from pystate.runtime.plan.job_plan import edges_of
from pystate.runtime.plan.task import TaskSpec
from pystate.runtime.plan.task_output import OutputSpec, Routing

MOST_BYTES = 128 << 10
"""The bytes of records in one frame. Some queues are limited by frames, and a barrier waits for everything queued."""


_FEW = 64
"""So few rows are seldom too many bytes, and to write them takes less than to ask for the size of their batch."""


def serialized(batch: pa.RecordBatch) -> list[tuple[Any, int]]:
    """Return a batch as data that fit into a frame each, with their rows; a larger record goes alone."""
    if batch.num_rows <= _FEW:
        data = batch.serialize()
        if batch.num_rows < 2 or len(data) <= MOST_BYTES:  # noqa: PLR2004 - one can't be split
            return [(data, batch.num_rows)]
    return [(part.serialize(), part.num_rows) for part in frame_sized(batch)]


def frame_sized(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in parts that fit into a frame each; a larger record goes alone."""
    rows = batch.num_rows
    if rows < 2 or (size := batch.nbytes) <= MOST_BYTES:
        return iter((batch,))
    step = -(-rows // min(rows, -(-size // MOST_BYTES)))
    return (batch.slice(begin, step) for begin in range(0, rows, step))


class FrameSender(Protocol):
    """Sends the frames of one subtask."""

    def send(self, frame: bytes) -> None:
        """Send a frame; waits while the receivers lag behind.

        Raises:
            ControlError: The connection is lost.
        """


Deliver = Callable[[Frame], None]
"""Hands a frame to a subtask of the same slot; waits while there is no room."""


def nowhere(_place: Place) -> Deliver | None:
    """Say of each place that it isn't in this slot."""
    return None


class RecordWriter:
    """The outgoing channels of one subtask.

    Args:
        task: The task.
        subtask: The subtask index.
        channels: All channels of the job.
        sender: Sends the frames for other slots.
        local: Returns what takes the frames for a place of this slot (Flink's LocalInputChannel); None for other places.

    Attributes:
        blocked_ns: How long sending has waited in total.
        sent_bytes: The total size of the frames.
    """

    def __init__(
        self,
        task: TaskSpec,
        subtask: int,
        channels: JobChannels,
        sender: FrameSender,
        local: Callable[[Place], Deliver | None] = nowhere,
    ) -> None:
        self.blocked_ns = 0
        self.sent_bytes = 0
        self._sender = sender
        self._local = local
        self._edges: dict[int, tuple[str, int, Callable[[pa.RecordBatch], Any]]] = {}
        self._places: dict[str, list[Place]] = {}
        self._numbers: dict[str, int] = {}
        for edge in edges_of(task):
            uid = str(edge.target)
            target = channels.tasks[uid]
            self._edges[edge.tag] = (uid, edge.input_index, channel_selector(edge, target, subtask))
            self._places[uid] = target.places()
            self._numbers[uid] = target.upstream.index((task.uid, subtask))
        self._sent = {place: 0 for places in self._places.values() for place in places}

    def write(self, output: OutputSpec, batch: pa.RecordBatch) -> int:
        """Send the rows of a batch to their subtasks; return the bytes of data, what all get counted once."""
        tag = output.tag
        if output.routing is Routing.WATERMARK:
            uid, index, _ = self._edges[-1 - tag]
            data = batch.serialize()
            for place in self._places[uid]:
                self._send(uid, place, FrameKind.WATERMARKS, data, index, batch.num_rows)
            return len(data)
        uid, index, select = self._edges[tag]
        shares: Any = select(batch)
        places = self._places[uid]
        before: pa.RecordBatch | None = None
        parts: list[tuple[Any, int]] = []
        written = 0
        kind = FrameKind.BATCH if batch.schema.get_field_index(KIND_FIELD) < 0 else FrameKind.CHANGES
        for subtask, rows in shares:
            if before is not rows:  # rows for all subtasks are serialized once
                parts = serialized(rows)
                written += sum(len(data) for data, _ in parts)
            before = rows
            for data, count in parts:
                self._send(uid, places[subtask], kind, data, index, count)
        return written

    def broadcast_barrier(self, barrier: CheckpointBarrier) -> None:
        """Send a barrier after all earlier data."""
        self._broadcast(FrameKind.BARRIER, pack_message(barrier.to_plain()))

    def broadcast_cancel(self, checkpoint_id: int) -> None:
        """Signal that a checkpoint was cancelled."""
        self._broadcast(FrameKind.CANCEL, pack_message(checkpoint_id))

    def broadcast_end_of_data(self) -> None:
        """Signal that no record follows."""
        self._broadcast(FrameKind.END_OF_DATA, b"")

    def _broadcast(self, kind: FrameKind, data: bytes) -> None:
        for uid, places in self._places.items():
            for place in places:
                self._send(uid, place, kind, data)

    def _send(self, uid: str, place: Place, kind: FrameKind, data: Any, index: int = 0, rows: int = 0) -> None:
        number, channel, deliver = self._sent[place], self._numbers[uid], self._local(place)
        self._sent[place] = number + 1
        began, worked = time.perf_counter_ns(), time.thread_time_ns()
        if deliver is None:
            frame = pack_frame(place, kind, channel, number, data, index=index, rows=rows)
            self._sender.send(frame)
            self.sent_bytes += len(frame)
        else:
            taken = local_frame(kind, channel, number, data, index=index, rows=rows)
            deliver(taken)
            self.sent_bytes += len(taken.packed)
        self.blocked_ns += max(0, time.perf_counter_ns() - began - time.thread_time_ns() + worked)
