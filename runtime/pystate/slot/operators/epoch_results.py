"""Mini-batches: of a rolling aggregation's results only the last one of each key, when the epoch ends."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import repeat
from typing import Any

from pystate.slot.chain_time import ChainTime
from pystate.slot.operators.output import Emit
from pystate.state.base.key_context import InternalKeyContext


class EpochResults:
    """Keeps the last result of each key until the epoch ends (`execution.mini-batch.enabled`).

    They go on in the order in which their keys were first there, each with the time of the element that brought it about.

    Args:
        context: Has the key whose result it is.
        time: Of the chain.
        emit: Takes the results.
    """

    def __init__(self, context: InternalKeyContext, time: ChainTime, emit: Emit) -> None:
        self._context = context
        self._time = time
        self._emit = emit
        self._results: dict[Hashable, tuple[Any, int | None]] = {}

    def note(self, result: Any) -> None:
        """Take a result of the current key, in the place of the one before."""
        self._results[self._context.active_key] = (result, self._time.timestamp)

    def note_all(self, keys: Iterable[Hashable], results: Iterable[Any]) -> None:
        """Take a result of each of some keys, which have no time."""
        self._results.update(zip(keys, zip(results, repeat(None)), strict=False))

    def drain(self) -> None:
        """Hand the results on."""
        results, self._results = self._results, {}
        time = self._time
        try:
            for result, time.timestamp in results.values():
                self._emit(result)
        finally:
            time.timestamp = None

    def roll_back_epoch(self) -> None:
        """Forget them."""
        self._results = {}
