"""A timer service as operators use it (Flink's InternalTimerService): timers of the current key, in namespaces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Protocol, runtime_checkable

from pystate.common.errors import StateError
from pystate.core.api.time_domain import TimeDomain
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.base.priority_queue import KeyGroupedPriorityQueue
from pystate.core.state.base.timer_schema import Timer, TimerSchema
from pystate.core.state.keys.key_context import NO_KEY
from pystate.core.state.keys.namespaces import VOID, NamespaceSerializer
from pystate.runtime.slot.event_time.chain_time import ChainTime

FIRED_PER_LOOK = 1_000
"""After so many fired timers the size of the epoch is looked at."""


class Triggerable(Protocol):
    """What is called when timers fire (Flink's Triggerable); the key of the timer is the current one."""

    def on_event_time(self, timestamp: int, namespace: Any) -> None:
        """Do what is due at an event time."""

    def on_processing_time(self, timestamp: int, namespace: Any) -> None:
        """Do what is due by the clock."""


@runtime_checkable
class BulkTriggerable(Triggerable, Protocol):
    """What registers and deletes no timers of its service when they fire, so that many can fire at once.

    Some timers by event time it may keep for itself as long as the epoch runs.
    """

    def on_event_times(self, timers: Sequence[Timer]) -> None:
        """Do what is due at several event times, in their order; sets the current key and the time for each by itself."""

    def times_up_to(self, limit: int) -> Sequence[int]:
        """Return the times up to a limit of the timers that it keeps, in order."""

    def on_own_timers(self, time: int) -> int:
        """Do what is due at a time by the timers that it keeps, and forget those; return how many there were."""

    def own_timers(self) -> Iterator[Timer]:
        """Iterate over the timers that it keeps."""


@runtime_checkable
class TimelyTriggerable(BulkTriggerable, Protocol):
    """What may set timers for later when it fires, so that each time is fired for itself: all timers of it, and its own."""

    def begin_time(self, time: int) -> None:
        """Take note that `on_event_times` comes next with timers of that time, if there are any, then `on_own_timers`."""


class InternalTimerService:
    """The timers of one service, in both domains of time.

    Args:
        name: Of the service.
        backend: Keeps the timers, and has the current key.
        namespaces: Of the timers.
        time: Of the chain.
        target: Called when a timer fires.
    """

    def __init__(
        self,
        name: str,
        backend: KeyedStateBackend,
        namespaces: NamespaceSerializer,
        time: ChainTime,
        target: Triggerable,
    ) -> None:
        self._backend = backend
        self._namespaces = namespaces
        self._time = time
        self._target = target
        self._event = backend.get_priority_queue(TimerSchema(name, TimeDomain.EVENT_TIME, namespaces))
        self._bulk = target if isinstance(target, BulkTriggerable) else None
        self._timely = target if isinstance(target, TimelyTriggerable) else None
        self._processing = backend.get_priority_queue(TimerSchema(name, TimeDomain.PROCESSING_TIME, namespaces))

    @property
    def event_time_timers(self) -> KeyGroupedPriorityQueue:
        """The timers by event time, for who has whole timers."""
        return self._event

    def current_processing_time(self) -> int:
        """Return the time of the clock, ms since 1970."""
        return self._time.clock()

    def current_watermark(self) -> int:
        """Return the event time, ms since 1970."""
        return self._time.watermark

    def register_event_time_timer(self, namespace: Any, timestamp: int) -> None:
        """Add a timer of the current key; nothing at the end of a key in BATCH mode, as in Flink.

        Raises:
            StateError: There is no current key, or an argument isn't what it should be.
        """
        if not self._time.quiesced:
            self._event.add(self._timer(self._event, namespace, timestamp))

    def register_processing_time_timer(self, namespace: Any, timestamp: int) -> None:
        """Add a timer of the current key; see `register_event_time_timer`."""
        if not self._time.quiesced:
            self._processing.add(self._timer(self._processing, namespace, timestamp))

    def delete_event_time_timer(self, namespace: Any, timestamp: int) -> None:
        """Remove a timer of the current key; see `register_event_time_timer`."""
        self._event.remove(self._timer(self._event, namespace, timestamp))

    def delete_processing_time_timer(self, namespace: Any, timestamp: int) -> None:
        """Remove a timer of the current key; see `register_event_time_timer`."""
        self._processing.remove(self._timer(self._processing, namespace, timestamp))

    def timers(self, domain: TimeDomain) -> Iterator[Timer]:
        """Iterate over the timers in a domain of time, those of a key group in the order of their times.

        Those that a `BulkTriggerable` keeps for itself come behind them.
        """
        if domain is TimeDomain.PROCESSING_TIME:
            return self._processing.timers()
        return self._event.timers() if self._bulk is None else chain(self._event.timers(), self._bulk.own_timers())

    def next_processing_time(self) -> int | None:
        """Return the time of the first timer by the clock; None where there is none."""
        first = self._processing.peek()
        return None if first is None else first.timestamp

    def advance_watermark(self, watermark: int) -> int:
        """Fire the timers up to an event time in the order of their times, those too that are registered meanwhile.

        Returns:
            How many fired.
        """
        if self._timely is not None:
            return self._fire_time_by_time(self._timely, watermark)
        if self._bulk is not None:
            return self._fire_in_bulk(self._bulk, watermark)
        return self._fire(self._event, watermark, self._target.on_event_time)

    def advance_processing_time(self, now: int) -> int:
        """Fire the timers up to a time of the clock; see `advance_watermark`."""
        return self._fire(self._processing, now, self._target.on_processing_time)

    def _fire(self, queue: KeyGroupedPriorityQueue, limit: int, call: Callable[[int, Any], None]) -> int:
        """Fire timers. What they emit has their time, that of the clock too, as in PyFlink."""
        backend, time, external = self._backend, self._time, self._namespaces.external
        set_current_key = backend.key_context.set_current_key
        fired = 0
        before = time.timestamp
        try:
            while (timer := queue.peek()) is not None and timer.timestamp <= limit:
                queue.remove(timer)
                set_current_key(timer.key, timer.key_group)
                time.timestamp = timer.timestamp
                call(timer.timestamp, external(timer.namespace))
                fired += 1
                if fired % FIRED_PER_LOOK == 0:
                    backend.limit_epoch(FIRED_PER_LOOK, 0)
        finally:
            time.timestamp = before
        if fired:
            backend.key_context.clear()
        return fired

    def _fire_in_bulk(self, target: BulkTriggerable, limit: int) -> int:
        time = self._time
        fired = 0
        before = time.timestamp
        try:
            for own in target.times_up_to(limit):
                fired += self._fire_due(target, own)
                count = target.on_own_timers(own)
                self._backend.limit_epoch(count, 0)
                fired += count
            fired += self._fire_due(target, limit)
        finally:
            time.timestamp = before
            if fired:
                self._backend.key_context.clear()
        return fired

    def _fire_time_by_time(self, target: TimelyTriggerable, limit: int) -> int:
        time = self._time
        fired = 0
        before = time.timestamp
        try:
            while True:
                first, own = self._event.peek(), target.times_up_to(limit)
                due = [*own[:1], *([] if first is None or first.timestamp > limit else [first.timestamp])]
                if not due:
                    break
                at = min(due)
                target.begin_time(at)
                fired += self._fire_due(target, at)
                count = target.on_own_timers(at)
                self._backend.limit_epoch(count, 0)
                fired += count
        finally:
            time.timestamp = before
            if fired:
                self._backend.key_context.clear()
        return fired

    def _fire_due(self, target: BulkTriggerable, limit: int) -> int:
        fired = 0
        while due := self._event.poll_due(limit, FIRED_PER_LOOK):
            target.on_event_times(due)
            fired += len(due)
            self._backend.limit_epoch(len(due), 0)
        return fired

    def _timer(self, queue: KeyGroupedPriorityQueue, namespace: Any, timestamp: int) -> Timer:
        if self._backend.key_context.active_key is NO_KEY:
            message = "A timer was registered or deleted where there is no current key."
            hint = "use timers in process_element and on_timer only, not in open(), in threads or for broadcast elements"
            raise StateError(message, hint=hint)
        return queue.timer(timestamp, namespace)


class InternalTimeServiceManager:
    """The timer services of one operator (Flink's InternalTimeServiceManager).

    Args:
        backend: Keeps the timers.
        time: Of the chain.
    """

    def __init__(self, backend: KeyedStateBackend, time: ChainTime) -> None:
        self._backend = backend
        self._time = time
        self._services: dict[str, InternalTimerService] = {}

    def get_internal_timer_service(
        self, name: str, target: Triggerable, namespaces: NamespaceSerializer = VOID
    ) -> InternalTimerService:
        """Return the service of that name; the first call makes it, and finds the timers of a restored snapshot.

        Raises:
            StateError, RestoreError: See `KeyedStateBackend.get_priority_queue`.
        """
        service = self._services.get(name)
        if service is None:
            service = InternalTimerService(name, self._backend, namespaces, self._time, target)
            self._services[name] = service
        return service

    def advance_watermark(self, watermark: int) -> int:
        """Fire the timers up to an event time; return how many fired."""
        return sum(service.advance_watermark(watermark) for service in self._services.values())

    def advance_processing_time(self, now: int) -> int:
        """Fire the timers up to a time of the clock; return how many fired."""
        return sum(service.advance_processing_time(now) for service in self._services.values())

    def timers(self, domain: TimeDomain) -> Iterator[Timer]:
        """Iterate over the timers of all services in a domain of time."""
        for service in self._services.values():
            yield from service.timers(domain)

    def next_processing_time(self) -> int | None:
        """Return the time of the first timer by the clock; None where there is none."""
        times = (service.next_processing_time() for service in self._services.values())
        return min((time for time in times if time is not None), default=None)
