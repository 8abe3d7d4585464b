"""Gives elements their times, and makes the watermarks behind them (Flink's TimestampsAndWatermarksOperator)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pystate.common.errors import JobExecutionError
from pystate.common.watermark_strategy import NO_TIMESTAMP, WatermarkStrategy
from pystate.runtime.slot.event_time.chain_time import MIN_WATERMARK, ChainTime
from pystate.runtime.slot.operators.operator_output import Emit
from pystate.runtime.slot.operators.split_times import SplitTimes


class TimestampsAndWatermarks:
    """One assigner at work in one subtask, or in one Spark task of a source.

    Args:
        strategy: Where times come from, and how late elements may be.
        emit: Takes the elements.
        time: Of the chain.
        name: Of the step, for errors.
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
        """Give one element its time, and hand it on."""
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
        """The watermark behind all elements so far, ms since 1970; `MIN_WATERMARK` for none."""
        return self._watermark_behind(self._all_highest())

    @property
    def current_watermark(self) -> int:
        """The watermark that functions behind it see, ms since 1970: it stands still within an epoch, or an interval."""
        return self._watermark_behind(self._finished)

    @property
    def is_idle(self) -> bool:
        """Whether nothing has come for as long as the strategy waits; with splits, for none of them."""
        if self._splits is not None:
            self._keep_split()
            return self._splits.are_idle
        timeout = self._strategy.idle_timeout_ms
        return timeout is not None and not self._seen and self._time.clock() - self._heard >= timeout

    def _watermark_behind(self, highest: int) -> int:
        bound = self._strategy.max_out_of_orderness_ms
        if bound is None or highest == MIN_WATERMARK:
            return MIN_WATERMARK
        return max(MIN_WATERMARK, highest - bound - 1)

    @property
    def highest(self) -> int:
        """The highest timestamp so far, ms since 1970; `MIN_WATERMARK` for none."""
        return self._highest

    def begin(self, highest: int = MIN_WATERMARK) -> None:
        """Forget all elements: those of another Spark task follow, or of another partition that was as far as `highest`."""
        self._highest = self._finished = highest

    # -- right behind a source whose splits have event times of their own

    def set_splits(self, splits: Mapping[str, bool]) -> None:
        """Tell which splits there are; see `ReaderOutput.set_splits`."""
        self._keep_split()
        if self._splits is None:
            self._splits = SplitTimes(self._strategy.idle_timeout_ms, self._time.clock)
        self._splits.set(splits)
        if self._split not in splits:
            self._split, self._highest, self._seen = None, MIN_WATERMARK, False

    def begin_split(self, split_id: str) -> None:
        """Take the elements that follow for those of a split that was told of."""
        self._keep_split()
        if self._splits is not None:
            self._split = split_id
            self._highest, self._seen = self._splits.of(split_id)

    def next_idle(self) -> int | None:
        """Return when it holds nobody up any more, or its next split, ms since 1970; None for never.

        Without splits that may be past: it has been idle since then. What has come counts once `finish_epoch` is called.
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
        """Let functions behind it see its watermark, which nothing takes back."""
        self._finished = self._all_highest()

    # -- epochs

    def finish_epoch(self) -> None:
        """Keep what the epoch's elements have told."""
        self._finished = self._all_highest()
        if self._splits is not None:
            self._splits.finish()
        if self._seen:
            self._heard, self._seen = self._time.clock(), False

    def roll_back_epoch(self) -> None:
        """Forget the epoch's elements; where there are splits, none had come, or the attempt fails."""
        if self._splits is None:
            self._highest, self._seen = self._finished, False
