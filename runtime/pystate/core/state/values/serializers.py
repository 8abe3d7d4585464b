"""Serializers of state values: msgpack bytes per type, with a versioned snapshot of the serializer.

How each type looks in msgpack is in `core/state/formats`; this module is what backends and restores use.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from pystate.common.errors import CorruptSnapshotError, PystateError, RestoreError, StateError, UnknownClassError
from pystate.common.overrides import override
from pystate.common.type_info import TypeInformation
from pystate.common.type_rules import INTEGER_RANGES
from pystate.core.state.formats.all_formats import format_for
from pystate.core.state.formats.type_format import Right, pack, pack_all
from pystate.core.state.formats.untyped_format import unpack, unpack_plain
from pystate.core.state.values.schema_evolution import Resolution, SchemaCompatibility, resolve_types

__all__ = [
    "Resolution",
    "SchemaCompatibility",
    "TypeSerializer",
    "resolve_compatibility",
    "serializer_for",
    "serializer_from_snapshot",
]

SERIALIZER_VERSION = 1


class TypeSerializer(ABC):
    """Serializes values of one type to bytes and back.

    Attributes:
        type_info: The type; None for untyped values.
        type_name: Its name, for errors.
        immutable: Whether values are immutable, so that user code and backend may share them.
        exact_type: The Python type whose every instance is valid; None if `check` is needed.
        integer_range: Minimum and maximum of a bounded integer type; else None.
        field_rights: For tuples, when each field is valid unchanged; None if `check` is needed.
    """

    type_info: TypeInformation | None
    type_name: str
    immutable: bool
    exact_type: type | None = None
    integer_range: tuple[int, int] | None = None
    field_rights: Sequence[Right] | None = None

    @abstractmethod
    def check(self, value: Any) -> Any:
        """Return the value in the stored form (an int becomes a float in a DOUBLE, a FLOAT is rounded to 32 bits).

        What mutable values hold is not looked at here, since a list may be updated once per record: `serialize` does.

        Raises:
            StateError: The value isn't of the type.
        """

    @abstractmethod
    def serialize(self, value: Any) -> bytes:
        """Return the value's bytes; equal values that were built in the same way have equal bytes.

        Safe to call from several threads.

        Raises:
            StateError: The value, or something in it, isn't of the type.
        """

    @abstractmethod
    def deserialize(self, data: bytes) -> Any:
        """Return a new value.

        Raises:
            CorruptSnapshotError: These are no value's bytes.
        """

    def serialize_all(self, values: Sequence[Any]) -> list[bytes]:
        """Return the bytes of each value; see `serialize`."""
        return list(map(self.serialize, values))

    def deserialize_all(self, data: Sequence[bytes]) -> list[Any]:
        """Return a value for each; see `deserialize`."""
        return list(map(self.deserialize, data))

    def snapshot(self) -> dict[str, Any]:
        """Return the description for snapshots, which `serializer_from_snapshot` reads."""
        return {
            "version": SERIALIZER_VERSION,
            "format": "msgpack",
            "type": None if self.type_info is None else self.type_info.to_plain(),
        }

    def __repr__(self) -> str:
        """Return a text with the type's name."""
        return f"{type(self).__name__}({self.type_name})"


_DAMAGE = (ValueError, TypeError, OverflowError, ArithmeticError, LookupError, RecursionError)
"""The errors raised by invalid bytes."""


class _MsgpackSerializer(TypeSerializer):
    def __init__(self, type_info: TypeInformation | None) -> None:
        self.type_info = type_info
        self.type_name = "untyped" if type_info is None else type_info.name
        self._format = format_for(type_info)
        self._unpack = unpack if self._format.has_extensions else unpack_plain
        self.immutable = self._format.immutable
        self.field_rights = self._format.field_rights
        self.exact_type = self._format.exact_type
        if type_info is not None:
            self.integer_range = INTEGER_RANGES.get(type_info.kind)

    def check(self, value: Any) -> Any:
        return self._format.check(value)

    def serialize(self, value: Any) -> bytes:
        try:
            return self._format.to_bytes(value)
        except (ValueError, OverflowError, RecursionError) as error:
            message = f"A value of type {self.type_name} can't be written: {error}."
            raise StateError(message) from error

    @override
    def serialize_all(self, values: Sequence[Any]) -> list[bytes]:
        with contextlib.suppress(StateError, ValueError, OverflowError, RecursionError):
            return pack_all(self._format.all_to_plain(values))
        return super().serialize_all(values)  # its error names the value

    @override
    def deserialize_all(self, data: Sequence[bytes]) -> list[Any]:
        with contextlib.suppress(PystateError, *_DAMAGE):  # one by one it says which is damaged
            return self._format.all_from_plain(list(map(self._unpack, data)))
        return super().deserialize_all(data)

    def deserialize(self, data: bytes) -> Any:
        try:
            return self._format.from_plain(self._unpack(data))
        except UnknownClassError:  # nothing is damaged, so no older checkpoint is better
            raise
        except PystateError as error:
            raise _damaged_value(self.type_name, error.message) from error
        except _DAMAGE as error:
            raise _damaged_value(self.type_name, repr(error)) from error


class _QuickSerializer(_MsgpackSerializer):
    """Integers and types with a direct msgpack representation: the common case, without calling the format."""

    def __init__(self, type_info: TypeInformation, python_type: type) -> None:
        super().__init__(type_info)
        self._python_type = python_type
        self._unbounded = self.integer_range is None
        self._low, self._high = self.integer_range or (0, -1)

    def _is_right(self, value: Any) -> bool:
        return type(value) is self._python_type and (self._unbounded or self._low <= value <= self._high)  # type: ignore[operator]

    def serialize(self, value: Any) -> bytes:
        if self._is_right(value):
            try:
                return pack(value)
            except (ValueError, OverflowError):
                pass
        return super().serialize(value)

    def deserialize(self, data: bytes) -> Any:
        try:
            value = unpack_plain(data)
        except ValueError:
            return super().deserialize(data)
        if self._is_right(value):
            return value
        return super().deserialize(data)

    def _are_right(self, values: Sequence[Any]) -> bool:
        if not set(map(type, values)) <= {self._python_type}:
            return False
        return self._unbounded or not values or (self._low <= min(values) and max(values) <= self._high)

    @override
    def serialize_all(self, values: Sequence[Any]) -> list[bytes]:
        if self._are_right(values):
            with contextlib.suppress(ValueError, OverflowError):
                return pack_all(values)
        return super().serialize_all(values)  # which raises the error

    @override
    def deserialize_all(self, data: Sequence[bytes]) -> list[Any]:
        with contextlib.suppress(ValueError):
            values = list(map(unpack_plain, data))
            if self._are_right(values):
                return values
        return super().deserialize_all(data)


def _damaged_value(type_name: str, why: str) -> CorruptSnapshotError:
    message = f"The bytes of a value of type {type_name} are damaged: {why}"
    return CorruptSnapshotError(message)


def serializer_for(type_info: TypeInformation | None) -> TypeSerializer:
    """Return the serializer of a type; None is the untyped value."""
    direct = format_for(type_info).direct_type
    return _MsgpackSerializer(type_info) if type_info is None or direct is None else _QuickSerializer(type_info, direct)


def serializer_from_snapshot(snapshot: Any) -> TypeSerializer:
    """Return the serializer that wrote values, from its snapshot.

    Raises:
        RestoreError: A newer version wrote it.
        CorruptSnapshotError: It isn't a serializer snapshot.
    """
    if not isinstance(snapshot, dict) or not isinstance(snapshot.get("version"), int) or "type" not in snapshot:
        message = "The description of a state's serializer is damaged."
        raise CorruptSnapshotError(message)
    if snapshot["version"] != SERIALIZER_VERSION or snapshot.get("format") != "msgpack":
        message = (
            f"The snapshot's values were written by a serializer of format {snapshot.get('format')!r}, version "
            f"{snapshot['version']}; this pystate reads msgpack, version {SERIALIZER_VERSION}."
        )
        raise RestoreError(message, hint="restore with the pystate version that wrote the snapshot, or a newer one")
    if snapshot["type"] is None:
        return serializer_for(None)
    try:
        return serializer_for(TypeInformation.from_plain(snapshot["type"]))
    except ValueError as error:
        message = f"The description of a state's type is damaged: {error}"
        raise CorruptSnapshotError(message) from error


def resolve_compatibility(old_snapshot: Any, new_serializer: TypeSerializer, state_name: str = "") -> Resolution:
    """Return the migration of values described by `old_snapshot` to `new_serializer`.

    Args:
        old_snapshot: What `TypeSerializer.snapshot` gave when they were written.
        new_serializer: That of the type the job declares.
        state_name: What the errors of the resolution's `migrate` name.

    Raises:
        RestoreError, CorruptSnapshotError: As `serializer_from_snapshot`.
    """
    old = serializer_from_snapshot(old_snapshot)
    return resolve_types(old.type_info, new_serializer.type_info, state_name)


_NIL: bytes = pack(None)


class NullableSerializer(TypeSerializer):
    """Wraps another serializer and encodes None as msgpack's nil, which no other serializer uses.

    Its snapshot is the other's; that None may be there follows from the state's kind.
    """

    def __init__(self, serializer: TypeSerializer) -> None:
        self.serializer = serializer
        self.type_info = serializer.type_info
        self.type_name = serializer.type_name
        self.immutable = serializer.immutable
        self.exact_type = serializer.exact_type
        self.integer_range = serializer.integer_range
        self._serialize = serializer.serialize
        self._deserialize = serializer.deserialize

    def check(self, value: Any) -> Any:
        """Return the value in the stored form."""
        return None if value is None else self.serializer.check(value)

    @override
    def serialize(self, value: Any) -> bytes:
        return _NIL if value is None else self._serialize(value)

    @override
    def deserialize(self, data: bytes) -> Any:
        return None if data == _NIL else self._deserialize(data)

    def snapshot(self) -> dict[str, Any]:
        """Return the description of the wrapped serializer."""
        return self.serializer.snapshot()
