"""Makes the commands that write an element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any

from pystate.common.errors import ConfigurationError, RecordError
from pystate.common.row import Row, RowKind
from pystate.common.serialization import SerializationSchema
from pystate.common.text.bounded_text import shown
from pystate.connectors.async_sink.request import Request

Command = tuple[Any, ...]


class RedisStructure(Enum):
    """What an element becomes."""

    STRING = "string"  # SET; the latest value of a key
    HASH = "hash"  # the fields of the latest element of a key
    STREAM = "stream"  # XADD; an entry for each element


class RedisRequests:
    """Makes requests of elements.

    Args:
        structure: What an element becomes.
        key: Makes the key from an element.
        value: Makes the value, or the fields, from an element; None for its own fields.
        time_to_live_ms: When a key expires; None for never.
        max_length: The number of entries that a stream keeps, about; None for all.
        delete_when: Which elements delete their key, besides rows of the kind DELETE.

    Raises:
        ConfigurationError: They don't go together.
    """

    def __init__(
        self,
        structure: RedisStructure,
        key: Callable[[Any], Any],
        value: SerializationSchema | Callable[[Any], Any] | None,
        time_to_live_ms: int | None,
        max_length: int | None,
        delete_when: Callable[[Any], bool] | None,
    ) -> None:
        is_stream = structure is RedisStructure.STREAM
        wrong, hint = None, None
        if structure is RedisStructure.STRING and value is None:
            wrong, hint = (
                "A string needs its value.",
                "set_value(SimpleStringSchema()), or a function that returns bytes or str",
            )
        elif structure is not RedisStructure.STRING and isinstance(value, SerializationSchema):
            wrong, hint = (
                "A hash or a stream has fields, and no bytes.",
                "set_value(...) with a function that returns a dict",
            )
        elif is_stream and (time_to_live_ms is not None or delete_when is not None):
            wrong, hint = "The entries of a stream don't expire and aren't deleted by key.", "set_max_stream_length(...)"
        elif not is_stream and max_length is not None:
            wrong, hint = "Only a stream has a length.", "set_structure(RedisStructure.STREAM)"
        elif any(limit is not None and limit < 1 for limit in (time_to_live_ms, max_length)):
            wrong = "A time to live, and a length, are 1 at least."
        if wrong is not None:
            raise ConfigurationError(wrong, hint=hint)
        self._structure = structure
        self._key = key
        self._value = value.serialize if isinstance(value, SerializationSchema) else value
        self._expires = () if time_to_live_ms is None else ("PX", time_to_live_ms)
        self._time_to_live_ms = time_to_live_ms
        self._trims = () if max_length is None else ("MAXLEN", "~", max_length)
        self._delete_when = delete_when

    def request_of(self, element: Any) -> Request | None:
        """Return the request of an element; None if it asks for nothing.

        Raises:
            RecordError: It has no key, or no value that Redis could hold.
        """
        deletes = self._delete_when is not None and self._delete_when(element)
        kind = element.get_row_kind() if isinstance(element, Row) else RowKind.INSERT
        if self._structure is RedisStructure.STREAM and kind is not RowKind.INSERT:
            message = f"A stream of Redis only grows, and {shown(element)} is a {kind.name}."
            raise RecordError(message, hint="write rows that change by key: RedisStructure.STRING or HASH")
        if kind is RowKind.UPDATE_BEFORE:
            return None
        key = self._key_of(element)
        if deletes or kind is RowKind.DELETE:
            return Request(key, [("UNLINK", key)], len(key), key)
        if self._structure is RedisStructure.STRING:
            assert self._value is not None  # noqa: S101 - checked when it was made
            value = _as_bytes(self._value(element), "value")
            return Request(key, [("SET", key, value, *self._expires)], len(key) + len(value), value)
        fields = self._fields_of(element)
        body = b"\n".join(fields)
        size = len(key) + sum(map(len, fields))
        if self._structure is RedisStructure.STREAM:
            return Request(key, [("XADD", key, *self._trims, "*", *fields)], size, body)
        commands: list[Command] = [("DEL", key), ("HSET", key, *fields)]
        if self._time_to_live_ms is not None:
            commands.append(("PEXPIRE", key, self._time_to_live_ms))
        return Request(key, commands, size, body)

    def _key_of(self, element: Any) -> bytes:
        found = self._key(element)
        if found is None or found in ("", b""):
            message = f"An element has no key: {shown(element)}"
            raise RecordError(message, hint="set_key(...) names the fields of the key, or makes it")
        return _as_bytes(found, "key")

    def _fields_of(self, element: Any) -> list[bytes]:
        found = element if self._value is None else self._value(element)
        if isinstance(found, Row) and found.field_names():
            found = found.as_dict()
        if not isinstance(found, Mapping):
            message = f"{shown(found)} has no names of fields."
            raise RecordError(
                message, hint="write rows with names, or dicts; set_value(...) takes a function that makes one"
            )
        fields = [
            _as_bytes(part, f"field {name}")
            for name, value in found.items()
            if value is not None
            for part in (str(name), value)
        ]
        if not fields:
            message = f"All fields of an element are None: {shown(element)}"
            raise RecordError(message, hint="Redis holds no empty hash, and no empty entry")
        return fields


def _as_bytes(value: Any, what: str) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            message = f"The {what} is no text: {shown(value)}"
            raise RecordError(message, hint="it has half of a pair of surrogates") from error
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, (int, float, Decimal)):
        return str(value).encode()
    if isinstance(value, (date, datetime, time)):
        return value.isoformat().encode()
    message = f"Redis holds bytes, and the {what} is {shown(value)}."
    raise RecordError(message, hint="set_value(...) makes text or bytes of it")
