"""Namespaces: the second part of the address of keyed state, which is (key, namespace).

State declared by users is in the void namespace. Windows and their timers have a namespace per window. The encoding of
namespaces is part of the description of a state, and never changes.

In a sub-key a namespace is encoded as its length, a varint, and its bytes: so no namespace is a prefix of another, and all
entries of a (key, namespace) are contiguous. The void namespace is the single byte 0. Internal forms are hashables for
dicts, like those of keys; a state never has namespaces of two types.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any

from pystate.common.errors import CorruptSnapshotError, RestoreError, StateError
from pystate.common.type_info import TypeInformation
from pystate.core.state.keys.keys import KEY_ENCODING, KeyCodec, key_type_name

VOID_NAMESPACE = b"\x00"
"""The encoding of the void namespace: its length."""

NAMESPACE_VERSION = 1
TIME_WINDOW = "time-window"

_LONG_LOW, _LONG_HIGH = -(1 << 63), (1 << 63) - 1
_WINDOW = struct.Struct(">QQ")
_WINDOW_HEAD = bytes((_WINDOW.size,))
_MORE = 0x80
_MAX_LENGTH_BYTES = 5
_HINT = "restore with the pystate version that wrote the snapshot, or a newer one"


def write_varint(number: int) -> bytes:
    """Encode a number in 7 bits per byte, lowest first; all bytes but the last have their highest bit set."""
    written = bytearray()
    while number >= _MORE:
        written.append(number & ~_MORE & 0xFF | _MORE)
        number >>= 7
    written.append(number)
    return bytes(written)


def split_namespace(sub_key: bytes) -> tuple[bytes, int]:
    """Return the bytes of the namespace of a sub-key, and where the rest begins.

    Raises:
        CorruptSnapshotError: It begins with none.
    """
    length = shift = 0
    for position, byte in enumerate(sub_key[:_MAX_LENGTH_BYTES]):
        length |= (byte & ~_MORE) << shift
        shift += 7
        if byte < _MORE:
            start = position + 1
            if (position and not byte) or len(sub_key) < start + length:
                break
            return sub_key[start : start + length], start + length
    message = "The namespace of an entry is damaged."
    raise CorruptSnapshotError(message)


class NamespaceSerializer(ABC):
    """The serializer of the namespaces of a state.

    Attributes:
        is_void: Whether there is only the void namespace.
        name: The name of the type for errors.
    """

    is_void = False
    name: str

    @abstractmethod
    def internal(self, namespace: Any) -> Hashable:
        """Return the internal form of a namespace.

        Raises:
            StateError: It is of another type.
        """

    @abstractmethod
    def external(self, internal: Any) -> Any:
        """Return the external form of a namespace."""

    @abstractmethod
    def encode(self, internal: Any) -> bytes:
        """Return the sub-key prefix of a namespace: its length and its bytes."""

    @abstractmethod
    def decode(self, data: bytes) -> Hashable:
        """Decode the internal form of a namespace from its bytes, without the length.

        Raises:
            CorruptSnapshotError, RestoreError: They are no namespace of the type.
        """

    @abstractmethod
    def snapshot(self) -> dict[str, Any] | None:
        """Return the description for snapshots; None for the void namespace."""

    def __eq__(self, other: object) -> bool:
        """Return whether another serializer writes the same."""
        return isinstance(other, NamespaceSerializer) and self.snapshot() == other.snapshot()

    def __hash__(self) -> int:
        """Return a hash of the name."""
        return hash(self.name)

    def __repr__(self) -> str:
        """Return a text with the type's name."""
        return f"{type(self).__name__}({self.name})"


class VoidNamespaceSerializer(NamespaceSerializer):
    """The void namespace, None, of state that is scoped by key only (Flink's VoidNamespaceSerializer)."""

    is_void = True
    name = "void"

    def internal(self, namespace: Any) -> Hashable:
        """Return None."""
        if namespace is not None:
            raise _not_a_namespace(namespace, self.name, "state that is scoped by key alone has None")
        return None

    def external(self, internal: Any) -> Any:
        """Return None."""

    def encode(self, internal: Any) -> bytes:
        """Return the byte 0."""
        return VOID_NAMESPACE

    def decode(self, data: bytes) -> Hashable:
        """Return None."""
        if data:
            message = f"There is a namespace of {len(data)} bytes where none was written."
            raise CorruptSnapshotError(message)
        return None

    def snapshot(self) -> dict[str, Any] | None:
        """Return None."""
        return None


class KeyNamespaceSerializer(NamespaceSerializer):
    """Namespaces of any key type, encoded like keys.

    Args:
        type_info: The type; None for untyped namespaces.

    Attributes:
        type_info: As given.

    Raises:
        StateError: The type can't be that of a key.
    """

    def __init__(self, type_info: TypeInformation | None) -> None:
        self.type_info = type_info
        self._codec = KeyCodec(type_info)
        self.name = key_type_name(type_info)

    def internal(self, namespace: Any) -> Hashable:
        """Return the hashable form."""
        try:
            return self._codec.internal(namespace)
        except StateError as error:
            raise _not_a_namespace(namespace, self.name, error.message) from None

    def external(self, internal: Any) -> Any:
        """Return the namespace."""
        return self._codec.external(internal)

    def encode(self, internal: Any) -> bytes:
        """Return length, tag and payload."""
        data = self._codec.encode(internal)
        return write_varint(len(data)) + data

    def decode(self, data: bytes) -> Hashable:
        """Return the hashable form."""
        return self._codec.decode(data)

    def snapshot(self) -> dict[str, Any] | None:
        """Return encoding and type."""
        key_type = self._codec.key_type
        plain = None if key_type is None else key_type.to_plain()
        return {"version": NAMESPACE_VERSION, "format": KEY_ENCODING, "type": plain}


class TimeWindowSerializer(NamespaceSerializer):
    """Time windows: pairs (start, end) of ms since 1970, as in Flink's TimeWindow.Serializer.

    The windows of a key are ordered by start, then by end.
    """

    name = "time window"

    def internal(self, namespace: Any) -> Hashable:
        """Return the pair."""
        try:
            start, end = namespace
        except (TypeError, ValueError):
            raise _not_a_namespace(namespace, self.name, "it is no pair (start, end)") from None
        if type(start) is type(end) is int and _LONG_LOW <= start <= _LONG_HIGH and _LONG_LOW <= end <= _LONG_HIGH:
            return start, end
        raise _not_a_namespace(namespace, self.name, "start and end are integers of 64 bits")

    def external(self, internal: Any) -> Any:
        """Return the pair."""
        return internal

    def encode(self, internal: Any) -> bytes:
        """Return length, start and end."""
        return _WINDOW_HEAD + _WINDOW.pack(internal[0] - _LONG_LOW, internal[1] - _LONG_LOW)

    def decode(self, data: bytes) -> Hashable:
        """Return the pair."""
        if len(data) != _WINDOW.size:
            message = f"A window of time has {len(data)} bytes, not {_WINDOW.size}."
            raise CorruptSnapshotError(message)
        start, end = _WINDOW.unpack(data)
        return start + _LONG_LOW, end + _LONG_LOW

    def snapshot(self) -> dict[str, Any] | None:
        """Return the format's name."""
        return {"version": NAMESPACE_VERSION, "format": TIME_WINDOW}


VOID = VoidNamespaceSerializer()
TIME_WINDOWS = TimeWindowSerializer()


def _not_a_namespace(namespace: Any, name: str, why: str) -> StateError:
    message = f"{namespace!r} is no namespace of type {name}: {why}."
    return StateError(message)


def namespaces_from_snapshot(snapshot: Any, state_name: str) -> NamespaceSerializer:
    """Return the serializer of the namespaces of a state from its description.

    Args:
        snapshot: The result of `NamespaceSerializer.snapshot`.
        state_name: For errors.

    Raises:
        RestoreError: A newer version wrote it.
        CorruptSnapshotError: It isn't a valid description.
    """
    if snapshot is None:
        return VOID
    known = isinstance(snapshot, dict) and snapshot.get("version") == NAMESPACE_VERSION
    if known and snapshot == TIME_WINDOWS.snapshot():
        return TIME_WINDOWS
    if not isinstance(snapshot, dict) or not isinstance(snapshot.get("version"), int):
        message = f"The description of the namespaces of state {state_name!r} is damaged."
        raise CorruptSnapshotError(message)
    if not known or snapshot.get("format") != KEY_ENCODING or "type" not in snapshot:
        message = (
            f"The namespaces of state {state_name!r} are written as {snapshot.get('format')!r}, version "
            f"{snapshot['version']}; this pystate reads {KEY_ENCODING!r} and {TIME_WINDOW!r}, version {NAMESPACE_VERSION}."
        )
        raise RestoreError(message, hint=_HINT)
    try:
        plain = snapshot["type"]
        return KeyNamespaceSerializer(None if plain is None else TypeInformation.from_plain(plain))
    except (ValueError, TypeError, StateError) as error:
        message = f"The description of the namespaces of state {state_name!r} is damaged: {error}"
        raise CorruptSnapshotError(message) from error
