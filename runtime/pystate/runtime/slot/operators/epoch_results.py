"""Mini-batches: emits only the last result of each key of a rolling aggregation, when the epoch ends."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import repeat
from typing import Any

from pystate.core.state.keys.key_context import InternalKeyContext
from pystate.core.state.kinds.value_states import OverlayValueState
from pystate.runtime.slot.event_time.chain_time import ChainTime
from pystate.runtime.slot.operators.operator_output import Emit

_IN_STATE = object()
"""Marks a result that is in the state."""


class EpochResults:
    """Keeps the last result of each key until the epoch ends (`execution.mini-batch.enabled`).

    Results are emitted in the order in which their keys first appeared, each with the timestamp of its element.

    Args:
        context: Holds the key of the result.
        time: The chain's time.
        emit: Receives the results.
    """

    def __init__(self, context: InternalKeyContext, time: ChainTime, emit: Emit) -> None:
        self._context = context
        self._time = time
        self._emit = emit
        self._results: dict[Hashable, tuple[Any, int | None]] = {}
        self._groups: dict[Hashable, int] = {}  # of keys whose results are in the state
        self._state: OverlayValueState | None = None
        self._drain_columns: Callable[[bool], None] | None = None

    def read_from(self, state: OverlayValueState, drain_columns: Callable[[bool], None]) -> None:
        """Set the state that holds the results of an operator that computes them by columns.

        Args:
            state: The state of noted keys.
            drain_columns: Called before the results are emitted, with whether there are none: then it emits its own,
                otherwise it notes their keys.
        """
        self._state, self._drain_columns = state, drain_columns

    def note_keys(self, keys: Sequence[Hashable], key_groups: Sequence[int]) -> None:
        """Record that the state has a new result for each of some keys, without timestamps."""
        self._results.update(zip(keys, repeat((_IN_STATE, None))))
        self._groups.update(zip(keys, key_groups, strict=True))

    def note(self, result: Any) -> None:
        """Record a result of the current key, replacing the previous one."""
        self._results[self._context.active_key] = (result, self._time.timestamp)

    def note_all(self, keys: Iterable[Hashable], results: Iterable[Any]) -> None:
        """Record a result for each of some keys, without timestamps."""
        self._results.update(zip(keys, zip(results, repeat(None)), strict=False))

    def drain(self) -> None:
        """Emit the results."""
        if self._drain_columns is not None:
            self._drain_columns(not self._results)
        results, self._results = self._results, {}
        if self._groups and self._state is not None:
            self._read(results, self._state)
        time = self._time
        try:
            for result, time.timestamp in results.values():
                self._emit(result)
        finally:
            time.timestamp = None

    def _read(self, results: dict[Hashable, tuple[Any, int | None]], state: OverlayValueState) -> None:
        """Fill in the results that are in the state."""
        groups, self._groups = self._groups, {}
        held = state.overlay
        for key, group in groups.items():
            if results[key][0] is _IN_STATE:
                results[key] = (held[key] if key in held else state.load(key, group)), None

    def roll_back_epoch(self) -> None:
        """Drop the results."""
        self._results = {}
        self._groups = {}
