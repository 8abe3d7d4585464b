"""The operator of aligned windows: tumbling and sliding ones of event time that reduce or aggregate and fire at their end.

What `WindowOperator` does with an element, a window at a time, is the same for all elements of a pane: which windows they
are in, whether those are late, when they fire. So elements come batch by batch here, and timers fire all of a time at once.
Results, state, timers and snapshots are the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from pystate.api.window.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from pystate.api.window.operation import WindowOperation
from pystate.api.window.triggers import EventTimeTrigger
from pystate.api.window.windows import MIN_TIMESTAMP, TimeWindow, checked_timestamp
from pystate.slot.operators.windowing.window_operator import WindowOperator
from pystate.state.base.accumulators import Accumulators
from pystate.state.base.timer_schema import Timer, check_time, new_timer

_PANES_KNOWN = 10_000
"""After so many panes, those that are known are forgotten."""

Pane = tuple[tuple[Hashable, int, bool], ...]
"""The windows of a pane that aren't late, the last first: namespace, last time, whether no finished epoch has had it."""


def is_aligned(operation: WindowOperation) -> bool:
    """Return whether a step's windows are for `AlignedWindowOperator`: a program's own classes may do anything."""
    return (
        type(operation.assigner) in (TumblingEventTimeWindows, SlidingEventTimeWindows)
        and type(operation.trigger) is EventTimeTrigger
        and operation.allowed_lateness == 0
        and operation.evictor is None
        and (operation.reduce_function is not None or operation.aggregate_function is not None)
    )


class AlignedWindowOperator(WindowOperator):
    """A `WindowOperator` that takes batches, and fires in bulk."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        accumulators = Accumulators.of(self._contents.handle)
        assert accumulators is not None  # noqa: S101 - see is_aligned
        assigner: Any = self._assigner
        self._accumulators = accumulators
        self._pane_size, self._pane_offset = assigner.panes
        self._keys = self._backend.key_context
        self._panes: dict[int, Pane] = {}
        self._panes_at = (MIN_TIMESTAMP, MIN_TIMESTAMP)
        self._event_timers = self._timers.event_time_timers

    def process_batch(
        self,
        keys: Sequence[Hashable],
        key_groups: Sequence[int],
        elements: Iterable[Any],
        timestamps: Iterable[int | None],
    ) -> None:
        """Put elements into their windows; see `process_element`.

        Args:
            keys: The internal key of each.
            key_groups: Of the keys.
            elements: The elements.
            timestamps: Their times; None for none.
        """
        size, offset = self._pane_size, self._pane_offset
        accumulators, context = self._accumulators, self._keys
        held, combine = accumulators.held, accumulators.combine
        add_first, add_new = accumulators.add_first, accumulators.add_new
        add_timer, panes = self._event_timers.add, self._known_panes()
        for key, key_group, element, timestamp in zip(keys, key_groups, elements, timestamps, strict=True):
            context.active_key = key  # a function of the program's may ask for it
            context.active_key_group = key_group
            if timestamp is None:
                timestamp = checked_timestamp(MIN_TIMESTAMP)  # which refuses it
            start = timestamp - (timestamp - offset) % size
            pane = panes.get(start)
            if pane is None:
                pane = self._pane(timestamp)
                if start > MIN_TIMESTAMP:  # else one of its times is none
                    panes[start] = pane
            if not pane:
                self._pass_by(element, timestamp)
                continue
            for namespace, end, is_new in pane:
                address = (key, namespace)
                accumulator = held.get(address)
                if accumulator is not None:
                    held[address] = combine(accumulator, element)
                    continue
                if is_new:
                    add_new(address, key_group, element)
                else:
                    add_first(address, key_group, element)
                add_timer(new_timer(end, key, key_group, namespace))

    def on_event_times(self, timers: Iterable[Timer]) -> None:
        """Fire and forget the windows of some timers, as `on_event_time` does with each."""
        accumulators, context, time = self._accumulators, self._keys, self._time
        read, result_of = accumulators.read, accumulators.result
        remove, remove_new = accumulators.remove, accumulators.remove_new
        plain, output, clears = self._operation.window_function is None, self._output, self._clears
        namespace: Any = None
        window: Any = None
        highest = self._event_timers.highest_stored()
        for timer in timers:
            end, context.active_key, key_group, its_namespace = timer
            context.active_key_group = key_group
            if its_namespace is not namespace and its_namespace != namespace:
                namespace = its_namespace
                window = self._namespaces.window(namespace)
            if end != window.end - 1:  # of an operator that allowed more lateness
                continue
            address = (context.active_key, namespace)
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

    def _pass_by(self, value: Any, timestamp: int) -> None:
        """Do with an element that is in no window, or in late ones only, what `process_element` does."""
        time = self._time
        time.timestamp = timestamp
        try:
            self._taken_by_none(value, timestamp)
        finally:
            time.timestamp = None

    def _known_panes(self) -> dict[int, Pane]:
        """Return the panes as they are now. Neither does the watermark rise within a batch, nor does an epoch end."""
        now = self._time.watermark, self._event_timers.highest_stored()
        if self._panes_at != now or len(self._panes) > _PANES_KNOWN:
            self._panes_at = now
            self._panes.clear()
        return self._panes

    def _pane(self, timestamp: int) -> Pane:
        """Return the pane that a time is in."""
        windows: Iterable[TimeWindow] = self._assigner.assign_windows(None, timestamp, self._assigner_context)
        highest = self._event_timers.highest_stored()  # a window with state has a timer at its end, or behind it
        pane = []
        for window in windows:
            if not self._is_late(window):
                end = window.max_timestamp()
                check_time(end)
                pane.append((self._namespaces.serializer.internal(self._namespaces.of(window)), end, end > highest))
        return tuple(pane)
