"""The operator for aligned windows: tumbling and sliding event-time windows that reduce or aggregate and fire at their end.

What `WindowOperator` decides per element and window is the same for all elements of a pane: their windows, whether these are
late, when they fire. So this operator processes elements batch by batch, and fires all timers of a time at once. Results,
state, timers and snapshots are the same.

Sliding windows of some aggregations share panes (`pane_state`): an element is added to one pane of the length of the slide,
and a firing window merges its panes. A pane is kept until its last window has fired.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

from pystate.common.overrides import override
from pystate.common.type_info import TypeInformation
from pystate.core.api.window.assigners import SlidingEventTimeWindows
from pystate.core.api.window.window_operation import WindowOperation
from pystate.core.api.window.windows import MIN_TIMESTAMP, TimeWindow, checked_timestamp
from pystate.core.snapshot.reading.window_states import WINDOW_CONTENTS, PaneState
from pystate.core.state.base.timer_schema import Timer, check_time, new_timer
from pystate.core.state.kinds.accumulators import Accumulators
from pystate.runtime.slot.operators.windowing.window_contents import contents_descriptor
from pystate.runtime.slot.operators.windowing.window_operator import WindowOperator
from pystate.runtime.slot.operators.windowing.window_tables import WindowTable, WindowTables

_PANES_KNOWN = 10_000
"""The number of cached panes; beyond it the cache is cleared."""

Pane = tuple[tuple[dict[Hashable, Any], WindowTable], ...]
"""The tables that elements of a pane are added to, and their accumulators: those of its windows that aren't late, the last
first, or that of the pane if windows share panes."""

Window = tuple[int, int]
"""Start and end, ms; also of panes."""


class AlignedWindowOperator(WindowOperator):
    """A `WindowOperator` that processes batches, and fires in bulk.

    Args:
        panes: The panes that windows share; None if each window has its own accumulators.
        operation: See `WindowOperator`, as for the other arguments.
        input_type: The same.

    Attributes:
        pane_size: The length of a pane, whose times all belong to the same windows, ms.
        pane_offset: A time at which a pane begins.
    """

    def __init__(
        self, panes: PaneState | None, operation: WindowOperation, input_type: TypeInformation | None, *args: Any
    ) -> None:
        self._shared = panes
        super().__init__(operation, input_type, *args)
        accumulators = Accumulators.of(self._contents.handle)
        assert accumulators is not None  # noqa: S101 - see is_aligned
        assigner: Any = self._assigner
        self._accumulators = accumulators
        self.pane_size, self.pane_offset = assigner.panes
        self._size: int = assigner.size if isinstance(assigner, SlidingEventTimeWindows) else self.pane_size
        self._keys = self._backend.key_context
        self._event_timers = self._timers.event_time_timers
        slide = 0 if panes is None else panes.slide
        self._tables = WindowTables(accumulators, self._event_timers, self._backend.kept_bytes, slide)
        self._panes: dict[int, Pane] = {}
        self._panes_at = (MIN_TIMESTAMP, -1)
        self._pending: dict[Hashable, Any] = {}  # the firing window's accumulators of keys in memory
        self._gathered: dict[Window, dict[Hashable, Any]] = {}  # the same of the other keys, of the current key group
        self._group = -1
        self._whole: Accumulators | None = accumulators  # of windows that share no panes
        if panes is not None:
            self._whole = None
            if WINDOW_CONTENTS in self._backend.state_names():  # written before panes were shared
                handle = self._states.handle(contents_descriptor(operation, input_type, WINDOW_CONTENTS))
                self._whole = Accumulators.of(handle)

    @property
    @override
    def _contents_name(self) -> str:
        return WINDOW_CONTENTS if self._shared is None else self._shared.name

    def process_batch(
        self,
        keys: Sequence[Hashable],
        key_groups: Sequence[int],
        elements: Iterable[Any],
        timestamps: Iterable[int | None],
    ) -> None:
        """Add elements to their windows; see `process_element`.

        Args:
            keys: The internal key of each element.
            key_groups: The key group of each element.
            elements: The elements.
            timestamps: Their timestamps; None for none.
        """
        size, offset = self.pane_size, self.pane_offset
        context, tables, panes = self._keys, self._tables, self._known_panes()
        combine, load, groups = self._accumulators.combine, tables.load, tables.key_groups
        for key, key_group, element, timestamp in zip(keys, key_groups, elements, timestamps, strict=True):
            context.active_key = key  # a user function may ask for it
            context.active_key_group = groups[key] = key_group
            if timestamp is None:
                timestamp = checked_timestamp(MIN_TIMESTAMP)  # which rejects it
            start = timestamp - (timestamp - offset) % size
            pane = panes.get(start)
            if pane is None:
                pane = self._pane(timestamp)
                if start > MIN_TIMESTAMP:  # otherwise some of its times are not valid timestamps
                    panes[start] = pane
            if not pane:
                self._pass_by(element, timestamp)
                continue
            for accumulators, table in pane:
                accumulator = accumulators.get(key)
                if accumulator is None and table.asks:
                    accumulator = load(table, key, key_group)
                accumulators[key] = combine(accumulator, element)

    def are_open(self, panes: Iterable[int]) -> bool:
        """Return whether each pane, given by its start, belongs to a window that isn't late."""
        return all(map(self._pane_from, panes))

    def merge(self, key: Hashable, key_group: int, start: int, accumulator: Any) -> None:
        """Merge the accumulator of a key's elements into the windows of their pane, which `are_open`.

        Args:
            key: The internal key.
            key_group: The key group.
            start: The start of the pane.
            accumulator: The accumulator of the elements.
        """
        context, tables, merge = self._keys, self._tables, self._accumulators.merge
        context.active_key = key
        context.active_key_group = tables.key_groups[key] = key_group
        for accumulators, table in self._pane_from(start):
            before = accumulators.get(key)
            if before is None and table.asks:
                before = tables.load(table, key, key_group)
            accumulators[key] = accumulator if before is None else merge(before, accumulator)

    def next_time(self) -> int | None:
        """Return the end of the first window in memory; None if there is none."""
        return self._tables.next_due()

    def own_timers(self) -> Iterator[Timer]:
        """Yield the timers of windows that are only in memory."""
        return self._tables.timers()

    def begin_time(self, time: int) -> None:
        """Collect what is in memory of the window that ends at a time, before the timers of that time."""
        self._gathered.clear()  # of a failed epoch
        self._group = -1
        first, *more = self._tables.fire(time) or [{}]
        self._pending = first if self._shared is None else dict(first)  # that of a pane is still its own
        for part in more:
            self._merge_into(self._pending, part)

    def on_event_times(self, timers: Iterable[Timer]) -> None:
        """Collect what is in the state of the windows of some timers of a time, and remove it.

        All timers of a key group come together. Timers of panes that have more windows move to the next.
        """
        shared, whole, group = self._shared, self._whole, self._group
        slide, size, merge = (0, 0, None) if shared is None else (shared.slide, shared.size, shared.merge)
        highest, add, gathered = self._event_timers.highest_stored(), self._event_timers.add, self._gathered
        read, remove = self._accumulators.read, self._accumulators.remove

        def gather(window: Window, key: Hashable, accumulator: Any) -> None:
            of_window = gathered.setdefault(window, {})
            before = of_window.get(key)
            of_window[key] = accumulator if before is None or merge is None else merge(before, accumulator)

        for time, key, key_group, namespace in timers:
            if key_group != group:
                self._fire_gathered()
                self._group = group = key_group
            window: Any = namespace
            start, end = window
            address = key, namespace
            if whole is not None and time >= end - 1:
                accumulator = whole.read(address, key_group)
                if accumulator is not None:
                    if time > highest:
                        whole.remove_new(address)
                    else:
                        whole.remove(address, key_group)
                    if time == end - 1:
                        gather(window, key, accumulator)
                    else:  # of an operator with more allowed lateness, where the window has fired
                        self._keys.active_key, self._keys.active_key_group = key, key_group
                        self._clear_function_states(TimeWindow(*window))
            if not slide or end - start != slide:
                continue
            accumulator = read(address, key_group)
            if accumulator is None:
                continue
            gather((time + 1 - size, time + 1), key, accumulator)
            if time == start + size - 1:
                remove(address, key_group)
            else:
                add(new_timer(time + slide, key, key_group, namespace))

    def on_own_timers(self, time: int) -> int:
        """Fire the window that ends at a time for the remaining keys; return the number of those in memory."""
        self._fire_gathered()
        pending, self._pending = self._pending, {}
        self._fire((time + 1 - self._size, time + 1), pending, map(self._tables.key_groups.__getitem__, pending))
        return len(pending)

    def _fire_gathered(self) -> None:
        """Fire the windows of the current key group for the keys that aren't in memory."""
        pending = self._pending
        for (start, end), found in self._gathered.items():
            if self._shared is not None and end - start == self._size:
                for key in [key for key in found if key in pending]:
                    pending[key] = self._merged(pending[key], found.pop(key))
            self._fire((start, end), found, repeat(self._group))
        self._gathered.clear()
        self._group = -1

    def _fire(self, window: Window, fired: Mapping[Hashable, Any], key_groups: Iterable[int]) -> None:
        """Emit the results of a window for some keys, and have the function clear its states of the window."""
        context, time, result_of = self._keys, self._time, self._accumulators.result
        plain, output, clears = self._operation.window_function is None, self._output, self._clears
        shown = TimeWindow(*window)
        end = shown.max_timestamp()
        if self._shared is not None and self._shared.merge is operator.add:  # whose sums may be too large
            fired = dict(zip(fired, map(self._accumulators.checked, fired.values()), strict=True))
        for (context.active_key, accumulator), context.active_key_group in zip(fired.items(), key_groups, strict=False):
            result = result_of(accumulator)
            if result is not None:
                time.timestamp = end
                if plain:
                    output.collect(result)
                else:
                    self._emit(shown, [result])
            if clears is not None:
                self._clear_function_states(shown)

    def _merged(self, before: Any, accumulator: Any) -> Any:
        """Return the accumulator of two panes."""
        assert self._shared is not None  # noqa: S101 - only panes are merged
        return accumulator if before is None else self._shared.merge(before, accumulator)

    def _merge_into(self, merged: dict[Hashable, Any], part: dict[Hashable, Any]) -> None:
        assert self._shared is not None  # noqa: S101 - only panes are merged
        known, merge = merged.get, self._shared.merge
        if merge is operator.add:  # the usual case, which is faster without a call
            for key, accumulator in part.items():
                merged[key] = known(key, 0) + accumulator
        else:
            for key, accumulator in part.items():
                merged[key] = self._merged(known(key), accumulator)

    def _known_panes(self) -> dict[int, Pane]:
        """Return the known panes. Within a batch, neither does the watermark advance nor does an epoch end."""
        now = self._time.watermark, self._tables.turns
        if self._panes_at != now or len(self._panes) > _PANES_KNOWN:
            self._panes_at = now
            self._panes.clear()
        return self._panes

    def _pane_from(self, start: int) -> Pane:
        panes = self._known_panes()
        pane = panes.get(start)
        if pane is None:
            pane = panes[start] = self._pane(start)
        return pane

    def _pane(self, timestamp: int) -> Pane:
        """Return the pane of a timestamp."""
        if self._shared is not None:
            start = timestamp - (timestamp - self.pane_offset) % self._shared.slide
            end = start + self._shared.slide
            due, last = self._shared.due(start, self._time.watermark), start + self._size - 1
            if due is None:
                return ()
            check_time(last)
            table = self._tables.table((start, end), end - 1, due, last)
            return ((table.accumulators, table),)
        windows: Iterable[TimeWindow] = self._assigner.assign_windows(None, timestamp, self._assigner_context)
        pane = []
        for window in windows:
            if not self._is_late(window):
                end = window.max_timestamp()
                check_time(end)
                namespace = self._namespaces.serializer.internal(self._namespaces.of(window))
                table = self._tables.table(namespace, end, end, end)
                pane.append((table.accumulators, table))
        return tuple(pane)
