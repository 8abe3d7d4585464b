"""The operator for aligned windows: tumbling and sliding event-time windows that reduce or aggregate and fire at their end.

What `WindowOperator` decides per element and window is the same for all elements of a pane: their windows, whether these are
late, when they fire. So this operator processes elements batch by batch, and fires all timers of a time at once. Results,
state, timers and snapshots are the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

from pystate.core.api.window.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from pystate.core.api.window.triggers import EventTimeTrigger
from pystate.core.api.window.window_operation import WindowOperation
from pystate.core.api.window.windows import MIN_TIMESTAMP, TimeWindow, checked_timestamp
from pystate.core.state.base.timer_schema import Timer, check_time
from pystate.core.state.kinds.accumulators import Accumulators
from pystate.runtime.slot.operators.windowing.window_operator import WindowOperator
from pystate.runtime.slot.operators.windowing.window_tables import WindowTable, WindowTables

_PANES_KNOWN = 10_000
"""The number of cached panes; beyond it the cache is cleared."""

Pane = tuple[tuple[dict[Hashable, Any], WindowTable], ...]
"""The windows of a pane that aren't late, the last first: their accumulators, and their tables."""


def is_aligned(operation: WindowOperation) -> bool:
    """Return whether `AlignedWindowOperator` can run a step's windows: user-defined classes may do anything."""
    return (
        type(operation.assigner) in (TumblingEventTimeWindows, SlidingEventTimeWindows)
        and type(operation.trigger) is EventTimeTrigger
        and operation.allowed_lateness == 0
        and operation.evictor is None
        and (operation.reduce_function is not None or operation.aggregate_function is not None)
    )


class AlignedWindowOperator(WindowOperator):
    """A `WindowOperator` that processes batches, and fires in bulk.

    Attributes:
        pane_size: The length of a pane, whose times all belong to the same windows, ms.
        pane_offset: A time at which a pane begins.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        accumulators = Accumulators.of(self._contents.handle)
        assert accumulators is not None  # noqa: S101 - see is_aligned
        assigner: Any = self._assigner
        self._accumulators = accumulators
        self.pane_size, self.pane_offset = assigner.panes
        self._keys = self._backend.key_context
        self._event_timers = self._timers.event_time_timers
        self._tables = self._new_tables()
        self._panes: dict[int, Pane] = {}
        self._panes_at = (MIN_TIMESTAMP, -1)

    def _new_tables(self) -> WindowTables:
        return WindowTables(self._accumulators, self._event_timers, self._backend.kept_bytes)

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

    def on_event_times(self, timers: Iterable[Timer]) -> None:
        """Fire and remove the windows of some timers, as `on_event_time` does for each."""
        accumulators, context, time = self._accumulators, self._keys, self._time
        read, result_of = accumulators.read, accumulators.result
        remove, remove_new = accumulators.remove, accumulators.remove_new
        plain, output, clears = self._operation.window_function is None, self._output, self._clears
        namespace: Any = None
        window: Any = None
        table: WindowTable | None = None
        highest = self._event_timers.highest_stored()
        for timer in timers:
            end, context.active_key, key_group, its_namespace = timer
            context.active_key_group = key_group
            if its_namespace is not namespace and its_namespace != namespace:
                namespace = its_namespace
                window = self._namespaces.window(namespace)
                table = self._tables.known(namespace)
            address = (context.active_key, namespace)
            if end != window.end - 1:
                if end >= window.end:  # of an operator with more allowed lateness, where the window may have fired
                    self._forget(window, address, key_group)
                continue
            accumulator = None
            if table is not None and context.active_key in table.accumulators:
                if not table.stored or context.active_key not in table.stored:
                    continue  # a timer without contents, which fire with the table
                accumulator = table.accumulators.pop(context.active_key)
            if accumulator is None:
                accumulator = read(address, key_group)
            result = None if accumulator is None else result_of(accumulator)
            if result is not None:
                time.timestamp = end
                if plain:
                    output.collect(result)
                else:
                    self._emit(window, [result])
            if accumulator is not None:
                if end > highest:
                    remove_new(address)
                else:
                    remove(address, key_group)
            if clears is not None:
                self._context.select(window)
                clears.clear(self._context)

    def _forget(self, window: TimeWindow, address: tuple[Hashable, Hashable], key_group: int) -> None:
        """Remove any state of a window whose end has passed, for the current key."""
        if self._accumulators.read(address, key_group) is None:
            return
        self._accumulators.remove(address, key_group)
        self._clear_function_states(window)

    def _clear_function_states(self, window: TimeWindow) -> None:
        """Have the function clear its states of a window, for the current key."""
        if self._clears is not None:
            self._context.select(window)
            self._clears.clear(self._context)

    def times_up_to(self, limit: int) -> list[int]:
        """Return, in order, the ends up to a time of the windows in memory."""
        return self._tables.times_up_to(limit)

    def on_own_timers(self, time: int) -> int:
        """Fire and remove the windows in memory that end at a time, for all keys; return the number of keys."""
        return sum(map(self._fire_table, self._tables.take(time)))

    def own_timers(self) -> Iterator[Timer]:
        """Yield the timers of windows that are only in memory."""
        return self._tables.timers()

    def _fire_table(self, table: WindowTable) -> int:
        """Fire and remove a window for all keys in memory; return the number of keys."""
        context, time, groups = self._keys, self._time, self._tables.key_groups
        result_of, remove, stored = self._accumulators.result, self._accumulators.remove, table.stored
        plain, output, clears = self._operation.window_function is None, self._output, self._clears
        window = self._namespaces.window(table.namespace)
        fired = table.all()
        for key, accumulator in fired.items():
            context.active_key = key
            context.active_key_group = groups[key]
            result = result_of(accumulator)
            if result is not None:
                time.timestamp = table.end
                if plain:
                    output.collect(result)
                else:
                    self._emit(window, [result])
            if stored and key in stored:
                remove((key, table.namespace), groups[key])
            if clears is not None:
                self._context.select(window)
                clears.clear(self._context)
        return len(fired)

    def _pass_by(self, value: Any, timestamp: int) -> None:
        """Handle an element that belongs to no window, or only to late ones, as `process_element` does."""
        time = self._time
        time.timestamp = timestamp
        try:
            self._taken_by_none(value, timestamp)
        finally:
            time.timestamp = None

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
        windows: Iterable[TimeWindow] = self._assigner.assign_windows(None, timestamp, self._assigner_context)
        pane = []
        for window in windows:
            if not self._is_late(window):
                end = window.max_timestamp()
                check_time(end)
                table = self._tables.table(self._namespaces.serializer.internal(self._namespaces.of(window)), end)
                pane.append((table.accumulators, table))
        return tuple(pane)
