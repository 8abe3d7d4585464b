"""Assigns timestamps to elements and generates watermarks (Flink's TimestampsAndWatermarksOperator)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pystate.common.errors import JobExecutionError
from pystate.common.watermark_strategy import NO_TIMESTAMP, WatermarkStrategy
from pystate.runtime.slot.event_time.chain_time import MIN_WATERMARK, ChainTime
from pystate.runtime.slot.operators.operator_output import Emit
from pystate.runtime.slot.operators.split_times import SplitTimes


class TimestampsAndWatermarks:
    """The assigner of one subtask, or of one Spark task of a source.

    Args:
        strategy: Determines timestamps, and the allowed lateness of elements.
        emit: Receives the elements.
        time: The chain's time.
        name: The step's name, for errors.
    """

    def __init__(self, strategy: WatermarkStrategy, emit: Emit, time: ChainTime, name: str) -> None:
        self._strategy = strategy
        self._emit = emit
        self._time = time
        self._name = name
        self._heard = time.clock()
        self._highest = self._finished = MIN_WATERMARK
        self._seen = False
        self._splits: SplitTimes | None = None
        self._split: str | None = None

    def process_element(self, element: Any) -> None:
        """Assign a timestamp to an element, and emit it."""
        time, assign = self._time, self._strategy.timestamp_assigner
        before = timestamp = time.timestamp
        if assign is not None:
            timestamp = assign(element, NO_TIMESTAMP if before is None else before)
            if type(timestamp) is not int:
                message = f"extract_timestamp() returns ms since 1970 as an int, not {timestamp!r}."
                raise JobExecutionError(message, where=self._name)
        self._seen = True
        if timestamp is not None and timestamp > self._highest:
            self._highest = timestamp
        time.timestamp = timestamp
        try:
            self._emit(element)
        finally:
            time.timestamp = before

    @property
    def watermark(self) -> int:
        """The watermark after all elements so far, ms since 1970; `MIN_WATERMARK` for none."""
        return self._watermark_after(self._all_highest())

    @property
    def current_watermark(self) -> int:
        """The watermark that downstream functions see, ms since 1970; it doesn't change within an epoch or interval."""
        return self._watermark_after(self._finished)

    @property
    def is_idle(self) -> bool:
        """Whether there was no element for the strategy's idle timeout; with splits, for none of them."""
        if self._splits is not None:
            self._keep_split()
            return self._splits.are_idle
        timeout = self._strategy.idle_timeout_ms
        return timeout is not None and not self._seen and self._time.clock() - self._heard >= timeout

    def _watermark_after(self, highest: int) -> int:
        bound = self._strategy.max_out_of_orderness_ms
        if bound is None or highest == MIN_WATERMARK:
            return MIN_WATERMARK
        return max(MIN_WATERMARK, highest - bound - 1)

    @property
    def highest(self) -> int:
        """The highest timestamp so far, ms since 1970; `MIN_WATERMARK` for none."""
        return self._highest

    def begin(self, highest: int = MIN_WATERMARK) -> None:
        """Reset before elements of another Spark task, or of another partition, whose highest timestamp was `highest`."""
        self._highest = self._finished = highest

    # -- directly after a source with event times per split

    def set_splits(self, splits: Mapping[str, bool]) -> None:
        """Set the active splits; see `ReaderOutput.set_splits`."""
        self._keep_split()
        if self._splits is None:
            self._splits = SplitTimes(self._strategy.idle_timeout_ms, self._time.clock)
        self._splits.set(splits)
        if self._split not in splits:
            self._split, self._highest, self._seen = None, MIN_WATERMARK, False

    def begin_split(self, split_id: str) -> None:
        """Assign the following elements to one of the active splits."""
        self._keep_split()
        if self._splits is not None:
            self._split = split_id
            self._highest, self._seen = self._splits.of(split_id)

    def next_idle(self) -> int | None:
        """Return when the assigner, or its next split, becomes idle, ms since 1970; None for never.

        Without splits it may be in the past: the assigner has been idle since then. Elements count after `finish_epoch`.
        """
        if self._splits is not None:
            return self._splits.next_idle()
        timeout = self._strategy.idle_timeout_ms
        return None if timeout is None or self._seen else self._heard + timeout

    def _keep_split(self) -> None:
        if self._splits is not None:
            self._splits.keep(self._split, self._highest, seen=self._seen)

    def _all_highest(self) -> int:
        if self._splits is None:
            return self._highest
        self._keep_split()
        return self._splits.highest()

    def on_periodic_emit(self) -> None:
        """Make the watermark visible to downstream functions, irrevocably."""
        self._finished = self._all_highest()

    # -- epochs

    def finish_epoch(self) -> None:
        """Commit the timestamps of the epoch's elements."""
        self._finished = self._all_highest()
        if self._splits is not None:
            self._splits.finish()
        if self._seen:
            self._heard, self._seen = self._time.clock(), False

    def roll_back_epoch(self) -> None:
        """Discard the epoch's elements; with splits there are none, or the attempt fails."""
        if self._splits is None:
            self._highest, self._seen = self._finished, False
