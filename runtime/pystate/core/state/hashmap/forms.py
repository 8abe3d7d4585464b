"""The forms of each kind of state: in a table, and as entries of a snapshot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Any

from pystate.common.errors import CorruptSnapshotError, RestoreError
from pystate.common.overrides import override
from pystate.core.api.state import StateKind
from pystate.core.state.base.state_schema import StateSchema
from pystate.core.state.files.canonical import Entry, Piece, PieceSize, pieces_of
from pystate.core.state.hashmap.hashmap_table import GroupTable, HashMapListStore, HashMapMapStore, StateTable
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.kinds.list_parts import list_parts, pack_part, part_number, part_sub_key, unpack_part

FILLED_AT_ONCE = 1_000
"""The number of values that are put into a table at a time."""

PART_BYTES = 256 * 1024
"""A part of a list in a snapshot has about this many bytes of elements, or one element."""

_prefix_of = itemgetter(0)


class TableForm(ABC):
    """The form of one state in a table and as entries."""

    @abstractmethod
    def store(self, table: StateTable) -> Any:
        """Return the store over a table."""

    @abstractmethod
    def fill(self, table: GroupTable, key_group: int, entries: Iterable[Entry]) -> None:
        """Load the entries of a key group into its empty table.

        Raises:
            CorruptSnapshotError, RestoreError: An entry can't be read, or is there twice.
        """

    @abstractmethod
    def entries(self, stored: Iterable[tuple[Hashable, Any]]) -> Iterator[Entry]:
        """Return the entries of a snapshot for (address, stored value) pairs. Thread-safe."""

    def pieces(self, addresses: Iterable[Hashable], stored: Iterable[Any], size: PieceSize) -> Iterator[Piece]:
        """Return the entries of addresses and their stored values, in the form of `CanonicalWriter.write_pieces`."""
        return pieces_of(self.entries(zip(addresses, stored, strict=True)), size)

    @abstractmethod
    def count(self, table: StateTable) -> int:
        """Return the number of stored values, map entries, lists or timers."""


class StoredForm(TableForm):
    """The form of a state that has values. The keys of its table are addresses.

    Args:
        name: The state's name.
        schema: The state's schema.
        key_codec: The codec of the keys.
    """

    def __init__(self, name: str, schema: StateSchema, key_codec: KeyCodec) -> None:
        self._name = name
        self._keys = key_codec
        self._addresses = schema.addresses(key_codec)
        self._immutable = schema.serializer.immutable
        self._serialize = schema.serializer.serialize
        self._deserialize = schema.serializer.deserialize
        self._serialize_all = schema.serializer.serialize_all
        self._deserialize_all = schema.serializer.deserialize_all

    def _to_bytes(self, stored: Any) -> bytes:
        data: bytes = self._serialize(stored) if self._immutable else stored
        return data

    def _from_bytes(self, data: bytes) -> Any:
        return self._deserialize(data) if self._immutable else data

    def _placed(self, stored: Iterable[tuple[Hashable, Any]]) -> Iterator[tuple[bytes, bytes, Any]]:
        """Return (bytes of the key, prefix of sub-keys, stored value), ordered by namespace within a key."""
        key_bytes, prefix = self._addresses.key_bytes, self._addresses.prefix
        if self._addresses.is_void:
            for address, value in stored:
                yield key_bytes(address), prefix(address), value
            return
        by_key: dict[Hashable, list[tuple[bytes, Hashable, Any]]] = {}
        for address, value in stored:
            by_key.setdefault(self._addresses.split(address)[0], []).append((prefix(address), address, value))
        for of_key in by_key.values():
            data = key_bytes(of_key[0][1])
            of_key.sort(key=_prefix_of)
            for begin, _, value in of_key:
                yield data, begin, value

    def _new_address(self, table: GroupTable, key: bytes, sub_key: bytes) -> tuple[Hashable, int]:
        """Return the address after another one, and where its namespace ends; its entries are contiguous."""
        address, end = self._addresses.decode(key, sub_key)
        if address in table:
            raise self._twice(what="a key")
        return address, end

    def _twice(self, what: str) -> RestoreError:
        message = f"State {self._name!r} has {what} twice."
        return RestoreError(message)


class ValueForm(StoredForm):
    """One value per address."""

    def store(self, table: StateTable) -> StateTable:
        """Return the table itself."""
        return table

    @override
    def fill(self, table: GroupTable, key_group: int, entries: Iterable[Entry]) -> None:
        decode, is_void = self._addresses.decode, self._addresses.is_void
        count = 0
        waiting = iter(entries)
        while piece := list(islice(waiting, FILLED_AT_ONCE)):
            keys, sub_keys, data = zip(*piece, strict=True)
            addresses = self._keys.decode_all(keys) if is_void else [address for address, _ in map(decode, keys, sub_keys)]
            values = self._deserialize_all(data) if self._immutable else data
            if None in values and any(value is None for value in values):
                message = f"A value of state {self._name!r} is null."
                raise CorruptSnapshotError(message)
            table.update(zip(addresses, values, strict=True))
            count += len(piece)
        if len(table) != count:
            raise self._twice(what="a key")

    @override
    def pieces(self, addresses: Iterable[Hashable], stored: Iterable[Any], size: PieceSize) -> Iterator[Piece]:
        if not self._addresses.is_void:
            yield from super().pieces(addresses, stored, size)
            return
        encode_all, serialize_all, immutable = self._keys.encode_all, self._serialize_all, self._immutable
        waiting, values = iter(addresses), iter(stored)
        while keys := list(islice(waiting, size.count)):
            of_keys = list(islice(values, len(keys)))
            parts = [b""] * (3 * len(keys))  # without sub-keys
            parts[0::3] = encode_all(keys)
            parts[2::3] = serialize_all(of_keys) if immutable else of_keys
            yield parts

    def entries(self, stored: Iterable[tuple[Hashable, Any]]) -> Iterator[Entry]:
        """Return an entry per address."""
        if not self._addresses.is_void:
            to_bytes = self._to_bytes
            return ((key, begin, to_bytes(value)) for key, begin, value in self._placed(stored))
        encode = self._addresses.key_bytes
        if not self._immutable:
            return ((encode(key), b"", data) for key, data in stored)
        serialize = self._serialize
        return ((encode(key), b"", serialize(value)) for key, value in stored)

    def count(self, table: StateTable) -> int:
        """Return the number of values."""
        return len(table)


class MapForm(StoredForm):
    """A dict per address."""

    def __init__(self, name: str, schema: StateSchema, key_codec: KeyCodec, user_keys: KeyCodec) -> None:
        super().__init__(name, schema, key_codec)
        self._user_keys = user_keys

    def store(self, table: StateTable) -> HashMapMapStore:
        """Return a store of maps."""
        return HashMapMapStore(table)

    @override
    def fill(self, table: GroupTable, key_group: int, entries: Iterable[Entry]) -> None:
        decode_user_key, from_bytes, is_void = self._user_keys.decode, self._from_bytes, self._addresses.is_void
        last: bytes | None = None
        begin, end = b"", 0
        of_key: dict[Hashable, Any] = {}
        for key, sub_key, data in entries:
            if key != last or not (is_void or sub_key.startswith(begin)):
                address, end = self._new_address(table, key, sub_key)
                of_key = table[address] = {}
                last, begin = key, sub_key[:end]
            user_key = decode_user_key(sub_key[end:])
            if user_key in of_key:
                raise self._twice(what="a map key")
            of_key[user_key] = from_bytes(data)

    def entries(self, stored: Iterable[tuple[Hashable, Any]]) -> Iterator[Entry]:
        """Return an entry per map entry."""
        encode_user_key, to_bytes = self._user_keys.encode, self._to_bytes
        for key, begin, of_key in self._placed(stored):
            for user_key, value in of_key.items():
                yield key, begin + encode_user_key(user_key), to_bytes(value)

    def count(self, table: StateTable) -> int:
        """Return the number of map entries."""
        return sum(map(len, table.values()))


class ListForm(StoredForm):
    """A list per address."""

    def store(self, table: StateTable) -> HashMapListStore:
        """Return a store of lists."""
        return HashMapListStore(table)

    @override
    def fill(self, table: GroupTable, key_group: int, entries: Iterable[Entry]) -> None:
        from_bytes, is_void = self._from_bytes, self._addresses.is_void
        last: bytes | None = None
        begin, end = b"", 0
        elements: list[Any] = []
        number = -1
        for key, sub_key, data in entries:
            if key != last or not (is_void or sub_key.startswith(begin)):
                address, end = self._new_address(table, key, sub_key)
                elements = table[address] = []
                last, begin, number = key, sub_key[:end], -1
            if part_number(sub_key, end) <= number:
                message = f"State {self._name!r} has a list whose parts aren't in order."
                raise CorruptSnapshotError(message)
            number = part_number(sub_key, end)
            elements += map(from_bytes, unpack_part(data))

    def entries(self, stored: Iterable[tuple[Hashable, Any]]) -> Iterator[Entry]:
        """Return one or more entries per list."""
        to_bytes = self._to_bytes
        for key, begin, elements in self._placed(stored):
            for number, part in enumerate(list_parts(map(to_bytes, elements), PART_BYTES)):
                yield key, part_sub_key(number, begin), pack_part(part)

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
