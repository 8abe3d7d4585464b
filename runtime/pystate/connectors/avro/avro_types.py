"""What data of a schema are as values of our types, with the types that Flink's `AvroSchemaConverter` names.

A union with null is its other branch, which may be None. A union of more branches, and null alone, have no type of their
own: such values are as fastavro has them, and travel pickled.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal
from operator import itemgetter
from typing import Any, NamedTuple

from pystate.common.errors import JobGraphError
from pystate.common.row import Row
from pystate.common.time import Instant
from pystate.common.type_info import TypeInformation, TypeKind, Types
from pystate.common.type_rules import SCALAR_RULES, WrongValueError, as_bytes, as_dict, as_list, as_row
from pystate.connectors.avro.avro_schema import AvroSchema

Convert = Callable[[Any], Any]

_UTC = dt.timezone.utc
_NANOS = 1_000_000_000
_INT_END = 1 << 31
_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())


class AvroType(NamedTuple):
    """What data of a schema are here.

    Attributes:
        type_info: Their type.
        read: Makes a value of a datum that isn't None; None where the two are the same.
        write: Makes a datum of a value; raises a ValueError for values of other types.
    """

    type_info: TypeInformation
    read: Convert | None
    write: Convert


def avro_type(schema: AvroSchema) -> AvroType:
    """Return what data of a schema are here.

    Raises:
        JobGraphError: A record contains itself: its rows have no type.
    """
    return _type_of(schema.parsed, {}, ())


def row_type_of(schema: AvroSchema) -> AvroType:
    """Return what the records of a schema are here: rows.

    Raises:
        JobGraphError: It isn't the schema of a record, or the record contains itself.
    """
    found = avro_type(schema)
    if found.type_info.kind is not TypeKind.ROW:
        message = f"A row is a record of Avro, and the schema is one of {found.type_info.name}."
        raise JobGraphError(message, hint='give it a schema with "type": "record"')
    return found


Named = dict[str, Any]
"""The named schemas that were met, by full name."""


def _type_of(schema: Any, named: Named, inside: tuple[str, ...]) -> AvroType:
    if isinstance(schema, list):
        return _union(schema, named, inside)
    if isinstance(schema, str):
        schema = named.get(schema, schema)
    if isinstance(schema, str):
        return _PRIMITIVES[schema]
    kind = schema["type"]
    if isinstance(kind, (dict, list)):  # {"type": {"type": "string"}}
        return _type_of(kind, named, inside)
    logical = _LOGICAL.get((kind, schema.get("logicalType")))
    if "name" in schema:
        named[schema["name"]] = schema
    if logical is not None:
        return logical
    if kind in ("record", "error"):
        return _record(schema, named, inside)
    if kind == "enum":
        return AvroType(Types.STRING(), None, _symbol(frozenset(schema["symbols"])))
    if kind == "fixed":
        return AvroType(_BYTES, None, _fixed(schema["size"]))
    if kind == "array":
        return _array(_type_of(schema["items"], named, inside))
    if kind == "map":
        return _map(_type_of(schema["values"], named, inside))
    return _PRIMITIVES[kind] if kind in _PRIMITIVES else _type_of(kind, named, inside)


def _union(branches: list[Any], named: Named, inside: tuple[str, ...]) -> AvroType:
    found = [_type_of(branch, named, inside) for branch in branches if branch != "null"]
    if len(found) != 1:
        return _UNTYPED
    (only,) = found
    if len(branches) == 1:
        return only
    write = only.write
    return only._replace(write=lambda value: None if value is None else write(value))


def _record(schema: Mapping[str, Any], named: Named, inside: tuple[str, ...]) -> AvroType:
    name = schema["name"]
    if name in inside:
        message = f"The record {name!r} contains itself, so that its rows have no type."
        raise JobGraphError(message, hint="read dicts instead: GenericRecordAvroTypeInfo(schema)")
    fields = schema["fields"]
    names = tuple(field["name"] for field in fields)
    parts = [_type_of(field["type"], named, (*inside, name)) for field in fields]
    type_info = Types.ROW_NAMED(names, [part.type_info for part in parts])
    converted = [(index, part.read) for index, part in enumerate(parts) if part.read is not None]
    get, of_fields = _getter(names), Row.of_fields

    def read(datum: Any) -> Row:
        values = get(datum)
        for index, convert in converted:
            value = values[index]
            if value is not None:
                values[index] = convert(value)
        return of_fields(names, values)

    writes = [(field, part.write) for field, part in zip(names, parts, strict=True)]

    def write(value: Any) -> dict[str, Any]:
        values = as_row(value, type_info).values_as(names)
        field = ""
        try:
            datum = {}
            for (field, convert), item in zip(writes, values, strict=True):
                datum[field] = convert(item)
        except ValueError as error:
            message = f"field {field!r}: {getattr(error, 'message', error)}"
            raise ValueError(message) from error
        return datum

    return AvroType(type_info, read, write)


def _getter(names: tuple[str, ...]) -> Convert:
    """Return a function that lists the fields of a record; resolving a schema leaves them in another order."""
    if len(names) < 2:  # noqa: PLR2004 - itemgetter then returns no tuple
        return lambda datum: [datum[name] for name in names]
    get = itemgetter(*names)
    return lambda datum: list(get(datum))


def _array(part: AvroType) -> AvroType:
    read, write, type_info = part.read, part.write, Types.OBJECT_ARRAY(part.type_info)
    read_all: Convert | None = None
    if read is _int:
        read_all = _ints
    elif read is not None:

        def read_all(items: Any) -> list[Any]:
            return [None if item is None else read(item) for item in items]

    return AvroType(type_info, read_all, lambda value: [write(item) for item in as_list(value, type_info)])


def _map(part: AvroType) -> AvroType:
    read, write, type_info = part.read, part.write, Types.MAP(Types.STRING(), part.type_info)
    read_all: Convert | None = None
    if read is not None:

        def read_all(items: Any) -> dict[str, Any]:
            return {key: None if item is None else read(item) for key, item in items.items()}

    def write_all(value: Any) -> dict[str, Any]:
        return {_text(key): write(item) for key, item in as_dict(value, type_info).items()}

    return AvroType(type_info, read_all, write_all)


def _symbol(symbols: frozenset[str]) -> Convert:
    def write(value: Any) -> str:
        if value in symbols:
            return str(value)
        raise WrongValueError(value, "STRING", f"the symbols of the schema are {', '.join(sorted(symbols))}")

    return write


def _fixed(size: int) -> Convert:
    def write(value: Any) -> bytes:
        data = as_bytes(value, _BYTES.name)
        if len(data) != size:
            raise WrongValueError(value, _BYTES.name, f"the schema has {size} bytes, it has {len(data)}")
        return data

    return write


def _scalar(type_info: TypeInformation, exact: type) -> AvroType:
    rule = SCALAR_RULES[type_info.kind]
    return AvroType(type_info, None, lambda value: value if type(value) is exact else rule(value))


def _ruled(type_info: TypeInformation, read: Convert | None = None, finish: Convert | None = None) -> AvroType:
    rule = SCALAR_RULES[type_info.kind]
    return AvroType(type_info, read, rule if finish is None else lambda value: finish(rule(value)))


def _text(value: Any) -> Any:
    return SCALAR_RULES[TypeKind.STRING](value)


def _naive(value: Any) -> dt.datetime:
    """Return a time in UTC without a zone."""
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else _out_of_range(value)


def _out_of_range(value: Any) -> dt.datetime:
    message = f"{value!r} is no moment of the years 1 to 9999"
    raise ValueError(message)


def _int(value: Any) -> Any:
    """Check a whole number that the bytes may have more of than an INT: fastavro takes each as a long."""
    if -_INT_END <= value < _INT_END:
        return value
    message = f"{value} is no INT: an int of Avro has 32 bits"
    raise ValueError(message)


def _ints(values: list[Any]) -> list[Any]:
    """Check all of a list, which may be a long one."""
    numbers = values if None not in values else [value for value in values if value is not None]
    if numbers:
        _int(min(numbers))
        _int(max(numbers))
    return values


def _nanos(value: Any) -> Instant:
    return Instant(value // _NANOS, value % _NANOS)


def _uuid_text(value: Any) -> str:
    return str(value)


def _write_uuid(value: Any) -> str:
    return str(value if isinstance(value, uuid.UUID) else uuid.UUID(_text(value)))


_UNTYPED = AvroType(Types.PICKLED_BYTE_ARRAY(), None, lambda value: value)
_PRIMITIVES: dict[str, AvroType] = {
    "null": _UNTYPED,
    "boolean": _scalar(Types.BOOLEAN(), bool),
    "int": _ruled(Types.INT(), _int),
    "long": _ruled(Types.LONG()),
    "float": _ruled(Types.FLOAT()),
    "double": _scalar(Types.DOUBLE(), float),
    "string": _scalar(Types.STRING(), str),
    "bytes": AvroType(_BYTES, None, lambda value: as_bytes(value, _BYTES.name)),
}
_MOMENT = _ruled(Types.SQL_TIMESTAMP(), _naive, lambda value: value.replace(tzinfo=_UTC))
_LOCAL_MOMENT = _ruled(Types.SQL_TIMESTAMP(), _naive)
_NANO_MOMENT = _ruled(Types.INSTANT(), _nanos, lambda value: value.seconds * _NANOS + value.nanos)
_TIME = _ruled(Types.SQL_TIME())
_DECIMAL = _scalar(Types.BIG_DEC(), Decimal)
_UUID = AvroType(Types.STRING(), _uuid_text, _write_uuid)
_LOGICAL: dict[tuple[Any, Any], AvroType] = {
    ("int", "date"): _ruled(Types.SQL_DATE()),
    ("int", "time-millis"): _TIME,
    ("long", "time-micros"): _TIME,
    ("long", "timestamp-millis"): _MOMENT,
    ("long", "timestamp-micros"): _MOMENT,
    ("long", "timestamp-nanos"): _NANO_MOMENT,
    ("long", "local-timestamp-millis"): _LOCAL_MOMENT,
    ("long", "local-timestamp-micros"): _LOCAL_MOMENT,
    ("bytes", "decimal"): _DECIMAL,
    ("fixed", "decimal"): _DECIMAL,
    ("string", "uuid"): _UUID,
}
