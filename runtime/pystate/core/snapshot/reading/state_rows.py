"""Decodes entries of snapshots to rows: keys, map keys, elements and values as user code sees them.

Nothing is unpickled here: a value of type PICKLED_BYTE_ARRAY is returned as pickle bytes. A snapshot may be untrusted, and
reading it must not run code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pystate.common.errors import RestoreError
from pystate.common.type_info import TypeInformation, TypeKind, Types
from pystate.core.api.state import StateKind
from pystate.core.state.base.state_schema import StateSchema, common_schema, kind_of
from pystate.core.state.base.timer_schema import TimerSchema, schema_of, time_from_bytes
from pystate.core.state.files.canonical import Entry, StateMetaInfoSnapshot
from pystate.core.state.formats.type_format import pack
from pystate.core.state.keys.addresses import address_format
from pystate.core.state.keys.keys import KeyCodec, KeyCompatibility, check_key_compatible, key_type_name
from pystate.core.state.keys.namespaces import namespaces_from_snapshot
from pystate.core.state.kinds.list_parts import unpack_part
from pystate.core.state.ttl.ttl_serializer import time_of_mark, without_time
from pystate.core.state.values.serializers import (
    SchemaCompatibility,
    TypeSerializer,
    resolve_compatibility,
    serializer_for,
    serializer_from_snapshot,
)

Decode = Callable[[bytes], Any]


class StateRow(NamedTuple):
    """A value, an element of a list or an entry of a map.

    Attributes:
        key: The key it belongs to.
        key_bytes: Tag and payload of the key.
        key_group: The key group of the key.
        sub_key: The map key, or the index of the list element; None for state with one value per key.
        sub_key_bytes: Tag and payload of the map key; empty for other kinds.
        value: The value, the accumulator of an aggregating state; the time of a timer.
        value_bytes: The value as msgpack, without timestamp.
        timestamp: When it was last accessed, ms since 1970, for state with a time to live; else None.
        namespace: The namespace; None for the void one.
        namespace_bytes: The namespace as in sub-keys.
    """

    key: Any
    key_bytes: bytes
    key_group: int
    sub_key: Any
    sub_key_bytes: bytes
    value: Any
    value_bytes: bytes
    timestamp: int | None
    namespace: Any = None
    namespace_bytes: bytes = b""


def without_pickle(type_info: TypeInformation | None) -> TypeInformation | None:
    """Return the type under which pickles are read as bytes."""
    if type_info is None:
        return None
    if type_info.kind is TypeKind.PICKLED_BYTE_ARRAY:
        return Types.PRIMITIVE_ARRAY(Types.BYTE())
    if not type_info.elements:
        return type_info
    parts = [without_pickle(part) or part for part in type_info.elements]
    return TypeInformation(type_info.kind, parts, type_info.names)


def value_decoder(
    snapshot: dict[str, Any], type_info: TypeInformation | None, name: str
) -> tuple[TypeInformation | None, Decode]:
    """Return the type of values, and the function that decodes them.

    Args:
        snapshot: Of the serializer that wrote them.
        type_info: As what they are to be read; None: as what they were written.
        name: The state's name, for errors.

    Raises:
        RestoreError: They can't be read as that.
        CorruptSnapshotError: The description of the serializer is damaged.
    """
    written = without_pickle(serializer_from_snapshot(snapshot).type_info)
    old = serializer_for(written)
    wanted = without_pickle(type_info)
    if wanted is None or wanted == written:
        return written, old.deserialize
    new = serializer_for(wanted)
    resolution = resolve_compatibility(old.snapshot(), new, name)
    if resolution.compatibility is SchemaCompatibility.INCOMPATIBLE:
        message = f"State {name!r} was written as {old.type_name}, it can't be read as {new.type_name}: {resolution.reason}"
        raise RestoreError(message, hint="leave type_info out, or give the type it was written with")
    return wanted, _migrated(old, new, resolution.migrate)


def _migrated(old: TypeSerializer, new: TypeSerializer, migrate: Callable[[Any], Any] | None) -> Decode:
    deserialize = old.deserialize
    if migrate is None:
        return lambda data: new.check(deserialize(data))
    return lambda data: new.check(migrate(deserialize(data)))


def readable_key_type(written: TypeInformation | None, wanted: TypeInformation | None, what: str) -> TypeInformation | None:
    """Return the type with which keys are read.

    Args:
        written: The declared type of the keys in the snapshot.
        wanted: As what they are to be read; None: as what they were written.
        what: What errors name.

    Raises:
        RestoreError: They can't be read as that.
    """
    if wanted is None:
        return written
    if check_key_compatible(written, wanted) is KeyCompatibility.INCOMPATIBLE:
        message = f"{what} were written as {key_type_name(written)}, they can't be read as {key_type_name(wanted)}."
        raise RestoreError(message, hint="leave the key type out, or give the type it was written with")
    return wanted


class PartDecoders:
    """Decodes the entries of a state whose parts may have been written with different schemas.

    Args:
        parts: The descriptions of the state in the files of the snapshot.
        key_type: The declared type of its keys in the snapshot.
        read_key_type: See `RowDecoder`.
        type_info: See `RowDecoder`; None for the written type to which all parts can be migrated.
        read_user_key_type: See `RowDecoder`.

    Attributes:
        common: The decoder for the common schema, which determines the form of rows.

    Raises:
        RestoreError: They can't be read with these types, or not as one type.
        CorruptSnapshotError: The description of the state is damaged.
    """

    def __init__(
        self,
        parts: Sequence[StateMetaInfoSnapshot],
        key_type: TypeInformation | None,
        *,
        read_key_type: TypeInformation | None = None,
        type_info: TypeInformation | None = None,
        read_user_key_type: TypeInformation | None = None,
    ) -> None:
        common = common_schema(parts) if len(parts) > 1 else parts[0].schema
        if common is None and type_info is not None:
            common = replace(parts[0].schema, ttl=any(part.ttl for part in parts))
        if common is None:
            schemas = " and as ".join(str(schema_of(part)) for part in parts)
            message = f"State {parts[0].name!r} was written as {schemas}: no one of them takes over the others."
            raise RestoreError(message, hint="give type_info, or restore the job at the parallelism it had")
        self._key_type = key_type
        self._options = read_key_type, read_user_key_type
        self.common = self._decoder(common, type_info)
        wanted = self.common.value_type if type_info is None else type_info
        self._decoders = [
            (part.schema, self.common if part.schema == common else self._decoder(part, wanted)) for part in parts
        ]

    def _decoder(self, info: StateMetaInfoSnapshot, type_info: TypeInformation | None) -> RowDecoder:
        keys, user_keys = self._options
        return RowDecoder(info, self._key_type, read_key_type=keys, type_info=type_info, read_user_key_type=user_keys)

    def of(self, info: StateMetaInfoSnapshot) -> RowDecoder:
        """Return the decoder of a part."""
        return next(decoder for schema, decoder in self._decoders if schema == info.schema)


class RowDecoder:
    """Decodes the entries of one state to rows.

    Args:
        info: The description of the state in the snapshot.
        key_type: The declared type of its keys in the snapshot.
        read_key_type: The type to read keys as; None for the written type.
        type_info: The type to read values, elements or map values as; None for the written type.
        read_user_key_type: The type to read map keys as; None for the written type.

    Attributes:
        kind: The state's kind.
        key_type: The type of the keys in the rows, None for untyped.
        user_key_type: The type of the map keys in the rows, None for untyped or no map.
        value_type: The type of the values in the rows, None for untyped.
        has_timestamps: Whether the rows have timestamps.
        namespaces: The serializer of the namespaces.
        as_written: Whether values are read with the written type.

    Raises:
        RestoreError: It can't be read with these types.
        CorruptSnapshotError: The description of the state is damaged.
    """

    def __init__(
        self,
        info: StateMetaInfoSnapshot,
        key_type: TypeInformation | None,
        *,
        read_key_type: TypeInformation | None = None,
        type_info: TypeInformation | None = None,
        read_user_key_type: TypeInformation | None = None,
    ) -> None:
        self.kind = kind_of(info)
        self.key_type = readable_key_type(key_type, read_key_type, f"The keys of state {info.name!r}")
        self._keys = KeyCodec(self.key_type)
        self.has_timestamps = info.ttl
        self.namespaces = namespaces_from_snapshot(info.namespace, info.name)
        self._addresses = address_format(self._keys, self.kind, self.namespaces)
        self.value_type: TypeInformation | None
        self._decode: Decode
        self.as_written = True
        if self.kind is StateKind.TIMER:
            self.value_type, self._decode = TimerSchema.from_meta_info(info).time_type, serializer_for(None).deserialize
        else:
            self.value_type, self._decode = value_decoder(info.serializer, type_info, info.name)
            self.as_written = self.value_type == value_decoder(info.serializer, None, info.name)[0]
        self.user_key_type: TypeInformation | None = None
        self._user_keys: KeyCodec | None = None
        if self.kind is StateKind.MAP:
            plain = replace(info, ttl=False, serializer=serializer_for(None).snapshot())
            schema = StateSchema.from_meta_info(plain)
            written = None if schema.user_keys is None else schema.user_keys.key_type
            what = f"The map keys of state {info.name!r}"
            self.user_key_type = readable_key_type(written, read_user_key_type, what)
            self._user_keys = KeyCodec(self.user_key_type)
            self._nil = serializer_for(None).serialize(None)

    def rows(self, key_group: int, entries: Iterable[Entry]) -> Iterator[StateRow]:
        """Return the rows of a key group's entries, in file order: those of a list or map are contiguous.

        Raises:
            CorruptSnapshotError, RestoreError: An entry can't be read.
        """
        keys, addresses, timed, decode = self._keys, self._addresses, self.has_timestamps, self.value_of
        is_void = addresses.is_void
        last, key, index, begin, end = None, None, 0, b"", 0
        namespace: Any = None
        for data, sub_key, stored in entries:
            if data != last or not (is_void or sub_key.startswith(begin)):
                address, end = addresses.decode(data, sub_key)
                last, key, index = data, keys.external(addresses.split(address)[0]), 0
                namespace, begin = addresses.namespace_of(address), b"" if is_void else sub_key[:end]
            if self.kind is StateKind.LIST:
                for element in unpack_part(stored):
                    value = without_time(element) if timed else element
                    time = time_of_mark(element) if timed else None
                    yield StateRow(key, data, key_group, index, b"", decode(value), value, time, namespace, begin)
                    index += 1
                continue
            if self.kind is StateKind.TIMER:
                value, time = pack(time_from_bytes(sub_key[end:])), None
            else:
                value = without_time(stored) if timed else stored
                time = time_of_mark(stored) if timed else None
            user_key, user_key_bytes = None, b""
            if self._user_keys is not None:
                user_key_bytes = sub_key[end:]
                user_key = self.user_key_of(user_key_bytes)
            yield StateRow(key, data, key_group, user_key, user_key_bytes, decode(value), value, time, namespace, begin)

    def key_of(self, data: bytes) -> Any:
        """Decode a key.

        Raises:
            CorruptSnapshotError, RestoreError: They are none of the type.
        """
        return self._keys.external(self._keys.decode(data))

    def user_key_of(self, data: bytes) -> Any:
        """Decode a map key, as `key_of`; None if the state isn't a map."""
        return None if self._user_keys is None else self._user_keys.external(self._user_keys.decode(data))

    def value_of(self, data: bytes) -> Any:
        """Decode a value without timestamp; None is a None value of a map.

        Raises:
            CorruptSnapshotError: They are no value's.
        """
        if self._user_keys is not None and data == self._nil:
            return None
        return self._decode(data)
