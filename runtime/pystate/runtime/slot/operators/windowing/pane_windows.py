"""The operator for sliding windows that share panes: counts, and sums and extremes of integers.

For these aggregations neither the order of elements nor the order of merging makes a difference. So an element is added to
one pane of the length of the slide, and a firing window merges its panes. A pane is kept until its last window has fired.
Results are those of `AlignedWindowOperator`.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable
from typing import Any

from pystate.common.overrides import override
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.core.api.aggregation import AccumulateType, ElementCount, FieldAggregation
from pystate.core.api.window.assigners import SlidingEventTimeWindows
from pystate.core.api.window.window_operation import WindowOperation
from pystate.core.api.window.windows import TimeWindow
from pystate.core.snapshot.reading.window_states import WINDOW_CONTENTS, PaneState
from pystate.core.state.base.timer_schema import Timer, check_time, new_timer
from pystate.core.state.kinds.accumulators import Accumulators
from pystate.runtime.slot.operators.windowing.aligned_windows import AlignedWindowOperator, Pane, is_aligned
from pystate.runtime.slot.operators.windowing.pane_tables import PaneTables, Window
from pystate.runtime.slot.operators.windowing.window_contents import contents_descriptor

_EXTREMES = {AccumulateType.MIN: "min", AccumulateType.MAX: "max"}
_INTEGERS = (TypeKind.BYTE, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG, TypeKind.BIG_INT)


def pane_state(operation: WindowOperation, input_type: TypeInformation | None) -> PaneState | None:
    """Return the pane state of a step; None if its windows can't share panes.

    Elements with fields are excluded: their other fields are those of the first element of a window, which panes don't
    store. So are sums of LONG and BIG_INT: more sums than those of windows could exceed the type.
    """
    assigner: Any = operation.assigner
    if not is_aligned(operation) or type(assigner) is not SlidingEventTimeWindows:
        return None
    size, slide = assigner.size, assigner.slide
    if size <= slide or size % slide:
        return None
    if type(operation.aggregate_function) is ElementCount:
        return PaneState("count", size, slide)
    function = operation.reduce_function
    if type(function) is not FieldAggregation or input_type is None or input_type.kind not in _INTEGERS:
        return None
    if function.kind is AccumulateType.SUM and input_type.kind in (TypeKind.LONG, TypeKind.BIG_INT):
        return PaneState("sum", size, slide)
    kind = _EXTREMES.get(function.kind)
    return None if kind is None else PaneState(kind, size, slide)


class PaneWindowOperator(AlignedWindowOperator):
    """An `AlignedWindowOperator` whose windows share panes. For the arguments see `WindowOperator`."""

    def __init__(self, operation: WindowOperation, input_type: TypeInformation | None, *args: Any) -> None:
        panes = pane_state(operation, input_type)
        assert panes is not None  # noqa: S101 - the creator has checked
        self._pane_state = panes
        self._sums = panes.merge is operator.add
        super().__init__(operation, input_type, *args)
        self._pending: dict[Hashable, Any] = {}  # the firing window's result of keys with panes in memory
        self._gathered: dict[Window, dict[Hashable, Any]] = {}  # the same of the other keys, of the current key group
        self._group = -1
        self._whole: Accumulators | None = None  # windows of a snapshot written before panes were shared
        if WINDOW_CONTENTS in self._backend.state_names():
            handle = self._states.handle(contents_descriptor(operation, input_type, WINDOW_CONTENTS))
            self._whole = Accumulators.of(handle)

    @property
    @override
    def _contents_name(self) -> str:
        return self._pane_state.name

    @override
    def _new_tables(self) -> PaneTables:
        self._pane_tables = PaneTables(self._pane_state, self._accumulators, self._event_timers, self._backend.kept_bytes)
        return self._pane_tables

    @override
    def _pane(self, timestamp: int) -> Pane:
        slide = self._pane_state.slide
        start = timestamp - (timestamp - self.pane_offset) % slide
        due = self._pane_state.due(start, self._time.watermark)
        if due is None:
            return ()
        check_time(start + self._pane_state.size - 1)
        table = self._pane_tables.pane(start, due)
        return ((table.accumulators, table),)

    def begin_time(self, time: int) -> None:
        """Collect the panes in memory of the window that ends at a time, before the timers of that time."""
        self._pending.clear()  # of a failed epoch
        self._gathered.clear()
        self._group = -1
        for part in self._pane_tables.fire(time):
            self._merge_into(self._pending, part)

    @override
    def on_event_times(self, timers: Iterable[Timer]) -> None:
        """Collect the state of the window that ends at the timers' time, and move the timers to the next window.

        All timers of a time and a key group come together.
        """
        slide, size, read, remove = (
            self._pane_state.slide,
            self._pane_state.size,
            self._accumulators.read,
            self._accumulators.remove,
        )
        whole, gathered, merge = self._whole, self._gathered, self._pane_state.merge
        add = self._event_timers.add

        def gather(window: Window, key: Hashable, accumulator: Any) -> None:
            of_window = gathered.setdefault(window, {})
            before = of_window.get(key)
            of_window[key] = accumulator if before is None else merge(before, accumulator)

        for time, key, key_group, namespace in timers:
            if key_group != self._group:
                self._fire_gathered()
                self._group = key_group
            pane: Any = namespace
            address = key, namespace
            if whole is not None and time >= pane[1] - 1:
                accumulator = whole.read(address, key_group)
                if accumulator is not None:
                    whole.remove(address, key_group)
                    if time == pane[1] - 1:
                        gather(pane, key, accumulator)
                    else:  # of an operator with more allowed lateness, where the window has fired
                        self._keys.active_key, self._keys.active_key_group = key, key_group
                        self._clear_function_states(TimeWindow(*pane))
            if pane[1] - pane[0] != slide:
                continue
            accumulator = read(address, key_group)
            if accumulator is None:
                continue
            gather((time + 1 - size, time + 1), key, accumulator)
            if time == pane[0] + size - 1:
                remove(address, key_group)
            else:
                add(new_timer(time + slide, key, key_group, namespace))

    @override
    def on_own_timers(self, time: int) -> int:
        """Fire the window that ends at a time for all keys; return the number of keys that had panes in memory."""
        self._fire_gathered()
        pending, groups = self._pending, self._pane_tables.key_groups
        window = time + 1 - self._pane_state.size, time + 1
        self._fire(window, pending, groups)
        return len(pending)

    def _fire_gathered(self) -> None:
        """Fire the windows of the current key group for the keys without panes in memory."""
        gathered, pending, merge = self._gathered, self._pending, self._pane_state.merge
        for window, found in gathered.items():
            if window[1] - window[0] == self._pane_state.size:
                for key in [key for key in found if key in pending]:
                    pending[key] = merge(pending[key], found.pop(key))
            self._fire(window, found, dict.fromkeys(found, self._group))
        gathered.clear()
        self._group = -1

    def _fire(self, window: Window, results: dict[Hashable, Any], groups: dict[Hashable, int]) -> None:
        """Emit the results of a window for some keys."""
        context, time, accumulators = self._keys, self._time, self._accumulators
        checked, result_of = accumulators.checked, accumulators.result
        plain, output, clears = self._operation.window_function is None, self._output, self._clears
        shown = TimeWindow(*window)
        time.timestamp = window[1] - 1
        for key, accumulator in results.items():
            context.active_key = key
            context.active_key_group = groups[key]
            result = result_of(checked(accumulator) if self._sums else accumulator)
            if plain:
                output.collect(result)
            else:
                time.timestamp = window[1] - 1
                self._emit(shown, [result])
            if clears is not None:
                self._context.select(shown)
                clears.clear(self._context)

    def _merge_into(self, merged: dict[Hashable, Any], part: dict[Hashable, Any]) -> None:
        if not merged:
            merged.update(part)
        elif self._sums:
            known = merged.get
            for key, accumulator in part.items():
                merged[key] = known(key, 0) + accumulator
        else:
            merge = self._pane_state.merge
            for key, accumulator in part.items():
                before = merged.get(key)
                merged[key] = accumulator if before is None else merge(before, accumulator)
