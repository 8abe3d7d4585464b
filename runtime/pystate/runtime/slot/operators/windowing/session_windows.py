"""The operator for event-time session windows that reduce or aggregate and fire at their end.

A `WindowOperator` asks assigner, trigger and merging windows for each element, and moves entries of state and timers
whenever a session becomes longer. This operator knows what they would say: a session is a tuple in memory until it fires or
is written (`session_tables`). Results, state and snapshots are the same; timers of a time fire in another order of keys.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from pystate.common.type_info import TypeInformation
from pystate.core.api.window.window_operation import WindowOperation
from pystate.core.api.window.windows import MIN_TIMESTAMP, TimeWindow, checked_timestamp
from pystate.core.state.base.timer_schema import Timer, new_timer
from pystate.core.state.kinds.accumulators import Accumulators
from pystate.runtime.slot.operators.windowing.session_tables import Session, SessionTables, Window
from pystate.runtime.slot.operators.windowing.window_operator import WindowOperator


class SessionWindowOperator(WindowOperator):
    """A `WindowOperator` that processes batches, and keeps sessions in memory; see there for the arguments."""

    def __init__(self, operation: WindowOperation, input_type: TypeInformation | None, *args: Any) -> None:
        super().__init__(operation, input_type, *args)
        accumulators = Accumulators.of(self._contents.handle)
        assert accumulators is not None  # noqa: S101 - see is_session
        pairs: Any = self._merging_state
        assigner: Any = self._assigner
        self._gap_of: Callable[[Any], int] = assigner.gap_of
        self._accumulators = accumulators
        self._keys = self._backend.key_context
        self._tables = SessionTables(
            accumulators, pairs, self._timers.event_time_timers, self._keys, self._backend.kept_bytes
        )

    def process_batch(
        self,
        keys: Sequence[Hashable],
        key_groups: Sequence[int],
        elements: Iterable[Any],
        timestamps: Iterable[int | None],
    ) -> None:
        """Add elements to their sessions; see `process_element`.

        Args:
            keys: The internal key of each element.
            key_groups: The key group of each element.
            elements: The elements.
            timestamps: Their timestamps; None for none.
        """
        context, tables = self._keys, self._tables
        sessions_of, in_memory, groups = tables.of_key, tables.running, tables.key_groups
        combine, gap_of, watermark = self._accumulators.combine, self._gap_of, self._time.watermark
        for key, key_group, element, timestamp in zip(keys, key_groups, elements, timestamps, strict=True):
            context.active_key = key  # a user function may ask for it
            context.active_key_group = key_group
            if timestamp is None or timestamp == MIN_TIMESTAMP:
                timestamp = checked_timestamp(MIN_TIMESTAMP)  # which rejects it
            start, end = timestamp, timestamp + gap_of(element)
            sessions = in_memory.get(key)
            if sessions is None:
                sessions = sessions_of(key, key_group)
            found = [one for one in sessions if one.start <= end and one.end >= start] if sessions else ()
            for one in found:
                start = one.start if one.start < start else start
                end = one.end if one.end > end else end
            if end - 1 <= watermark:
                self._pass_by(element, timestamp)
                continue
            groups[key] = key_group
            accumulator, place = self._merged(found) if found else (None, None)
            tables.replace(key, sessions, found, Session(start, end, combine(accumulator, element), place))

    def _merged(self, found: Sequence[Session]) -> tuple[Any, Window | None]:
        """Return the accumulator of some sessions of a key that are merged, and their window in the state, if any."""
        _, _, accumulator, place = found[0]
        for other in found[1:]:
            if accumulator is None:
                accumulator = other.accumulator
            elif other.accumulator is not None:
                accumulator = self._accumulators.merge(accumulator, other.accumulator)
            place = place or other.state_window
        return accumulator, place

    def next_time(self) -> int | None:
        """Return when the first session in memory may end; None if there is none."""
        return self._tables.next_due()

    def own_timers(self) -> Iterator[Timer]:
        """Yield the timers of sessions that are only in memory."""
        return self._tables.timers()

    def begin_time(self, time: int) -> None:
        """Do nothing: sessions in memory fire after the timers of their time."""

    def on_event_times(self, timers: Iterable[Timer]) -> None:
        """Fire the sessions of some timers of a time whose sessions are in the state."""
        tables = self._tables
        for time, key, key_group, namespace in timers:
            self._keys.set_current_key(key, key_group)
            window: Any = namespace
            sessions = tables.of_key(key, key_group)
            session = next((one for one in sessions if (one.start, one.end) == window), None)
            if session is None:  # it is longer by now
                continue
            if time < session.end - 1:  # the timer is another trigger's, which need not have one at the end
                self._timers.event_time_timers.add(new_timer(session.end - 1, key, key_group, namespace))
                continue
            tables.remove(key, sessions, session)
            if time == session.end - 1:
                self._fire(window, session.accumulator)
            else:  # of an operator with more allowed lateness, where the session has fired
                self._clear_function_states(TimeWindow(*window))

    def on_own_timers(self, time: int) -> int:
        """Fire the sessions in memory that end at a time; return how many there were."""
        due = self._tables.take_due(time)
        groups = self._tables.key_groups
        for key, session in due:
            self._keys.set_current_key(key, groups[key])
            self._fire((session.start, session.end), session.accumulator)
        return len(due)

    def _fire(self, window: Window, accumulator: Any) -> None:
        """Emit the result of a session of the current key, and have the function clear its states of it."""
        result = None if accumulator is None else self._accumulators.result(accumulator)
        if result is not None:
            self._time.timestamp = window[1] - 1
            if self._operation.window_function is None:
                self._output.collect(result)
            else:
                self._emit(TimeWindow(*window), [result])
        self._clear_function_states(TimeWindow(*window))
