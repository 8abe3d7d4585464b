"""Watermarks as the rows that carry them from task to task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa

from pystate.runtime.plan.task_output import WATERMARK_SCHEMA, OutputSpec
from pystate.runtime.slot.operators.timestamps import TimestampsAndWatermarks


class OutgoingWatermark(NamedTuple):
    """The watermark of one of a task's edges.

    Attributes:
        edge: The edge.
        channel: The edge's channel.
        watermark: The watermark, ms since 1970.
        is_idle: Whether the edge is idle.
    """

    edge: OutputSpec
    channel: str
    watermark: int
    is_idle: bool

    def batch(self) -> tuple[OutputSpec, pa.RecordBatch]:
        """Return the output for the edge's watermarks, and the row."""
        return self.edge.watermarks(), watermark_row(self.channel, self.watermark, idle=self.is_idle)


def watermark_row(channel: str, watermark: int, *, idle: bool) -> pa.RecordBatch:
    """Return the row that carries a channel's watermark."""
    return pa.RecordBatch.from_arrays(
        [pa.array([channel]), pa.array([watermark], pa.int64()), pa.array([idle])], schema=WATERMARK_SCHEMA
    )


def watermark_rows(batch: pa.RecordBatch) -> Iterator[tuple[str, int, bool]]:
    """Yield channel, watermark and idleness of each row."""
    columns = [batch.column(name).to_pylist() for name in WATERMARK_SCHEMA.names]
    yield from zip(*columns, strict=True)


def watermark_of(
    edge: OutputSpec, assigners: Mapping[str, TimestampsAndWatermarks], task: int, *, task_is_idle: bool
) -> tuple[int, bool]:
    """Return an edge's watermark, and whether the edge is idle.

    Args:
        edge: An edge with event time.
        assigners: The chain's assigners, by uid.
        task: The watermark of the task.
        task_is_idle: Whether all inputs of the task are idle.
    """
    known = [
        (task, task_is_idle) if uid is None else (assigners[uid].watermark, assigners[uid].is_idle) for uid in edge.assigners
    ]
    active = [watermark for watermark, idle in known if not idle]
    return min(active or [watermark for watermark, _ in known]), not active
