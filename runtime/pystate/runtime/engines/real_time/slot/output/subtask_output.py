"""The output of a subtask: rows and watermarks for other subtasks, barriers, and lines and results for the driver."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import pyarrow as pa

from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.engines.real_time.slot.output.output_pause import OutputPause
from pystate.runtime.engines.real_time.slot.output.record_writer import RecordWriter
from pystate.runtime.plan.task_output import OutputKind, OutputSpec
from pystate.runtime.slot.chain.watermark_rows import OutgoingWatermark
from pystate.runtime.slot.metrics.task_metrics import TaskMetrics


class RealTimeGateway(Protocol):
    """Additional calls to the driver by subtasks of this engine."""

    def printed(self, uid: str, subtask: int, tag: int, batch: pa.RecordBatch) -> None:
        """Have lines printed."""

    def collected(self, uid: str, subtask: int, tag: int, last_barrier: int, batch: pa.RecordBatch) -> None:
        """Send results for the program, produced after the barrier of checkpoint `last_barrier`."""

    def ended(self, uid: str, subtask: int) -> None:
        """Report that all elements are processed."""

    def source_messages(self, uid: str, subtask: int, number: int, messages: list[Any]) -> list[Any] | None:
        """Send a reader's messages to its enumerator, and return the answers; None if it accepts none now."""


class SubtaskOutput:
    """The outputs of one subtask.

    Args:
        uid: The task's uid.
        subtask: The subtask index.
        writer: Sends to other subtasks.
        driver: Sends to the driver.
        pause: Notified of barriers.

    Attributes:
        last_barrier: The checkpoint whose barrier was sent last.
        pause: Whether only barriers may be sent.
    """

    def __init__(self, uid: str, subtask: int, writer: RecordWriter, driver: RealTimeGateway, pause: OutputPause) -> None:
        self.last_barrier = 0
        self.pause = pause
        self._uid = uid
        self._subtask = subtask
        self._writer = writer
        self._driver = driver
        self._told: dict[str, OutgoingWatermark] = {}

    @property
    def sent_bytes(self) -> int:
        """The number of bytes sent to other subtasks."""
        return self._writer.sent_bytes

    def write(self, output: OutputSpec, batch: pa.RecordBatch, metrics: TaskMetrics) -> None:
        """Send a batch."""
        if output.kind is OutputKind.EDGE:
            blocked_ns = self._writer.blocked_ns
            size = self._writer.write(output, batch)
            metrics.blocked_ns += self._writer.blocked_ns - blocked_ns
            metrics.batch_out(output.tag, batch.num_rows, size)
            return
        metrics.batch_out(output.tag, batch.num_rows, batch.nbytes)
        if output.kind is OutputKind.PRINT:
            self._driver.printed(self._uid, self._subtask, output.tag, batch)
        else:
            self._driver.collected(self._uid, self._subtask, output.tag, self.last_barrier, batch)

    def write_watermarks(self, watermarks: Iterable[OutgoingWatermark]) -> None:
        """Send the watermarks that have changed."""
        for outgoing in watermarks:
            if self._told.get(outgoing.channel) != outgoing:
                self._told[outgoing.channel] = outgoing
                self._writer.write(*outgoing.batch())

    def barrier(self, barrier: CheckpointBarrier) -> None:
        """Send a barrier after all earlier output."""
        self._writer.broadcast_barrier(barrier)
        self.last_barrier = barrier.checkpoint_id
        self.pause.barrier_sent(barrier)

    def cancel(self, checkpoint_id: int) -> None:
        """Signal that the barrier of a checkpoint won't come."""
        self._writer.broadcast_cancel(checkpoint_id)

    def end_of_data(self) -> None:
        """Signal that no record follows."""
        self._writer.broadcast_end_of_data()
        self._driver.ended(self._uid, self._subtask)
