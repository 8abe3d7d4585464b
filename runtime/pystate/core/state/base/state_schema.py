"""The schema of a state's bytes: its kind, its serializers, and the migration from older schemas.

Entries of a snapshot are (key, sub-key, value), on every backend:

    VALUE, REDUCING, AGGREGATING   one entry per address: the namespace; and the value or accumulator
    MAP    one entry per map entry: the namespace, then the bytes of the map key; and its value, which may be nil
    LIST   one or more entries per address, each a part of the list: the namespace, then a number (8 bytes, big-endian) by
           which the parts are ordered; and a msgpack list of the elements' bytes
    TIMER  see `timer_schema`

For the encoding of namespaces, see `namespaces`. If a state is scoped by key only, it is the byte 0 before map keys and
numbers, and omitted otherwise. If values have a time to live, each value, element and map value begins with the time of its
last access (see `ttl.serializer`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pystate.common.errors import CorruptSnapshotError, RestoreError
from pystate.common.type_info import TypeInformation
from pystate.core.api.state import MapStateDescriptor, StateDescriptor, StateKind
from pystate.core.state.files.canonical import Entry, StateMetaInfoSnapshot
from pystate.core.state.keys.addresses import KEYED_BY_MORE, AddressFormat, address_format
from pystate.core.state.keys.keys import KeyCodec, KeyCompatibility, check_key_compatible, key_type_name
from pystate.core.state.keys.namespaces import (
    VOID,
    VOID_NAMESPACE,
    NamespaceSerializer,
    namespaces_from_snapshot,
    split_namespace,
)
from pystate.core.state.kinds.list_parts import NUMBER_BYTES, pack_part, unpack_part
from pystate.core.state.ttl.ttl_serializer import Convert, TtlSerializer, timed_conversion
from pystate.core.state.values.serializers import (
    NullableSerializer,
    SchemaCompatibility,
    TypeSerializer,
    resolve_compatibility,
    serializer_for,
    serializer_from_snapshot,
)

_WITH_VOID = frozenset(kind.value for kind in KEYED_BY_MORE)
_REST = {StateKind.LIST: NUMBER_BYTES, StateKind.TIMER: NUMBER_BYTES, StateKind.MAP: None}
"""The number of bytes after the namespace, if it is fixed; none for kinds with one entry a key."""

_REMEDY = "declare the type it was written with, or give the new state another name"


@dataclass(frozen=True)
class StateSchema:
    """The schema of one state's bytes.

    Attributes:
        kind: The state's kind.
        serializer: The serializer of values or list elements; of map values, including None. A `TtlSerializer` if they have
            a time to live.
        user_keys: The codec of map keys; else None.
        namespaces: The serializer of the namespaces.
    """

    kind: StateKind
    serializer: TypeSerializer
    user_keys: KeyCodec | None = None
    namespaces: NamespaceSerializer = VOID

    @staticmethod
    def of(descriptor: StateDescriptor, namespaces: NamespaceSerializer = VOID) -> StateSchema:
        """Return the schema declared by a descriptor, in the given namespaces.

        Raises:
            StateError: A type can't be the key of a map.
        """
        serializer, ttl = serializer_for(descriptor.type_info), descriptor.ttl_config is not None
        if isinstance(descriptor, MapStateDescriptor):
            return _map_schema(serializer, descriptor.key_type_info, ttl, namespaces)
        return StateSchema(descriptor.kind, _timed(serializer, ttl), namespaces=namespaces)

    @staticmethod
    def from_meta_info(info: StateMetaInfoSnapshot) -> StateSchema:
        """Return the schema from the description in a snapshot.

        Raises:
            CorruptSnapshotError, RestoreError: It can't be read.
        """
        serializer = serializer_from_snapshot(info.serializer)
        namespaces = namespaces_from_snapshot(info.namespace, info.name)
        if kind_of(info) is not StateKind.MAP:
            return StateSchema(kind_of(info), _timed(serializer, info.ttl), namespaces=namespaces)
        try:
            plain = (info.user_key or {})["type"]
            key_type = None if plain is None else TypeInformation.from_plain(plain)
            return _map_schema(serializer, key_type, info.ttl, namespaces)
        except (ValueError, TypeError, LookupError) as error:
            message = f"The description of the map keys of state {info.name!r} is damaged: {error!r}"
            raise CorruptSnapshotError(message) from error

    def meta_info(self, name: str) -> StateMetaInfoSnapshot:
        """Return the description of a state of this schema for snapshots."""
        user_key = None
        if self.user_keys is not None:
            key_type = self.user_keys.key_type
            user_key = {"type": None if key_type is None else key_type.to_plain()}
        return StateMetaInfoSnapshot(
            name, self.kind.value, self.serializer.snapshot(), user_key, self.has_ttl, namespace=self.namespaces.snapshot()
        )

    def addresses(self, codec: KeyCodec) -> AddressFormat:
        """Return the format of addresses; the codec is that of the keys."""
        return address_format(codec, self.kind, self.namespaces)

    @property
    def has_ttl(self) -> bool:
        """Whether each value begins with a timestamp."""
        return isinstance(self.serializer, TtlSerializer)

    @property
    def values(self) -> TypeSerializer:
        """The serializer of what user code sees."""
        return self.serializer.values if isinstance(self.serializer, TtlSerializer) else self.serializer

    def __str__(self) -> str:
        """Return kind and types, for errors."""
        where = "" if self.namespaces.is_void else f" in namespaces of type {self.namespaces.name}"
        if self.user_keys is None:
            return f"{self.kind.value} of {self.serializer.type_name}{where}"
        return f"{self.kind.value} of {key_type_name(self.user_keys.key_type)} to {self.serializer.type_name}{where}"


def _map_schema(
    serializer: TypeSerializer, key_type: TypeInformation | None, ttl: bool, namespaces: NamespaceSerializer
) -> StateSchema:
    return StateSchema(StateKind.MAP, _timed(NullableSerializer(serializer), ttl), KeyCodec(key_type), namespaces)


def _timed(serializer: TypeSerializer, ttl: bool) -> TypeSerializer:
    return TtlSerializer(serializer) if ttl else serializer


def kind_of(info: StateMetaInfoSnapshot) -> StateKind:
    """Return the kind of a state in a snapshot.

    Raises:
        RestoreError: It is one of a newer version.
        CorruptSnapshotError: What is said of map keys doesn't fit the kind.
    """
    try:
        kind = StateKind(info.kind)
    except ValueError as error:
        message = f"State {info.name!r} is of kind {info.kind}, which this pystate doesn't know."
        raise RestoreError(
            message, hint="restore with the pystate version that wrote the snapshot, or a newer one"
        ) from error
    if (kind is StateKind.MAP) != (info.user_key is not None):
        message = f"State {info.name!r} is of kind {info.kind}, and its map keys are {info.user_key}."
        raise CorruptSnapshotError(message)
    if (kind is StateKind.TIMER) != (info.timers is not None):
        message = f"State {info.name!r} is of kind {info.kind}, and its timers are {info.timers}."
        raise CorruptSnapshotError(message)
    return kind


def namespace_end(info: StateMetaInfoSnapshot, sub_key: bytes) -> int:
    """Return the end of the namespace in a sub-key of a state.

    Raises:
        CorruptSnapshotError: The sub-key is none of the state's.
    """
    if info.namespace is not None:
        return split_namespace(sub_key)[1]
    start = len(VOID_NAMESPACE) if info.kind in _WITH_VOID else 0
    if start and not sub_key.startswith(VOID_NAMESPACE):
        message = f"State {info.name!r} has an entry with a namespace, which it should not have."
        raise CorruptSnapshotError(message)
    return start


def check_sub_key(info: StateMetaInfoSnapshot, kind: StateKind, sub_key: bytes) -> int:
    """Return the end of the namespace in a sub-key, after checking the whole sub-key.

    Raises:
        CorruptSnapshotError: The sub-key is none of the state's.
    """
    start = namespace_end(info, sub_key)
    rest = _REST.get(kind, 0)
    if rest is not None and len(sub_key) != start + rest:
        message = (
            "The number of a part of a list is damaged."
            if kind is StateKind.LIST
            else f"An entry of state {info.name!r} has a sub-key that {kind.value} state never has."
        )
        raise CorruptSnapshotError(message)
    return start


@dataclass(frozen=True)
class Migration:
    """The migration of entries from an older schema.

    Attributes:
        convert: Converts a value, an element or a map value; None if the bytes are unchanged.
        user_keys: Decodes map keys, to check that each is one of the declared type; None if it is known.
        namespaces: The serializer of the namespaces.
    """

    convert: Convert | None = None
    user_keys: KeyCodec | None = None
    namespaces: NamespaceSerializer = VOID

    def entries(self, kind: StateKind, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Return the entries in the newer schema.

        Raises:
            RestoreError: A value, or the key of a map, isn't one of the new type.
            CorruptSnapshotError: One can't be read.
        """
        convert = None if self.convert is None else _lifted(self.convert, kind)
        start_of: Callable[[bytes], int] = (lambda _: 1) if self.namespaces.is_void else lambda key: split_namespace(key)[1]
        for key, sub_key, value in entries:
            if self.user_keys is not None:
                self.user_keys.decode(sub_key[start_of(sub_key) :])
            yield key, sub_key, value if convert is None else convert(value)


def _lifted(convert: Convert, kind: StateKind) -> Convert:
    if kind is not StateKind.LIST:
        return convert
    return lambda data: pack_part([convert(element) for element in unpack_part(data)])


def resolve_migration(info: StateMetaInfoSnapshot, new: StateSchema, now: int) -> Migration | None:
    """Return the migration of restored entries to a declared schema; None if they are unchanged.

    Args:
        info: What the snapshot says of the state.
        new: What is declared.
        now: The time of the last access of values that have no timestamp yet, and shall have one; ms since 1970.

    Raises:
        RestoreError: They can't be read under it, or a newer version wrote them.
        CorruptSnapshotError: What the snapshot says of the state is damaged.
    """
    old = StateSchema.from_meta_info(info)
    if old.kind is not new.kind:
        raise _incompatible(info.name, old, new)
    if old.namespaces != new.namespaces:
        raise _incompatible(info.name, old, new, "The type of a namespace never changes.")
    check_user_keys = None
    if new.user_keys is not None and old.user_keys is not None:
        old_type, new_type = old.user_keys.key_type, new.user_keys.key_type
        if check_key_compatible(old_type, new_type) is KeyCompatibility.INCOMPATIBLE:
            raise _incompatible(info.name, old, new, "The type of a map key never changes.")
        check_user_keys = None if old_type == new_type else new.user_keys
    resolution = resolve_compatibility(info.serializer, new.serializer, info.name)
    if resolution.compatibility is SchemaCompatibility.INCOMPATIBLE:
        raise _incompatible(info.name, old, new, resolution.reason)
    convert = None
    if resolution.compatibility is not SchemaCompatibility.AS_IS:
        convert = _conversion(old.values, new.values, resolution.migrate)
    convert = timed_conversion(convert, old.has_ttl, new.has_ttl, now)
    if convert is None and check_user_keys is None:
        return None
    return Migration(convert, check_user_keys, new.namespaces)


def common_schema(infos: Sequence[StateMetaInfoSnapshot]) -> StateMetaInfoSnapshot | None:
    """Return the schema, of those of a state's parts, to which all parts can be migrated; None if there is none.

    Of several it is the one with the most fields. Values have a time to live if those of any part have one.

    Raises:
        CorruptSnapshotError, RestoreError: What the snapshot says of the state can't be read.
    """
    if any(info.timers is not None for info in infos):  # two descriptions of timers have nothing in common
        return None
    timed = any(info.ttl for info in infos)
    found = []
    for info in infos:
        candidate = replace(info.schema, ttl=timed)
        schema = StateSchema.from_meta_info(candidate)
        if all(_takes_over(other, schema) for other in infos):
            found.append((candidate, schema))
    if not found:
        return None
    return max(found, key=lambda one: 0 if one[1].values.type_info is None else len(one[1].values.type_info.elements))[0]


def _takes_over(info: StateMetaInfoSnapshot, schema: StateSchema) -> bool:
    StateSchema.from_meta_info(info)  # reports damage rather than a difference
    try:
        resolve_migration(info, schema, 0)
    except RestoreError:
        return False
    return True


def _conversion(old: TypeSerializer, new: TypeSerializer, migrate: Callable[[Any], Any] | None) -> Convert:
    deserialize, serialize = old.deserialize, new.serialize
    if migrate is None:
        return lambda data: serialize(deserialize(data))
    return lambda data: serialize(migrate(deserialize(data)))


def _incompatible(name: str, old: StateSchema, new: StateSchema, why: str = "") -> RestoreError:
    message = f"State {name!r} was written as {old}; the job declares {new}."
    return RestoreError(f"{message} {why}" if why else message, hint=_REMEDY)
