"""Keys in backends: `KeyCodec` converts between the user's key, its hashable form for dicts, and its bytes."""

from __future__ import annotations

import contextlib
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from enum import Enum
from itertools import repeat
from typing import Any

from pystate.common.errors import CorruptSnapshotError, RestoreError, StateError
from pystate.common.key_groups import key_group as hash_key_group
from pystate.common.overrides import override
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.common.type_rules import INTEGER_RANGES
from pystate.core.state.formats.all_formats import key_format
from pystate.core.state.formats.key_bytes import (
    NATIVE_TAGS,
    NULL_KEY,
    TAG_BIG_INT,
    TAG_BINARY,
    TAG_BOOLEAN,
    TAG_DOUBLE,
    TAG_LONG,
    TAG_STRING,
    tag_name,
)
from pystate.core.state.formats.scalar_formats import SCALARS
from pystate.core.state.keys.key_encoding import KEY_ENCODING, decode_auto, encode_auto, type_tag

__all__ = [
    "KEY_ENCODING",
    "NATIVE_TAGS",
    "KeyCodec",
    "KeyCompatibility",
    "check_key_compatible",
    "decode_auto",
    "encode_auto",
    "key_type_name",
    "type_tag",
]

_AUTO_INFERS = frozenset({TAG_STRING, TAG_LONG, TAG_DOUBLE, TAG_BOOLEAN, TAG_BINARY})
_LONG_BYTES = 8
_MANY = 64
"""The number of keys from which a check by columns is faster: 64 doubles in 3/4 of the time, 4,096 tuples in a thirtieth."""
_LONG_LOW, _LONG_HIGH = -(1 << 63), (1 << 63) - 1


class KeyCompatibility(Enum):
    """Whether keys written under one key type can be read under another."""

    COMPATIBLE = "COMPATIBLE"
    INCOMPATIBLE = "INCOMPATIBLE"


def check_key_compatible(old_type: TypeInformation | None, new_type: TypeInformation | None) -> KeyCompatibility:
    """Check whether keys of `old_type` in a snapshot can be restored to an operator with keys of `new_type`.

    The same type is compatible. A declared type and the untyped key (None) are compatible where an untyped key of that
    Python type has the same bytes: STRING, LONG, DOUBLE, BOOLEAN, BINARY. Each key is then still checked when it is read.
    """
    if old_type == new_type:
        return KeyCompatibility.COMPATIBLE
    if (old_type is None) != (new_type is None) and type_tag(old_type or new_type) in _AUTO_INFERS:
        return KeyCompatibility.COMPATIBLE
    return KeyCompatibility.INCOMPATIBLE


def key_type_name(key_type: TypeInformation | None) -> str:
    """Return the name of a key type, for errors."""
    return "untyped" if key_type is None else key_type.name


class _Keys(ABC):
    @abstractmethod
    def internal(self, key: Any) -> Hashable: ...

    @abstractmethod
    def encode(self, internal: Any) -> bytes: ...

    @abstractmethod
    def decode(self, data: bytes) -> Hashable: ...

    def encode_all(self, internals: Sequence[Any]) -> list[bytes]:
        return list(map(self.encode, internals))

    def decode_all(self, data: Sequence[bytes]) -> list[Hashable]:
        return list(map(self.decode, data))

    @abstractmethod
    def external(self, internal: Any) -> Any: ...

    def key_group(self, internal: Any, max_parallelism: int) -> int:
        data = self.encode(internal)
        return hash_key_group(data[0], data[1:], max_parallelism)


class _TypedKeys(_Keys):
    """Keys of a declared type, and None, held as bytes, since their equality differs from Python's."""

    def __init__(self, type_info: TypeInformation) -> None:
        self.type_info = type_info
        form = key_format(type_info)
        assert form.tag is not None  # noqa: S101 - of a key
        self.tag, self._encode, self._decode = form.tag, form.encode_key, form.decode_key
        self._prefix = bytes((self.tag,))

    def _payload(self, data: bytes) -> bytes:
        if not data:
            message = "A key in the snapshot has no bytes."
            raise CorruptSnapshotError(message)
        if data[0] != self.tag:
            message = f"A key in the snapshot is {tag_name(data[0])}, which doesn't fit the key type {self.type_info.name}."
            raise RestoreError(message, hint="give key_by the key type the state was written with")
        return data[1:]

    def internal(self, key: Any) -> Hashable:
        return NULL_KEY if key is None else self._prefix + self._encode(key)

    def encode(self, internal: Any) -> bytes:
        return bytes(internal)

    def decode(self, data: bytes) -> Hashable:
        if data == NULL_KEY:
            return data
        try:
            again = self._encode(self._decode(self._payload(data)))
        except StateError as error:
            message = f"A key of type {self.type_info.name} in the snapshot can't be read back: {error.message}"
            raise CorruptSnapshotError(message) from error
        if again != data[1:]:
            message = f"A key of type {self.type_info.name} in the snapshot is not written as it should be."
            raise CorruptSnapshotError(message)
        return data

    @override
    def decode_all(self, data: Sequence[bytes]) -> list[Hashable]:
        if len(data) >= _MANY:
            from pystate.core.state.keys.key_columns import are_keys  # noqa: PLC0415 - the command line has keys, and no Arrow

            if are_keys(data, self.type_info):
                return list(data)
        return super().decode_all(data)

    def external(self, internal: Any) -> Any:
        return None if internal == NULL_KEY else self._decode(internal[1:])


class _IdentityKeys(_TypedKeys):
    """Keys held as objects, including None, which is only checked when a key isn't of the type."""

    _python_type: type

    def __init__(self, type_info: TypeInformation, python_type: type) -> None:
        super().__init__(type_info)
        self._python_type = python_type

    def internal(self, key: Any) -> Hashable:
        if type(key) is self._python_type:
            return key  # str, bytes and int are hashable
        return None if key is None else self._decode(self._encode(key))  # raises, and names the type

    def encode(self, internal: Any) -> bytes:
        try:
            return self._prefix + self._encode(internal)
        except StateError:
            if internal is None:
                return NULL_KEY
            raise

    def decode(self, data: bytes) -> Hashable:
        try:
            return self._decode(self._payload(data))  # type: ignore[no-any-return]
        except RestoreError:
            if data == NULL_KEY:
                return None
            raise

    @override
    def decode_all(self, data: Sequence[bytes]) -> list[Hashable]:
        return list(map(self.decode, data))

    def external(self, internal: Any) -> Any:
        return internal

    def key_group(self, internal: Any, max_parallelism: int) -> int:
        if internal is None:
            return super().key_group(internal, max_parallelism)
        return hash_key_group(self.tag, self._encode(internal), max_parallelism)


class _TextKeys(_IdentityKeys):
    def __init__(self, type_info: TypeInformation) -> None:
        super().__init__(type_info, str)

    def encode(self, internal: Any) -> bytes:
        try:
            return self._prefix + internal.encode()  # type: ignore[no-any-return]
        except (UnicodeEncodeError, AttributeError):  # lone surrogates and None, which take a slower way
            return super().encode(internal)

    def encode_all(self, internals: Sequence[Any]) -> list[bytes]:
        prefix = self._prefix
        try:
            return [prefix + key.encode() for key in internals]
        except (UnicodeEncodeError, AttributeError):
            return super().encode_all(internals)

    def decode_all(self, data: Sequence[bytes]) -> list[Hashable]:
        if {key[:1] for key in data} == {self._prefix}:
            with contextlib.suppress(UnicodeDecodeError):
                return [key[1:].decode() for key in data]
        return super().decode_all(data)


class _IntegerKeys(_IdentityKeys):
    def __init__(self, type_info: TypeInformation) -> None:
        super().__init__(type_info, int)
        self._low, self._high = INTEGER_RANGES[type_info.kind]
        self._layout = struct.Struct("<Bq" if len(self._encode(0)) == _LONG_BYTES else "<Bi")

    def internal(self, key: Any) -> Hashable:
        if type(key) is int and self._low <= key <= self._high:
            return key
        return None if key is None else self._decode(self._encode(key))  # raises, and names the type

    def encode_all(self, internals: Sequence[Any]) -> list[bytes]:
        try:
            return list(map(self._layout.pack, repeat(self.tag), internals))
        except struct.error:  # a None among them
            return super().encode_all(internals)

    def decode_all(self, data: Sequence[bytes]) -> list[Hashable]:
        if set(map(len, data)) == {self._layout.size}:
            tags, keys = zip(*self._layout.iter_unpack(b"".join(data)), strict=True)
            if set(tags) == {self.tag} and self._low <= min(keys) and max(keys) <= self._high:
                return list(keys)
        return super().decode_all(data)


class _AutoKeys(_Keys):
    """Untyped keys: str and int as objects (a str never equals an int), all others as bytes (which equal neither)."""

    def __init__(self) -> None:
        text = SCALARS[TypeKind.STRING]
        self._encode_text, self._decode_text = text.encode_key, text.decode_key
        self._text_tag = bytes((TAG_STRING,))
        self._decode_long = SCALARS[TypeKind.LONG].decode_key

    def internal(self, key: Any) -> Hashable:
        if type(key) is str or type(key) is int:
            return key
        return encode_auto(key)

    def encode(self, internal: Any) -> bytes:
        if type(internal) is str:
            return self._text_tag + self._encode_text(internal)
        return internal if type(internal) is bytes else encode_auto(internal)

    def decode(self, data: bytes) -> Hashable:
        tag = data[0] if data else None
        if tag == TAG_STRING:
            return self._decode_text(data[1:])  # type: ignore[no-any-return]
        if tag == TAG_LONG:
            return self._decode_long(data[1:])  # type: ignore[no-any-return]
        key = decode_auto(data)
        if tag == TAG_BIG_INT and not _LONG_LOW <= key <= _LONG_HIGH and encode_auto(key) == data:
            return key  # type: ignore[no-any-return]
        try:
            again = encode_auto(key)
        except StateError as error:
            message = f"A key in the snapshot can't be read back: {error.message}"
            raise CorruptSnapshotError(message) from error
        if again != data:
            message = f"A key in the snapshot is {tag_name(data[0])}, which an untyped key never is."
            raise RestoreError(message, hint="give key_by the key type the state was written with")
        return data

    def external(self, internal: Any) -> Any:
        return decode_auto(internal) if type(internal) is bytes else internal

    def key_group(self, internal: Any, max_parallelism: int) -> int:
        if type(internal) is str:
            return hash_key_group(TAG_STRING, internal.encode("utf-8", "surrogatepass"), max_parallelism)
        return super().key_group(internal, max_parallelism)


def _keys_for(key_type: TypeInformation | None) -> _Keys:
    if key_type is None:
        return _AutoKeys()
    if key_type.kind in INTEGER_RANGES:
        return _IntegerKeys(key_type)
    if key_type.kind is TypeKind.STRING:
        return _TextKeys(key_type)
    if type_tag(key_type) == TAG_BINARY:
        return _IdentityKeys(key_type, bytes)
    return _TypedKeys(key_type)


class KeyCodec:
    """Converts keys of one type to a hashable form and to bytes, and back.

    A key has three forms: *external*, as user functions see it; *internal*, a hashable for dicts that is cheap to compute;
    *bytes*, tag and payload, for snapshots and other backends. Internal forms of different codecs must not be mixed.

    Args:
        key_type: The declared type; None for untyped keys, whose Python type decides.

    Attributes:
        key_type: As given.
        internal: (external key) -> internal key. Raises StateError for a key of the wrong type; None is of any type.
        encode: (internal key) -> bytes.
        decode: (bytes) -> internal key. Raises RestoreError if the bytes are a key of another type, CorruptSnapshotError if
            they aren't a key.
        encode_all: (internal keys) -> bytes of each.
        decode_all: (bytes of several keys) -> internal keys.
        external: (internal key) -> external key; a new object each time if it is mutable.
        key_group: (internal key, max parallelism) -> key group.
    """

    __slots__ = ("decode", "decode_all", "encode", "encode_all", "external", "internal", "key_group", "key_type")

    def __init__(self, key_type: TypeInformation | None = None) -> None:
        keys = _keys_for(key_type)
        self.key_type = key_type
        # bound once: these are called for each record
        self.internal: Callable[[Any], Hashable] = keys.internal
        self.encode: Callable[[Any], bytes] = keys.encode
        self.decode: Callable[[bytes], Hashable] = keys.decode
        self.encode_all: Callable[[Sequence[Any]], list[bytes]] = keys.encode_all
        self.decode_all: Callable[[Sequence[bytes]], list[Hashable]] = keys.decode_all
        self.external: Callable[[Any], Any] = keys.external
        self.key_group: Callable[[Any, int], int] = keys.key_group

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickle."""
        return KeyCodec, (self.key_type,)

    def __repr__(self) -> str:
        """Return the call that makes the codec."""
        return f"KeyCodec({self.key_type!r})"
