"""How each kind of state is held in a table, and how it looks as entries of a snapshot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from pystate.api.state import StateKind
from pystate.common.errors import CorruptSnapshotError, RestoreError
from pystate.state.base.canonical import Entry
from pystate.state.base.keys import KeyCodec
from pystate.state.base.schema import (
    VOID_NAMESPACE,
    StateSchema,
    list_parts,
    pack_part,
    part_number,
    part_sub_key,
    unpack_part,
)
from pystate.state.hashmap.stores import HashMapListStore, HashMapMapStore
from pystate.state.hashmap.table import GroupTable, StateTable

PART_BYTES = 256 * 1024
"""A part of a list in a snapshot has about this many bytes of elements, or one element."""


class StoredForm(ABC):
    """The form of one state.

    Args:
        name: The state's name.
        schema: Its schema.
        key_codec: Of the backend.
    """

    def __init__(self, name: str, schema: StateSchema, key_codec: KeyCodec) -> None:
        self._name = name
        self._keys = key_codec
        self._immutable = schema.serializer.immutable
        self._serialize = schema.serializer.serialize
        self._deserialize = schema.serializer.deserialize

    @abstractmethod
    def store(self, table: StateTable) -> Any:
        """Return the store over a table."""

    @abstractmethod
    def fill(self, table: GroupTable, entries: Iterable[Entry]) -> None:
        """Put the entries of a key group into its empty table.

        Raises:
            CorruptSnapshotError, RestoreError: An entry can't be read, or is there twice.
        """

    @abstractmethod
    def entries(self, stored: Iterable[tuple[Hashable, Any]]) -> Iterator[Entry]:
        """Return the entries of a snapshot for (key, stored value) pairs. Safe to run on any thread."""

    @abstractmethod
    def count(self, table: StateTable) -> int:
        """Return the number of stored values, map entries or lists."""

    def _to_bytes(self, stored: Any) -> bytes:
        data: bytes = self._serialize(stored) if self._immutable else stored
        return data

    def _from_bytes(self, data: bytes) -> Any:
        return self._deserialize(data) if self._immutable else data

    def _new_key(self, table: GroupTable, data: bytes) -> Hashable:
        """Return a key that follows another; all entries of a key stand together."""
        key = self._keys.decode(data)
        if key in table:
            raise self._twice(what="a key")
        return key

    def _twice(self, what: str) -> RestoreError:
        message = f"State {self._name!r} has {what} twice."
        return RestoreError(message)


class ValueForm(StoredForm):
    """One value per key."""

    def store(self, table: StateTable) -> StateTable:
        """Return the table itself."""
        return table

    def fill(self, table: GroupTable, entries: Iterable[Entry]) -> None:
        """Put the entries of a key group into its empty table."""
        decode, from_bytes = self._keys.decode, self._from_bytes
        count = 0
        for key, _, data in entries:
            value = from_bytes(data)
            if value is None:
                message = f"A value of state {self._name!r} is null."
                raise CorruptSnapshotError(message)
            table[decode(key)] = value
            count += 1
        if len(table) != count:
            raise self._twice(what="a key")

    def entries(self, stored: Iterable[tuple[Hashable, Any]]) -> Iterator[Entry]:
        """Return an entry per key."""
        encode = self._keys.encode
        if not self._immutable:
            return ((encode(key), b"", data) for key, data in stored)
        serialize = self._serialize
        return ((encode(key), b"", serialize(value)) for key, value in stored)

    def count(self, table: StateTable) -> int:
        """Return the number of keys."""
        return len(table)


class MapForm(StoredForm):
    """A dict per key."""

    def __init__(self, name: str, schema: StateSchema, key_codec: KeyCodec, user_keys: KeyCodec) -> None:
        super().__init__(name, schema, key_codec)
        self._user_keys = user_keys

    def store(self, table: StateTable) -> HashMapMapStore:
        """Return a store of maps."""
        return HashMapMapStore(table)

    def fill(self, table: GroupTable, entries: Iterable[Entry]) -> None:
        """Put the entries of a key group into its empty table."""
        decode_user_key, from_bytes = self._user_keys.decode, self._from_bytes
        last: bytes | None = None
        of_key: dict[Hashable, Any] = {}
        for key, sub_key, data in entries:
            if key != last:
                of_key = table[self._new_key(table, key)] = {}
                last = key
            user_key = decode_user_key(sub_key[len(VOID_NAMESPACE) :])
            if user_key in of_key:
                raise self._twice(what="a map key")
            of_key[user_key] = from_bytes(data)

    def entries(self, stored: Iterable[tuple[Hashable, Any]]) -> Iterator[Entry]:
        """Return an entry per map entry."""
        encode, encode_user_key, to_bytes = self._keys.encode, self._user_keys.encode, self._to_bytes
        for key, of_key in stored:
            data = encode(key)
            for user_key, value in of_key.items():
                yield data, VOID_NAMESPACE + encode_user_key(user_key), to_bytes(value)

    def count(self, table: StateTable) -> int:
        """Return the number of map entries."""
        return sum(map(len, table.values()))


class ListForm(StoredForm):
    """A list per key."""

    def store(self, table: StateTable) -> HashMapListStore:
        """Return a store of lists."""
        return HashMapListStore(table)

    def fill(self, table: GroupTable, entries: Iterable[Entry]) -> None:
        """Put the entries of a key group into its empty table."""
        from_bytes = self._from_bytes
        last: bytes | None = None
        elements: list[Any] = []
        number = -1
        for key, sub_key, data in entries:
            if key != last:
                elements = table[self._new_key(table, key)] = []
                last, number = key, -1
            if part_number(sub_key) <= number:
                message = f"State {self._name!r} has a list whose parts aren't in order."
                raise CorruptSnapshotError(message)
            number = part_number(sub_key)
            elements += map(from_bytes, unpack_part(data))

    def entries(self, stored: Iterable[tuple[Hashable, Any]]) -> Iterator[Entry]:
        """Return one or more entries per list."""
        encode, to_bytes = self._keys.encode, self._to_bytes
        for key, elements in stored:
            data = encode(key)
            for number, part in enumerate(list_parts(map(to_bytes, elements), PART_BYTES)):
                yield data, part_sub_key(number), pack_part(part)

    def count(self, table: StateTable) -> int:
        """Return the number of lists."""
        return len(table)


def form_for(name: str, schema: StateSchema, key_codec: KeyCodec) -> StoredForm:
    """Return the form of a state."""
    if schema.user_keys is not None:
        return MapForm(name, schema, key_codec, schema.user_keys)
    if schema.kind is StateKind.LIST:
        return ListForm(name, schema, key_codec)
    return ValueForm(name, schema, key_codec)
