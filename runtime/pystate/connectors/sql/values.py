"""Converts row values for committables and for database drivers."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgpack

from pystate.common.row import Row
from pystate.common.text.bounded_text import shown
from pystate.connectors.sql.sql_errors import SqlError

_PLAIN = (str, int, float, bytes, bool, type(None))
_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1
_DECIMAL, _DATETIME, _DATE, _TIME, _TIMEDELTA, _UUID, _INT = range(1, 8)


def to_plain(value: Any) -> Any:
    """Convert a value for msgpack.

    Raises:
        SqlError: Databases don't support its type.
    """
    kind = type(value)
    if kind is int and not _MIN_INT <= value <= _MAX_INT:
        return msgpack.ExtType(_INT, str(value).encode())
    if kind in _PLAIN:
        return value
    if isinstance(value, Decimal):
        return msgpack.ExtType(_DECIMAL, str(value).encode())
    if isinstance(value, datetime.datetime):  # before date, its base class
        return msgpack.ExtType(_DATETIME, value.isoformat().encode())
    if isinstance(value, datetime.date):
        return msgpack.ExtType(_DATE, value.isoformat().encode())
    if isinstance(value, datetime.time):
        return msgpack.ExtType(_TIME, value.isoformat().encode())
    if isinstance(value, datetime.timedelta):
        return msgpack.ExtType(_TIMEDELTA, str(value // datetime.timedelta(microseconds=1)).encode())
    if isinstance(value, UUID):
        return msgpack.ExtType(_UUID, value.bytes)
    if isinstance(value, Row):
        return [to_plain(part) for part in value.values_list()]
    if isinstance(value, (list, tuple)):
        return [to_plain(part) for part in value]
    if isinstance(value, Mapping):
        return {key: to_plain(part) for key, part in value.items()}
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if hasattr(value, "item"):
        return to_plain(value.item())  # numpy's
    for base in (str, int, float):
        if isinstance(value, base):
            return base(value)
    message = f"A value of {kind.__name__} can't be written to a database: {shown(value)}"
    raise SqlError(message, hint="map it to a number, text, bytes, date, time, Decimal, UUID, list or dict before the sink")


def from_plain(value: Any) -> Any:
    """Convert a value back from `to_plain`."""
    if isinstance(value, msgpack.ExtType):
        return _of_extension(value.code, value.data)
    if isinstance(value, list):
        return [from_plain(part) for part in value]
    if isinstance(value, dict):
        return {key: from_plain(part) for key, part in value.items()}
    return value


def _of_extension(code: int, data: bytes) -> Any:
    if code == _UUID:
        return UUID(bytes=data)
    text = data.decode()
    if code == _DECIMAL:
        return Decimal(text)
    if code == _DATETIME:
        return datetime.datetime.fromisoformat(text)
    if code == _DATE:
        return datetime.date.fromisoformat(text)
    if code == _TIME:
        return datetime.time.fromisoformat(text)
    if code == _TIMEDELTA:
        return datetime.timedelta(microseconds=int(text))
    return int(text)


def for_driver(values: list[Any], backend: str) -> tuple[Any, ...]:
    """Convert a row for the driver of a database."""
    return tuple(value if type(value) in _PLAIN else _for_driver(value, backend) for value in values)


def _for_driver(value: Any, backend: str) -> Any:
    if isinstance(value, dict) or (isinstance(value, list) and backend != "postgresql"):
        return json.dumps(value, default=str)
    if isinstance(value, UUID) and backend != "postgresql":
        return str(value)
    if backend == "sqlite":
        if isinstance(value, Decimal):
            return str(value)
        if isinstance(value, datetime.datetime):
            return value.isoformat(" ")
        if isinstance(value, (datetime.date, datetime.time)):
            return value.isoformat()
        if isinstance(value, datetime.timedelta):
            return value.total_seconds()
    return value
