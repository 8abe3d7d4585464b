"""The schema and encoding of timers in snapshots.

The timers of a service in one time domain are a set of (timestamp, key, namespace), a state of kind TIMER. A timer is
an entry: the key; as sub-key the namespace, and the timestamp in 8 bytes, big-endian, as the number plus 2^63, so that bytes
are ordered as numbers; and an empty value. Entries are in any order, since a backend that keeps timers ordered by time need
not sort them by key.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pystate.common.errors import CorruptSnapshotError, RestoreError, StateError
from pystate.common.type_info import TypeInformation, Types
from pystate.core.api.state import StateKind
from pystate.core.api.timer_service import TimeDomain
from pystate.core.state.base.state_schema import StateSchema
from pystate.core.state.files.canonical import StateMetaInfoSnapshot
from pystate.core.state.keys.addresses import AddressFormat, address_format
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.keys.namespaces import VOID, NamespaceSerializer, namespaces_from_snapshot

TIME_BYTES = 8

_LOW, _HIGH = -(1 << 63), (1 << 63) - 1
_TIME = struct.Struct(">Q")
_new = tuple.__new__
_PREFIX = {TimeDomain.EVENT_TIME: "_timer_state/event_", TimeDomain.PROCESSING_TIME: "_timer_state/processing_"}


class Timer(NamedTuple):
    """A timer.

    Attributes:
        timestamp: When it fires, ms since 1970.
        key: The internal key.
        key_group: The key group of the key.
        namespace: The internal namespace; None for the void one.
    """

    timestamp: int
    key: Hashable
    key_group: int
    namespace: Hashable = None


def new_timer(timestamp: int, key: Hashable, key_group: int, namespace: Hashable) -> Timer:
    """Create a timer faster than `Timer(...)`."""
    return _new(Timer, (timestamp, key, key_group, namespace))


def check_time(timestamp: int) -> None:
    """Reject values that are not timestamps.

    Raises:
        StateError: It isn't a 64-bit integer.
    """
    if type(timestamp) is not int or not _LOW <= timestamp <= _HIGH:
        message = f"{timestamp!r} can't be the time of a timer."
        raise StateError(message, hint="give an integer, ms since 1970")


def time_to_bytes(timestamp: int) -> bytes:
    """Return the bytes of a time, which sort like times."""
    return _TIME.pack(timestamp - _LOW)


def time_from_bytes(data: bytes) -> int:
    """Return the time from its 8 bytes.

    Raises:
        CorruptSnapshotError: They are not 8.
    """
    if len(data) != TIME_BYTES:
        message = f"The time of a timer has {len(data)} bytes."
        raise CorruptSnapshotError(message)
    moved: int = _TIME.unpack(data)[0]
    return moved + _LOW


@dataclass(frozen=True)
class TimerSchema:
    """The timers of a service in one domain.

    Attributes:
        service: The name of the timer service.
        domain: Their time domain.
        namespaces: The serializer of their namespaces.
    """

    service: str
    domain: TimeDomain
    namespaces: NamespaceSerializer = VOID

    @property
    def name(self) -> str:
        """The name of the state, as in Flink."""
        return _PREFIX[self.domain] + self.service

    @property
    def time_type(self) -> TypeInformation:
        """The type of the times."""
        return Types.LONG()

    @property
    def kind(self) -> StateKind:
        """The kind of the state."""
        return StateKind.TIMER

    def meta_info(self, name: str) -> StateMetaInfoSnapshot:
        """Return their description for snapshots."""
        timers = {"service": self.service, "domain": self.domain.name}
        return StateMetaInfoSnapshot(name, StateKind.TIMER.value, {}, namespace=self.namespaces.snapshot(), timers=timers)

    @staticmethod
    def from_meta_info(info: StateMetaInfoSnapshot) -> TimerSchema:
        """Return what a snapshot says.

        Raises:
            CorruptSnapshotError, RestoreError: It can't be read.
        """
        timers: dict[str, Any] = info.timers or {}
        service, domain = timers.get("service"), timers.get("domain")
        if not isinstance(service, str) or not isinstance(domain, str) or domain not in TimeDomain.__members__:
            message = f"The description of timers {info.name!r} is damaged: {timers}."
            raise CorruptSnapshotError(message)
        return TimerSchema(service, TimeDomain[domain], namespaces_from_snapshot(info.namespace, info.name))

    def addresses(self, codec: KeyCodec) -> AddressFormat:
        """Return the format of keys and namespaces; the codec is that of the keys."""
        return address_format(codec, StateKind.TIMER, self.namespaces)

    def __str__(self) -> str:
        """Return service, domain and namespaces, for errors."""
        where = "" if self.namespaces.is_void else f" in namespaces of type {self.namespaces.name}"
        return f"{self.kind.value} of {self.service!r} by {self.domain.name}{where}"


def schema_of(info: StateMetaInfoSnapshot) -> StateSchema | TimerSchema:
    """Return the schema of a state of any kind from its description in a snapshot.

    Raises:
        CorruptSnapshotError, RestoreError: It can't be read.
    """
    return StateSchema.from_meta_info(info) if info.timers is None else TimerSchema.from_meta_info(info)


def check_timers(info: StateMetaInfoSnapshot, new: TimerSchema) -> None:
    """Reject restored state that doesn't match the declared timers.

    Raises:
        RestoreError: So it is.
        CorruptSnapshotError: What the snapshot says of it is damaged.
    """
    if info.kind != StateKind.TIMER.value:
        message = f"State {info.name!r} was written as {info.kind}; the job declares {new}."
        raise RestoreError(message, hint="give the timer service another name")
    old = TimerSchema.from_meta_info(info)
    if old != new:
        message = f"State {info.name!r} was written as {old}; the job declares {new}. The type of a namespace never changes."
        raise RestoreError(message, hint="window by what it was written with, or give the operator another uid")
