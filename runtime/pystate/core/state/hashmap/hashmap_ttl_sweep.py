"""The clean-up of expired values in tables: Flink's incremental clean-up.

In Flink every access checks some entries. Here the accesses of an epoch are counted, and the corresponding entries are
checked at its end: then they aren't in an overlay, and a rollback can't restore them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator
from itertools import repeat
from typing import Any

from pystate.core.api.state import StateDescriptor, StateKind
from pystate.core.state.base.state_schema import StateSchema
from pystate.core.state.hashmap.hashmap_table import StateTable
from pystate.core.state.ttl.ttl_cleanup_filter import NEVER, TtlSweep
from pystate.core.state.ttl.ttl_settings import TtlState


class HashMapSweep(TtlSweep):
    """Sweeps over the keys of a table, key group by key group.

    Keys added to a key group after the sweep has reached it are found in the next pass.

    Args:
        millis: See `TtlSweep`.
        as_bytes: See `TtlSweep`.
        table: The flushed values.
    """

    __slots__ = ("_group", "_groups", "_keys", "_position", "_table")

    def __init__(self, millis: int, as_bytes: bool, table: StateTable) -> None:
        super().__init__(millis, as_bytes)
        self._table = table
        self._groups: Iterator[int] | None = None
        self._group = -1
        self._keys: list[Hashable] = []
        self._position = 0

    def _advance(self, bound: Any, budget: int) -> bool:
        if self._groups is None:
            self._groups = iter(self._table.base)
        while True:
            if self._position == len(self._keys):
                group = next(self._groups, None)
                if group is None:
                    self._groups, self._keys, self._position = None, [], 0
                    return True
                self._group, self._keys, self._position = group, self._table.group_keys(group), 0
            elif budget > 0:
                budget -= self._examine(bound, budget)
            else:
                return False

    @abstractmethod
    def _examine(self, bound: Any, budget: int) -> int:
        """Check the keys from the position on, and advance past them; return the number of checked entries."""


class ValueSweep(HashMapSweep):
    """Sweeps over one value per key."""

    __slots__ = ()

    def _examine(self, bound: Any, budget: int) -> int:
        keys, table, group = self._keys[self._position : self._position + budget], self._table, self._group
        values: Iterable[Any]
        if table.layers:
            values = (NEVER if (stored := table.get(key, group)) is None else stored for key in keys)
        else:
            values = map(table.base[group].get, keys, repeat(NEVER))
        expired = self._expired(keys, values, bound)
        table.put_all(((key, None) for key in expired), dict.fromkeys(expired, group))
        self._position += len(keys)
        return len(keys)


class ListSweep(HashMapSweep):
    """Sweeps over lists, each checked as a whole."""

    __slots__ = ()

    def _examine(self, bound: Any, budget: int) -> int:
        key, table, group = self._keys[self._position], self._table, self._group
        self._position += 1
        elements: list[Any] = table.get(key, group) or []
        living = self._living(elements, bound)
        if len(living) < len(elements):
            table.put(key, group, living or None)
        return len(elements) or 1


class MapSweep(HashMapSweep):
    """Sweeps over dicts; a large one is checked in parts."""

    __slots__ = ("_entry_position", "_user_keys")

    def __init__(self, millis: int, as_bytes: bool, table: StateTable) -> None:
        super().__init__(millis, as_bytes, table)
        self._user_keys: list[Hashable] | None = None
        self._entry_position = 0

    def _examine(self, bound: Any, budget: int) -> int:
        key, table, group = self._keys[self._position], self._table, self._group
        entries: dict[Hashable, Any] = table.get(key, group) or {}
        if self._user_keys is None:
            self._user_keys, self._entry_position = list(entries), 0
        user_keys = self._user_keys[self._entry_position : self._entry_position + budget]
        expired = self._expired(user_keys, map(entries.get, user_keys, repeat(NEVER)), bound)
        if expired:
            owned = table.own(key, group, dict)
            for user_key in expired:
                del owned[user_key]
            if not owned:
                table.put(key, group, None)
        self._entry_position += len(user_keys)
        if self._entry_position == len(self._user_keys):
            self._user_keys = None
            self._position += 1
        return len(user_keys) or 1


_SWEEPS: dict[StateKind, type[HashMapSweep]] = {StateKind.LIST: ListSweep, StateKind.MAP: MapSweep}


class IncrementalCleanup:
    """Flink's incremental clean-up of one state.

    Args:
        sweep: The sweep over the state's table.
        work: Counts accesses and writes of the state.
        size: The number of entries checked per access.
        every_record: Whether entries are also checked for each record.
    """

    def __init__(self, sweep: HashMapSweep, work: TtlState, size: int, every_record: bool) -> None:
        self._sweep = sweep
        self._work = work
        self._size = size
        self._every_record = every_record

    def run(self, now: int, records: int) -> None:
        """Clean up for the accesses since the last call, and for a number of records."""
        accesses = self._work.take_work().accesses
        self._sweep.run(now, self._size * (accesses + (records if self._every_record else 0)))


def incremental_cleanup(
    descriptor: StateDescriptor, schema: StateSchema, table: StateTable, work: object
) -> IncrementalCleanup | None:
    """Return the clean-up of a state; None if there is none.

    Args:
        descriptor: Of the state.
        schema: Of the state.
        table: Its flushed values.
        work: Its running epoch.
    """
    config = descriptor.ttl_config
    strategy = None if config is None else config.get_cleanup_strategies().get_incremental_cleanup_strategy()
    if config is None or strategy is None or not isinstance(work, TtlState):
        return None
    sweep = _SWEEPS.get(schema.kind, ValueSweep)(config.get_ttl().to_milliseconds(), not schema.serializer.immutable, table)
    return IncrementalCleanup(sweep, work, strategy.get_cleanup_size(), strategy.run_cleanup_for_every_record())
