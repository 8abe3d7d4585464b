"""The defaults of a reader's schema, as data: a schema has them as JSON, which fastavro hands out as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

from pystate.common.errors import JobGraphError
from pystate.connectors.avro.avro_package import fastavro

_NAMED = ("record", "error", "enum", "fixed")
_HINT, _NAMED_SCHEMAS = "__fastavro_parsed", "__named_schemas"
"""What fastavro's parser leaves in a schema that it needn't parse again."""
_JSON: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "string": (str,),
    "bytes": (str,),
    "fixed": (str,),
    "enum": (str,),
    "array": (list,),
    "map": (dict,),
    "record": (dict,),
    "error": (dict,),
}
"""What JSON the default of a type is."""


def with_defaults_read(parsed: Any) -> Any:
    """Return a schema whose defaults are data, as a message would hold them: bytes, dates, decimals.

    Args:
        parsed: The schema as fastavro has parsed it; it stays as it is.

    Raises:
        JobGraphError: A default isn't one of its field's type.
    """
    schema = deepcopy(parsed)
    for branch in schema if isinstance(schema, list) else [schema]:
        if isinstance(branch, dict) and _HINT not in branch:  # else fastavro parses it for each message, and checks JSON
            branch[_NAMED_SCHEMAS] = {one["name"]: one for one in _schemas(schema) if one.get("type") in _NAMED}
            branch[_HINT] = True
    named = {one["name"]: one for one in _schemas(parsed) if one.get("type") in _NAMED}
    fields = {id(field): (one, field) for one in _schemas(schema) for field in one.get("fields", ()) if "default" in field}
    for record, field in fields.values():
        try:
            field["default"] = _datum(field["type"], field["default"], named)
        except (ValueError, TypeError, ArithmeticError) as error:
            message = f"The default of the field {field['name']!r} of {record['name']!r} is none of its type: {error}."
            raise JobGraphError(
                message, hint="mend the schema that the program gives; Avro's specification says how"
            ) from error
    return schema


def own_defaults(schema: Any) -> Callable[[Any], Any] | None:
    """Return a function that gives a datum its own lists, maps and records where it has those of defaults.

    Args:
        schema: What `with_defaults_read` returned; a reader puts its very defaults into each datum.

    Returns:
        None where no default can be changed.
    """
    defaults = [field["default"] for one in _schemas(schema) for field in one.get("fields", ()) if "default" in field]
    shared = {id(default) for default in defaults if isinstance(default, (list, dict))}
    if not shared:
        return None

    def own(value: Any) -> Any:
        if id(value) in shared:
            return deepcopy(value)
        items: Any = value.items() if type(value) is dict else enumerate(value)
        for key, item in items:
            if type(item) in (dict, list):
                value[key] = own(item)
        return value

    return lambda datum: own(datum) if type(datum) in (dict, list) else datum


def _schemas(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the schemas that a schema has in it."""
    if isinstance(schema, list):
        for branch in schema:
            yield from _schemas(branch)
    elif isinstance(schema, dict):
        yield schema
        for part in ("items", "values", "type"):
            yield from _schemas(schema.get(part))
        for field in schema.get("fields", ()):
            yield from _schemas(field["type"])
        for one in schema.get(_NAMED_SCHEMAS, {}).values():  # copies, which fastavro takes where a name stands
            yield from _schemas(one)


def _datum(schema: Any, default: Any, named: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return _of_union(schema, default, named)
    if isinstance(schema, str) and schema not in _JSON:
        schema = named[schema]
    if isinstance(schema, str):
        schema = {"type": schema}
    kind = schema["type"]
    if isinstance(kind, (dict, list)) or kind not in _JSON:
        return _datum(kind, default, named)
    if not isinstance(default, _JSON[kind]) or (isinstance(default, bool) and kind != "boolean"):
        message = f"{default!r} is no {kind}"
        raise ValueError(message)
    datum = _plain(kind, schema, default, named)
    logical = fastavro().read.LOGICAL_READERS.get(f"{kind}-{schema.get('logicalType')}")
    return datum if logical is None else logical(datum, schema, None)


def _of_union(branches: list[Any], default: Any, named: dict[str, Any]) -> Any:
    problem = ValueError(f"{default!r} is no {branches!r}")
    for branch in branches:
        try:
            return _datum(branch, default, named)
        except ValueError as error:
            problem = error
    raise problem


def _plain(kind: str, schema: dict[str, Any], default: Any, named: dict[str, Any]) -> Any:
    if kind in ("float", "double"):
        return float(default)
    if kind in ("bytes", "fixed"):
        data = default.encode("latin-1")
        if kind == "fixed" and len(data) != schema["size"]:
            message = f"{default!r} has {len(data)} bytes, not {schema['size']}"
            raise ValueError(message)
        return data
    if kind == "enum" and default not in schema["symbols"]:
        message = f"{default!r} is none of {', '.join(schema['symbols'])}"
        raise ValueError(message)
    if kind == "array":
        return [_datum(schema["items"], item, named) for item in default]
    if kind == "map":
        return {key: _datum(schema["values"], item, named) for key, item in default.items()}
    if kind in ("record", "error"):
        return {field["name"]: _of_field(field, default, named) for field in schema["fields"]}
    return default


def _of_field(field: dict[str, Any], default: dict[str, Any], named: dict[str, Any]) -> Any:
    name = field["name"]
    if name not in default and "default" not in field:
        message = f"it has no {name!r}"
        raise ValueError(message)
    return _datum(field["type"], default[name] if name in default else field["default"], named)
