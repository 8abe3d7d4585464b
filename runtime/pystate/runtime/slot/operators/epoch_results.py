"""Mini-batches and BATCH mode: emits only the last result of each key of a rolling aggregation."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from itertools import repeat
from typing import Any

from pystate.core.state.keys.key_context import InternalKeyContext
from pystate.runtime.slot.event_time.chain_time import MAX_WATERMARK, ChainTime
from pystate.runtime.slot.operators.operator_output import Emit

DrainColumns = Callable[[bool], None]
"""Emits results that are kept as columns, or, if given False, notes them."""


class EpochResults:
    """Keeps the last result of each key, until `drain` emits it.

    With `execution.mini-batch.enabled` that is at the end of an epoch: results come in the order in which their keys first
    appeared, each with the timestamp of its element. In BATCH mode it is at the end of each key; results have the timestamp
    of Flink's last watermark, as if by a timer of the key (source: PyFlink's reduce in BATCH mode).

    Args:
        context: Holds the key of the result.
        time: The chain's time.
        emit: Receives the results.

    Attributes:
        drain_columns: Called before the results are emitted, with whether there are none; None if no results are kept as
            columns.
    """

    def __init__(self, context: InternalKeyContext, time: ChainTime, emit: Emit) -> None:
        self.drain_columns: DrainColumns | None = None
        self._context = context
        self._time = time
        self._emit = emit
        self._results: dict[Hashable, tuple[Any, int | None]] = {}

    def note(self, result: Any) -> None:
        """Record a result of the current key, replacing the previous one."""
        self._results[self._context.active_key] = (result, self._time.timestamp)

    def note_all(self, keys: Iterable[Hashable], results: Iterable[Any]) -> None:
        """Record a result for each of some keys, without timestamps."""
        self._results.update(zip(keys, zip(results, repeat(None)), strict=False))

    def drain(self) -> None:
        """Emit the results; in BATCH mode only if their key has ended."""
        time = self._time
        if time.sorted_input and not time.quiesced:
            return
        if self.drain_columns is not None:
            self.drain_columns(not self._results)
        results, self._results = self._results, {}
        try:
            for result, timestamp in results.values():
                time.timestamp = MAX_WATERMARK if time.sorted_input else timestamp
                self._emit(result)
        finally:
            time.timestamp = None

    def roll_back_epoch(self) -> None:
        """Drop the results."""
        self._results = {}
