"""Timers for functions that read or write state without a job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from pystate.common.errors import StateError
from pystate.common.time import current_time_ms
from pystate.common.user_code.used_names import uses_name
from pystate.core.api.timer_service import TimeDomain, TimerService
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.base.timer_schema import TIME_BYTES, TimerSchema, time_from_bytes
from pystate.core.state.files.canonical import CanonicalReader
from pystate.core.state.keys.namespaces import VOID, NamespaceSerializer
from pystate.runtime.slot.event_time.chain_time import ChainTime
from pystate.runtime.slot.timers.internal_timer_service import InternalTimerService
from pystate.runtime.slot.timers.timer_services import USER_TIMERS, SimpleTimerService

_ASKS = "timer_service"


class _NobodyFires:
    """A timer callback that is never called, since there is no time without a job."""

    def on_event_time(self, timestamp: int, namespace: Any) -> NoReturn:
        """Never called."""
        raise NotImplementedError

    on_processing_time = on_event_time


def asks_for_timers(function: Any) -> bool:
    """Return whether a method of a function's class uses `timer_service`."""
    return uses_name(function, _ASKS)


class BootstrappedTimers:
    """The timers that a bootstrap function registers, for the current key of a backend.

    Args:
        backend: The backend that stores them.
    """

    def __init__(self, backend: KeyedStateBackend) -> None:
        self._backend = backend
        self._service = InternalTimerService(USER_TIMERS, backend, VOID, ChainTime(current_time_ms), _NobodyFires())
        self.service: TimerService = SimpleTimerService(self._service)

    def clear(self) -> None:
        """Remove all timers."""
        service = self._service
        removals = {
            TimeDomain.EVENT_TIME: service.delete_event_time_timer,
            TimeDomain.PROCESSING_TIME: service.delete_processing_time_timer,
        }
        for domain, remove in removals.items():
            for timer in list(service.timers(domain)):
                self._backend.set_current_key(timer.key, timer.key_group)
                remove(None, timer.timestamp)


def undeclared_timers(where: str) -> StateError:
    """Return the error for a function that uses timers although it wasn't detected to."""
    message = "The bootstrap function asks for timers in code outside of its class, so they were not known when it began."
    return StateError(
        message, where=where, hint="call ctx.timer_service() in a method of the function itself, and hand it on"
    )


class ReadTimers:
    """The timers of one service in a canonical file, by key and namespace, one key group at a time.

    Args:
        reader: The file.
        service: The name of the service.
        namespaces: The serializer of the timers' namespaces.
    """

    def __init__(self, reader: CanonicalReader, service: str, namespaces: NamespaceSerializer = VOID) -> None:
        self._reader = reader
        self._names = {domain: TimerSchema(service, domain, namespaces).name for domain in TimeDomain}
        self._group = -1
        self._found: dict[TimeDomain, dict[tuple[bytes, bytes], list[int]]] = {}

    def select(self, key_group: int) -> None:
        """Set the current key group."""
        if key_group != self._group:
            self._group = key_group
            self._found = {}

    def of(self, domain: TimeDomain, key: bytes, namespace: bytes) -> list[int]:
        """Return the times of a key's timers in a namespace, ascending; key and namespace are encoded."""
        found = self._found.get(domain)
        if found is None:
            found = {}
            for data, sub_key, _ in self._entries(self._names[domain]):
                address = data, sub_key[:-TIME_BYTES]
                found.setdefault(address, []).append(time_from_bytes(sub_key[-TIME_BYTES:]))
            self._found[domain] = found
        return sorted(found.get((key, namespace), ()))

    def _entries(self, name: str) -> Iterator[tuple[bytes, bytes, bytes]]:
        entries: Iterable[tuple[bytes, bytes, bytes]] = ()
        if self._reader.parts(name):
            entries = self._reader.entries(name, self._group)
        return iter(entries)
