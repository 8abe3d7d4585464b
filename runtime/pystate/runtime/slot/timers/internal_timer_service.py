"""The timer service used by operators (Flink's InternalTimerService): timers of the current key, in namespaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol, runtime_checkable

from pystate.common.errors import StateError
from pystate.core.api.timer_service import TimeDomain
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.base.priority_queue import KeyGroupedPriorityQueue
from pystate.core.state.base.timer_schema import Timer, TimerSchema
from pystate.core.state.keys.key_context import NO_KEY
from pystate.core.state.keys.namespaces import VOID, NamespaceSerializer
from pystate.runtime.slot.event_time.chain_time import ChainTime

FIRED_PER_LOOK = 1_000
"""The number of fired timers after which the size of the epoch is checked."""


class Triggerable(Protocol):
    """The callbacks of firing timers (Flink's Triggerable); the timer's key is the current key."""

    def on_event_time(self, timestamp: int, namespace: Any) -> None:
        """Handle an event-time timer."""

    def on_processing_time(self, timestamp: int, namespace: Any) -> None:
        """Handle a processing-time timer."""


@runtime_checkable
class BulkTriggerable(Triggerable, Protocol):
    """A target that only registers later timers of its service when timers fire, so that all of a time can fire at once.

    It may keep some event-time timers itself while the epoch runs.
    """

    def next_time(self) -> int | None:
        """Return the time of the first timer that it keeps; None if it keeps none."""

    def own_timers(self) -> Iterator[Timer]:
        """Yield the timers that it keeps."""

    def begin_time(self, time: int) -> None:
        """Begin to fire the timers of a time: calls of `on_event_times` follow, then one of `on_own_timers`."""

    def on_event_times(self, timers: Sequence[Timer]) -> None:
        """Handle several event-time timers of that time, in order; sets the current key for each itself."""

    def on_own_timers(self, time: int) -> int:
        """Fire and remove the timers of that time that it keeps; return how many there were."""


class InternalTimerService:
    """The timers of one service, in both time domains.

    Args:
        name: The service's name.
        backend: Stores the timers, and holds the current key.
        namespaces: The serializer of the timers' namespaces.
        time: The chain's time.
        target: Called when a timer fires.

    Attributes:
        namespaces: As given.
        failed: Domain and time of the timer whose call has raised; None if none has.
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
        self.namespaces = namespaces
        self._time = time
        self._target = target
        self.failed: tuple[TimeDomain, int] | None = None
        self._event = backend.get_priority_queue(TimerSchema(name, TimeDomain.EVENT_TIME, namespaces))
        self._bulk = target if isinstance(target, BulkTriggerable) else None
        self._processing = backend.get_priority_queue(TimerSchema(name, TimeDomain.PROCESSING_TIME, namespaces))

    @property
    def event_time_timers(self) -> KeyGroupedPriorityQueue:
        """The queue of event-time timers, for callers that have complete timers."""
        return self._event

    def current_processing_time(self) -> int:
        """Return the current processing time, ms since 1970."""
        return self._time.clock()

    def current_watermark(self) -> int:
        """Return the current watermark, ms since 1970."""
        return self._time.watermark

    def register_event_time_timer(self, namespace: Any, timestamp: int) -> None:
        """Register a timer of the current key; ignored at the end of a key in BATCH mode, as in Flink.

        Raises:
            StateError: There is no current key, or an argument is invalid.
        """
        if not self._time.quiesced:
            self._event.add(self._timer(self._event, namespace, timestamp))

    def register_processing_time_timer(self, namespace: Any, timestamp: int) -> None:
        """Register a timer of the current key; see `register_event_time_timer`."""
        if not self._time.quiesced:
            self._processing.add(self._timer(self._processing, namespace, timestamp))

    def delete_event_time_timer(self, namespace: Any, timestamp: int) -> None:
        """Delete a timer of the current key; see `register_event_time_timer`."""
        self._event.remove(self._timer(self._event, namespace, timestamp))

    def delete_processing_time_timer(self, namespace: Any, timestamp: int) -> None:
        """Delete a timer of the current key; see `register_event_time_timer`."""
        self._processing.remove(self._timer(self._processing, namespace, timestamp))

    def timers(self, domain: TimeDomain) -> Iterator[Timer]:
        """Yield the timers of a time domain, those of a key group ordered by time.

        Those that a `BulkTriggerable` keeps itself come last.
        """
        if domain is TimeDomain.PROCESSING_TIME:
            return self._processing.timers()
        return self._event.timers() if self._bulk is None else chain(self._event.timers(), self._bulk.own_timers())

    def remove_all(self, timers: Iterable[Timer], domain: TimeDomain) -> None:
        """Delete timers of any keys."""
        queue = self._event if domain is TimeDomain.EVENT_TIME else self._processing
        for timer in timers:
            queue.remove(timer)

    def next_processing_time(self) -> int | None:
        """Return the time of the first processing-time timer; None if there is none."""
        first = self._processing.peek()
        return None if first is None else first.timestamp

    def advance_watermark(self, watermark: int) -> int:
        """Fire the timers up to an event time in time order, including those registered meanwhile.

        Returns:
            The number of fired timers.
        """
        if self._bulk is not None:
            return self._fire_in_bulk(self._bulk, watermark)
        return self._fire(self._event, watermark, self._target.on_event_time)

    def advance_processing_time(self, now: int) -> int:
        """Fire the timers up to a processing time; see `advance_watermark`."""
        return self._fire(self._processing, now, self._target.on_processing_time)

    def _fire(self, queue: KeyGroupedPriorityQueue, limit: int, call: Callable[[int, Any], None]) -> int:
        """Fire timers. Emitted elements have the timer's timestamp, also for processing-time timers, as in PyFlink."""
        backend, time, external = self._backend, self._time, self.namespaces.external
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
        except Exception:
            if timer is not None:
                self.failed = queue.schema.domain, timer.timestamp
            raise
        finally:
            time.timestamp = before
        if fired:
            backend.key_context.clear()
        return fired

    def _fire_in_bulk(self, target: BulkTriggerable, limit: int) -> int:
        time = self._time
        fired, at = 0, limit
        before = time.timestamp
        try:
            while True:
                first = self._event.peek()
                times = [
                    time for time in (target.next_time(), None if first is None else first.timestamp) if time is not None
                ]
                at = min(times, default=limit + 1)
                if at > limit:
                    break
                target.begin_time(at)
                fired += self._fire_due(target, at)
                count = target.on_own_timers(at)
                self._backend.limit_epoch(count, 0)
                fired += count
        except Exception:
            self.failed = TimeDomain.EVENT_TIME, at
            raise
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
        backend: Stores the timers.
        time: The chain's time.
    """

    def __init__(self, backend: KeyedStateBackend, time: ChainTime) -> None:
        self._backend = backend
        self._time = time
        self._services: dict[str, InternalTimerService] = {}

    def get_internal_timer_service(
        self, name: str, target: Triggerable, namespaces: NamespaceSerializer = VOID
    ) -> InternalTimerService:
        """Return the service with that name; the first call creates it, and restores its timers from a snapshot.

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
        """Fire the timers up to a processing time; return how many fired."""
        return sum(service.advance_processing_time(now) for service in self._services.values())

    @property
    def failed(self) -> tuple[TimeDomain, int] | None:
        """Domain and time of the timer whose call has raised; None if none has."""
        return next((service.failed for service in self._services.values() if service.failed is not None), None)

    @property
    def services(self) -> Mapping[str, InternalTimerService]:
        """The services by their names."""
        return self._services

    def timers(self, domain: TimeDomain) -> Iterator[Timer]:
        """Yield the timers of all services in a time domain."""
        for service in self._services.values():
            yield from service.timers(domain)

    def next_processing_time(self) -> int | None:
        """Return the time of the first processing-time timer; None if there is none."""
        times = (service.next_processing_time() for service in self._services.values())
        return min((time for time in times if time is not None), default=None)
