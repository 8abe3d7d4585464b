"""Views of tables that keep being written, for queryable state.

Each open view keeps the previous values of addresses written after it. A reader first reads the table and then the views
from its own to the newest; the first view with the address has the right value, else the table does. A writer stores the
value to be replaced in the newest view before it replaces it. So if a reader finds too new a value in the table, a view has
the replaced one: no lock is needed. Dicts and lists are copied before the first change after a view.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pystate.common.overrides import override
from pystate.core.state.base.queryable_states import ENTRY_BYTES, CommittedView, PageBound, StateView
from pystate.core.state.base.state_schema import StateSchema
from pystate.core.state.hashmap.hashmap_table import StateTable

_MISSING = object()
_NUMBER_BYTES = 8


@dataclass(frozen=True)
class ViewedTable:
    """A table with views, and the serialization of its values."""

    table: StateTable
    schema: StateSchema


class HashMapView(CommittedView):
    """A view of some tables, created and closed by `HashMapViews`.

    Attributes:
        tables: The tables by state.
        replaced: By state: address -> previous value; None if there was none.
        newer: The next view; None for the newest.
    """

    __slots__ = ("_close", "newer", "replaced", "tables")

    def __init__(self, tables: Mapping[str, ViewedTable], close: Callable[[HashMapView], None]) -> None:
        self.tables = tables
        self._close = close
        self.replaced: dict[str, dict[Hashable, Any]] = {name: {} for name in tables}
        self.newer: HashMapView | None = None

    @override
    def state(self, name: str) -> HashMapStateView | None:
        viewed = self.tables.get(name)
        return None if viewed is None else HashMapStateView(self, name, viewed)

    @override
    def close(self) -> None:
        self._close(self)


class HashMapViews:
    """The open views of a backend, oldest first. The owner of the backend opens and closes them."""

    def __init__(self) -> None:
        self._open: list[HashMapView] = []

    def open(self, tables: Mapping[str, ViewedTable]) -> HashMapView:
        """Return a view of tables as they are."""
        view = HashMapView(tables, self._closed)
        if self._open:
            self._open[-1].newer = view
        self._open.append(view)
        for name, viewed in tables.items():
            viewed.table.replaced = view.replaced[name]
        return view

    def _closed(self, view: HashMapView) -> None:
        """Remove a view. Its previous values are moved to the view before, which still needs them."""
        position = self._open.index(view)
        if position:
            before = self._open[position - 1]
            for name, replaced in view.replaced.items():
                known = before.replaced.get(name)
                if known is None:
                    continue
                for address, stored in replaced.items():
                    known.setdefault(address, stored)
            before.newer = view.newer
        del self._open[position]
        if position == len(self._open):
            newest = self._open[-1].replaced if self._open else {}
            for name, viewed in view.tables.items():
                viewed.table.replaced = newest.get(name)


class HashMapStateView(StateView):
    """One table in a view."""

    __slots__ = ("_name", "_schema", "_table", "_to_bytes", "_view")

    def __init__(self, view: HashMapView, name: str, viewed: ViewedTable) -> None:
        self._view = view
        self._name = name
        self._table = viewed.table
        self._schema = viewed.schema
        serializer = viewed.schema.serializer
        self._to_bytes: Callable[[Any], bytes] = serializer.serialize if serializer.immutable else _as_it_is

    def _stored(self, address: Hashable, key_group: int) -> Any:
        stored = self._table.peek(address, key_group)  # before the views, see above
        view: HashMapView | None = self._view
        while view is not None:
            replaced = view.replaced.get(self._name)
            before = _MISSING if replaced is None else replaced.get(address, _MISSING)
            if before is not _MISSING:
                return before
            view = view.newer
        return stored

    @override
    def value(self, address: Hashable, key_group: int) -> bytes | None:
        stored = self._stored(address, key_group)
        return None if stored is None else self._to_bytes(stored)

    @override
    def elements(self, address: Hashable, key_group: int) -> list[bytes]:
        return list(map(self._to_bytes, self._stored(address, key_group) or ()))

    @override
    def entries(
        self, address: Hashable, key_group: int, prefix: bytes, after: bytes | None, bound: PageBound
    ) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
        # the dict of a view doesn't change, so that its order doesn't, and a number is a place in it
        stored: dict[Hashable, Any] = self._stored(address, key_group) or {}
        user_keys = self._schema.user_keys
        assert user_keys is not None  # noqa: S101 - the state is a map
        encode, to_bytes = user_keys.encode, self._to_bytes
        place = 0 if after is None else min(int.from_bytes(after, "big"), len(stored))
        found: list[tuple[bytes, bytes]] = []
        room = bound.room
        for user_key, value in islice(stored.items(), place, None):
            if len(found) == bound.limit:
                return found, place.to_bytes(_NUMBER_BYTES, "big")
            data = encode(user_key)
            if data.startswith(prefix):
                written = to_bytes(value)
                room -= len(data) + len(written) + ENTRY_BYTES
                if room < 0 and found:
                    return found, place.to_bytes(_NUMBER_BYTES, "big")
                found.append((data, written))
            place += 1
        return found, None


def _as_it_is(data: bytes) -> bytes:
    return data
