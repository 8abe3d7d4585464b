"""The input of a task whose head is a source: reads an epoch's elements from the source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pystate.connectors.operators.element_sizes import MEASURE_EVERY, ElementSizes
from pystate.connectors.operators.source_feed import Coordinate
from pystate.connectors.operators.source_operator import (
    LONGEST_TAKE_S,
    MOST_BYTES_PER_EPOCH,
    MOST_ROWS_PER_EPOCH,
    SourceOperator,
    TakeLimit,
)
from pystate.connectors.source import EpochBound, ReaderOutput
from pystate.core.api.output_tag import OutputTag
from pystate.runtime.plan.event_time import own_source_channel
from pystate.runtime.slot.event_time.chain_time import MAX_WATERMARK, MIN_WATERMARK, ChainTime
from pystate.runtime.slot.event_time.watermark_valve import WatermarkValve
from pystate.runtime.slot.operators.operator_output import Output
from pystate.runtime.slot.operators.timestamps import TimestampsAndWatermarks


class _Output(ReaderOutput[Any]):
    """Emits elements into the chain, one after the other.

    Attributes:
        rows: The number of emitted elements.
        sizes: Their approximate size.
        watermark: The highest watermark; None if there was none.
        idle: Whether the source is idle.
        most_rows: The number of elements wanted at once, if they are small.
        assigners: The assigners that set the timestamps of each split's elements.
        epoch: The bounds of the running epoch; None for none.
    """

    def __init__(self, output: Output, time: ChainTime) -> None:
        self._emit = output.emit
        self._emit_tagged = output.emit_tagged
        self._time = time
        self.rows = 0
        self.sizes = ElementSizes(MOST_BYTES_PER_EPOCH)
        self.watermark = MIN_WATERMARK
        self.idle = False
        self.most_rows = MOST_ROWS_PER_EPOCH
        self.assigners: Sequence[TimestampsAndWatermarks] = ()
        self.epoch = None
        self._since: int | None = None

    def begin(self, epoch: EpochBound | None, *, whole: bool) -> None:
        """Begin to read, either all elements or as many as are wanted."""
        self.epoch = None if whole else epoch
        self._since = None if whole else self.rows

    def collect(self, record: Any, timestamp: int | None = None) -> None:
        """Emit an element."""
        if not self.rows % MEASURE_EVERY:
            self.sizes.measure(record)
        self.rows += 1
        self.idle = False
        self._time.timestamp = timestamp
        self._emit(record)

    def collect_side(self, tag: OutputTag, value: Any, timestamp: int | None = None) -> None:
        """Emit an element to a side output."""
        self.rows += 1
        self._time.timestamp = timestamp
        self._emit_tagged(tag, value)

    def emit_watermark(self, watermark: int) -> None:
        """Store a watermark; it takes effect after the epoch's elements."""
        self.watermark = max(self.watermark, watermark)
        self.idle = False

    def most(self) -> int:
        """Return the maximum number of elements to read, counted from `begin`."""
        return self.sizes.bound(self.most_rows)

    def room(self) -> int:
        """Return how many of them are still wanted, at least one."""
        return self.most() if self._since is None else max(1, self.most() - (self.rows - self._since))

    def mark_idle(self) -> None:
        """Mark the source as idle."""
        self.idle = True

    def mark_active(self) -> None:
        """Mark the source as active."""
        self.idle = False

    def set_splits(self, splits: Mapping[str, bool]) -> None:
        """Set the splits that determine event time."""
        self.idle = not splits
        for assigner in self.assigners:
            assigner.set_splits(splits)

    def begin_split(self, split_id: str) -> None:
        """Assign the following elements to a split."""
        for assigner in self.assigners:
            assigner.begin_split(split_id)


class SourceInput:
    """Reads the elements of one subtask's source, one epoch at a time.

    Args:
        source: The source operator.
        output: Receives the elements.
        time: The chain's time.
        uid: The operator's uid.
        touch: Called if the running epoch has read something: the position doesn't go back with a rollback.

    Attributes:
        failed_at: The origin of the element with which `take` failed; None if it didn't, or if unknown.
        longest_s: The longest time for which it reads.
        ends_apart: At the end, emit only the source's own watermark; the caller ends event time after it.
        is_roused: The source has reported input since it was last asked.
    """

    def __init__(
        self, source: SourceOperator, output: Output, time: ChainTime, uid: str, touch: Callable[[], object]
    ) -> None:
        self._source = source
        self._time = time
        self._channel = own_source_channel(uid)
        self._touch = touch
        self._output = _Output(output, time)
        self.failed_at: str | None = None
        self.longest_s = LONGEST_TAKE_S
        self.ends_apart = False
        self.is_roused = False

    @property
    def most_rows(self) -> int:
        """The maximum number of elements per epoch."""
        return self._output.most_rows

    def bound(self, most_rows: int, most_bytes: int) -> None:
        """Set how much is read at once."""
        self._output.most_rows, self._output.sizes.most_bytes = most_rows, most_bytes

    def have_times(self, assigners: Sequence[TimestampsAndWatermarks]) -> None:
        """Set the assigners that see the elements as the source emits them."""
        self._output.assigners = assigners

    @property
    def ended(self) -> bool:
        """Whether no element follows."""
        return self._source.ended

    def connect(self, coordinate: Coordinate, wake: Callable[[], object]) -> None:
        """Connect the source to the driver; see `SourceOperator.connect`."""

        def rouse() -> None:
            self.is_roused = True
            wake()

        self._source.connect(coordinate, rouse)

    def answer(self, subtask: int, number: int, messages: list[Any]) -> list[Any] | None:
        """Answer a reader as its enumerator; see `SourceOperator.answer`."""
        return self._source.answer(subtask, number, messages)

    def take(self, valve: WatermarkValve, *, whole: bool, epoch: EpochBound | None = None) -> None:
        """Read the available elements.

        Args:
            valve: The task's only input; receives the watermark.
            whole: Whether to wait for all elements until the end of the source.
            epoch: The bounds of the reading epoch; None for none.

        Raises:
            Exception: The user code's error.
        """
        output, before = self._output, self._output.rows
        seconds = None if whole else self.longest_s
        limit = TakeLimit(lambda: output.rows - before, seconds, output.most)
        output.begin(epoch, whole=whole)
        try:
            self._source.take(output, limit, wait=whole)
        except Exception:
            self.failed_at = self._source.describe_position()
            raise
        finally:
            self._time.timestamp = None
            if output.rows > before:
                self._touch()
        at_end = self.ended and not self.ends_apart
        watermark, idle = (MAX_WATERMARK, False) if at_end else (output.watermark, output.idle)
        valve.take(self._channel, watermark, idle=idle, now=self._time.clock())

    def next_due(self, timer: int | None) -> int | None:
        """Return when the next epoch should read, ms since 1970; None for when the source reports input, or never.

        Args:
            timer: The time of another reason to run an epoch.
        """
        self.is_roused = False  # before the source is asked: it may report input at once
        idle = [at for assigner in self._output.assigners if (at := assigner.next_idle()) is not None]
        due = [at for at in (self._source.next_due(self._time.clock()), timer, *idle) if at is not None]
        return min(due, default=None)
