"""JSON schemas: helpers to write those of requests; those of answers are derived from their classes."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pystate.common.text.plain_data import Pattern, PlainData, entries

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
TRUTH: Schema = {"type": "boolean"}
_NULL: Schema = {"type": "null"}
_SIMPLE: dict[Any, Schema] = {
    str: TEXT,
    int: INTEGER,
    float: {"type": "number"},
    bool: TRUTH,
    type(None): _NULL,
    Any: {},
}


def words(*values: str) -> Schema:
    """Return the schema of a string with an enumeration of values."""
    return {"type": "string", "enum": list(values)}


def array(items: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


def mapping(values: Schema) -> Schema:
    """Return the schema of an object with arbitrary keys."""
    return {"type": "object", "additionalProperties": values}


def nullable(schema: Schema) -> Schema:
    """Return a schema that also allows null."""
    return {"anyOf": [schema, _NULL]}


def record(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    """Return the schema of an object with these fields and no others."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": sorted(required),
        "additionalProperties": False,
    }


def schema_of(kind: Any) -> Schema:
    """Return the JSON schema of a type: a message, a field of one, or a list of them."""
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        patterns = [one for one in arguments[1:] if isinstance(one, Pattern)]
        return {**schema_of(arguments[0]), **({"pattern": patterns[0].regex} if patterns else {})}
    if origin is Literal:
        return words(*arguments)
    if origin in (Union, UnionType):
        return {"anyOf": [schema_of(one) for one in arguments]}
    if origin in (list, tuple):
        return array(schema_of(arguments[0]))
    if origin is dict:
        return _mapping(*arguments)
    if issubclass(kind, Enum):
        return words(*_values(kind))
    return _message(kind)


def _mapping(key: Any, value: Any) -> Schema:
    if key is str:
        return mapping(schema_of(value))
    return record(dict.fromkeys(_values(key), schema_of(value)))


def _message(kind: type[PlainData]) -> Schema:
    fields = entries(kind).values()
    required = {one.key: schema_of(one.kind) for one in fields if not one.unless_none}
    optional = {one.key: schema_of(_present(one.kind)) for one in fields if one.unless_none}
    return record(required, optional)


def _present(kind: Any) -> Any:
    """Return the type of a field that is omitted if it is None."""
    return Union[tuple(one for one in get_args(kind) if one is not type(None))]  # noqa: UP007 - of how many isn't known


def _values(kind: Iterable[Enum]) -> list[str]:
    return [str(one.value) for one in kind]
