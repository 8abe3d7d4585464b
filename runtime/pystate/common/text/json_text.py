"""Human-readable JSON of any value: values without a JSON type become text."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

from pystate.common.row import Row, RowKind
from pystate.common.time import Instant

KIND_FIELD = "$kind"
"""The key of the kind in the object of a row that isn't an INSERT."""

_PLAIN = frozenset({type(None), bool, int, str})
_encode = json.JSONEncoder(ensure_ascii=False).encode


def json_text(value: Any) -> str:
    """Return a value as one line of JSON. It can't be parsed back exactly: a tuple looks like a list."""
    if type(value) is int:
        return str(value)
    return _encode(json_able(value))


def json_able(value: Any) -> Any:
    """Return a value in a form that `json.dumps` accepts.

    Bytes are hex digits with the prefix `0x`, decimals and times are text, rows with names and maps with text keys are
    objects, other maps are lists of pairs.
    """
    if type(value) in _PLAIN or isinstance(value, (int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"0x{bytes(value).hex()}"
    if isinstance(value, Row):
        return _row(value)
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: json_able(item) for key, item in value.items()}
        return [[json_able(key), json_able(item)] for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [json_able(item) for item in value]
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Instant):
        return _instant(value)
    if isinstance(value, (dt.date, dt.time)):  # a datetime is a date
        return value.isoformat()
    return repr(value)


def _row(row: Row) -> Any:
    names, values = row.field_names(), [json_able(item) for item in row.values_list()]
    kind = row.get_row_kind()
    if names is None:
        return values if kind is RowKind.INSERT else {KIND_FIELD: kind.name, "values": values}
    plain = dict(zip(names, values, strict=True))
    return plain if kind is RowKind.INSERT else {KIND_FIELD: kind.name, **plain}


def _instant(instant: Instant) -> str:
    try:
        seconds = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=instant.seconds)  # noqa: DTZ001 - said to be UTC below
    except OverflowError:
        return f"{instant.seconds}.{instant.nanos:09d}s"
    fraction = f".{instant.nanos:09d}" if instant.nanos else ""
    return f"{seconds.isoformat()}{fraction}Z"
