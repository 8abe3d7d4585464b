"""Removes expired values that are not accessed, from snapshots and from flushed state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pystate.core.api.state import StateDescriptor, StateKind
from pystate.core.state.files.canonical import Entry
from pystate.core.state.kinds.list_parts import pack_part, unpack_part
from pystate.core.state.ttl.ttl_serializer import TIME_BYTES, time_mark, time_of_mark

_STEP = 256


class _Never:
    """A value that isn't less than anything."""

    __slots__ = ()

    def __lt__(self, _: object) -> bool:
        return False


NEVER = _Never()
"""Stands for a value that isn't there and so never expires."""

EntryFilter = Callable[[Iterable[Entry]], Iterator[Entry]]


class TtlSweep(ABC):
    """Sweeps over the flushed entries of one state in repeated passes, a part at the end of each epoch.

    A pass checks every entry that exists from its beginning to its end. The next one begins as soon as an entry can have
    expired: a state whose values live for days only costs a pass from time to time.

    It must be called between epochs, so that the removed entries aren't in an overlay or being iterated over.

    Args:
        millis: The time to live.
        as_bytes: Whether values are stored as bytes, else as pairs (time, value).
    """

    __slots__ = ("_as_bytes", "_millis", "_next_pass", "_oldest", "_time_of")

    def __init__(self, millis: int, as_bytes: bool) -> None:
        self._millis = millis
        self._as_bytes = as_bytes
        self._time_of = slice(TIME_BYTES) if as_bytes else slice(1)
        self._oldest: Any = None  # mark of the oldest entry that the running pass has left; None between two passes
        self._next_pass: int | None = None

    def run(self, now: int, budget: int) -> None:
        """Continue, up to the end of the pass.

        Args:
            now: The current time, ms since 1970.
            budget: The approximate number of values, elements or map entries to check.
        """
        deadline = now - self._millis
        if budget <= 0 or deadline < 0 or (self._next_pass is not None and now < self._next_pass):
            return
        if self._oldest is None:
            self._oldest = self._mark(now)
        if self._advance(self._mark(deadline + 1), budget):
            oldest = time_of_mark(self._oldest) if self._as_bytes else self._oldest[0]
            self._next_pass = oldest + self._millis
            self._oldest = None

    def _mark(self, time: int) -> Any:
        return time_mark(time) if self._as_bytes else (time,)

    def _expired(self, keys: Sequence[Any], values: Iterable[Any], bound: Any) -> list[Any]:
        """Return the keys of expired values, without `NEVER`. The others determine the start of the next pass."""
        expired = []
        oldest = self._oldest
        limit = max(oldest, bound)
        for start in range(0, len(keys), _STEP):  # what is younger than the oldest one so far, most are, costs one look
            step = zip(keys[start : start + _STEP], values, strict=False)
            for key, stored in [pair for pair in step if pair[1] < limit]:
                if stored < bound:
                    expired.append(key)
                elif stored < oldest:
                    limit = oldest = stored[self._time_of]
        self._oldest = oldest
        return expired

    def _living(self, elements: list[Any], bound: Any) -> list[Any]:
        living = [element for element in elements if element >= bound]
        self._oldest = min([self._oldest, *(element[self._time_of] for element in living)])
        return living

    @abstractmethod
    def _advance(self, bound: Any, budget: int) -> bool:
        """Check a number of entries and remove those that are less than the bound; return whether the pass ended."""


def snapshot_filter(descriptor: StateDescriptor, now: int) -> EntryFilter | None:
    """Return the filter of expired values for a snapshot of a state; None if they are kept."""
    config = descriptor.ttl_config
    if config is None or not config.get_cleanup_strategies().in_full_snapshot():
        return None
    deadline = now - config.get_ttl().to_milliseconds()
    if deadline < 0:
        return None
    bound = time_mark(deadline + 1)
    if descriptor.kind is StateKind.LIST:
        return lambda entries: _living_parts(entries, bound)
    return lambda entries: (entry for entry in entries if entry[2] >= bound)


def _living_parts(entries: Iterable[Entry], bound: bytes) -> Iterator[Entry]:
    for key, sub_key, data in entries:
        elements = unpack_part(data)
        living = [element for element in elements if element >= bound]
        if living:
            yield key, sub_key, data if len(living) == len(elements) else pack_part(living)
