"""JSON that keeps values exactly, for golden files: what JSON has no type for is an object whose key begins with `$`."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pystate.common.errors import StateError
from pystate.common.row import Row, RowKind
from pystate.common.time import Instant


def to_json(value: Any) -> Any:
    """Return a value in a form that `json.dumps` accepts, and `from_json` reads back.

    Raises:
        StateError: The value, or one in it, is of another type than those that untyped state can hold.
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": str(value)}
    if type(value) is list:
        return [to_json(item) for item in value]
    if type(value) is dict:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: to_json(item) for key, item in value.items()}
        return {"$dict": [[to_json(key), to_json(item)] for key, item in value.items()]}
    if isinstance(value, Row):
        return {"$row": _row(value)}
    for name, (kind, write, _) in _KINDS.items():
        if type(value) is kind:
            return {name: write(value)}
    message = f"A golden file can't hold {value!r}, which is of {type(value).__module__}.{type(value).__qualname__}."
    raise StateError(
        message, hint="give the function values of basic types, tuples or rows; or compare the results in the test"
    )


def from_json(plain: Any) -> Any:
    """Return the value that `to_json` has written.

    Raises:
        ValueError: There is none.
    """
    if isinstance(plain, list):
        return [from_json(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    tag = next(iter(plain), "")
    if not tag.startswith("$"):
        return {key: from_json(item) for key, item in plain.items()}
    content = plain[tag]
    if tag == "$float":
        return float(content)
    if tag == "$dict":
        return {from_json(key): from_json(item) for key, item in content}
    if tag == "$row":
        return _read_row(content)
    if tag not in _KINDS:
        message = f"{tag!r} is no type of a golden file"
        raise ValueError(message)
    return _KINDS[tag][2](content)


def _row(row: Row) -> dict[str, Any]:
    names, values = row.field_names(), [to_json(item) for item in row.values_list()]
    kind = row.get_row_kind()
    plain: dict[str, Any] = {"values": values} if names is None else {"fields": dict(zip(names, values, strict=True))}
    return plain if kind is RowKind.INSERT else {**plain, "kind": kind.name}


def _read_row(plain: dict[str, Any]) -> Row:
    if "fields" in plain:
        row = Row(**{name: from_json(item) for name, item in plain["fields"].items()})
    else:
        row = Row(*(from_json(item) for item in plain["values"]))
    if "kind" in plain:
        row.set_row_kind(RowKind[plain["kind"]])
    return row


_KINDS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "$tuple": (tuple, lambda value: [to_json(item) for item in value], lambda plain: tuple(from_json(plain))),
    "$bytes": (bytes, bytes.hex, bytes.fromhex),
    "$decimal": (Decimal, str, Decimal),
    "$datetime": (dt.datetime, dt.datetime.isoformat, dt.datetime.fromisoformat),
    "$date": (dt.date, dt.date.isoformat, dt.date.fromisoformat),
    "$time": (dt.time, dt.time.isoformat, dt.time.fromisoformat),
    "$instant": (Instant, lambda value: [value.seconds, value.nanos], lambda plain: Instant(*plain)),
}
