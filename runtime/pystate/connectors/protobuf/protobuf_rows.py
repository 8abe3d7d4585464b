"""What messages of a class are as rows.

A field is None where it isn't set and a message can tell so: messages, members of a oneof, and what is `optional`; every
other field has its default. An enum is the name of its value, or its number where that has no name here, a `Timestamp` an
INSTANT, and a wrapper of a scalar what it wraps.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from pystate.common.errors import JobGraphError
from pystate.common.row import Row
from pystate.common.time import Instant
from pystate.common.type_info import TypeInformation, Types
from pystate.common.type_rules import SCALAR_RULES, as_bytes, as_dict, as_list, as_row

Convert = Callable[[Any], Any]

_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = "google.protobuf."
_NUMBER = re.compile("0|-?[1-9][0-9]{0,9}")
_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
_SCALARS: dict[str, TypeInformation] = {
    "DOUBLE": Types.DOUBLE(),
    "FLOAT": Types.FLOAT(),
    "INT64": Types.LONG(),
    "UINT64": Types.BIG_INT(),  # a LONG ends at half of it
    "INT32": Types.INT(),
    "FIXED64": Types.BIG_INT(),
    "FIXED32": Types.LONG(),
    "BOOL": Types.BOOLEAN(),
    "STRING": Types.STRING(),
    "BYTES": _BYTES,
    "UINT32": Types.LONG(),
    "SFIXED32": Types.INT(),
    "SFIXED64": Types.LONG(),
    "SINT32": Types.INT(),
    "SINT64": Types.LONG(),
}


class _Part(NamedTuple):
    """One value of a field.

    Attributes:
        type_info: Its type.
        read: Makes our value; None where it is the same.
        write: Makes what a field is set to, of a value that isn't None.
        fill: Sets a message to a value instead; None for scalars.
    """

    type_info: TypeInformation
    read: Convert | None
    write: Convert
    fill: Callable[[Any, Any], None] | None = None


class ProtobufRows(NamedTuple):
    """What messages of a class are here.

    Attributes:
        type_info: The type of their rows.
        to_row: Makes a row of a message.
        fill: Sets the fields of an empty message to those of a row; raises a ValueError for a row of another type.
    """

    type_info: TypeInformation
    to_row: Convert
    fill: Callable[[Any, Any], None]


def protobuf_rows(descriptor: Any) -> ProtobufRows:
    """Return what messages are here.

    Args:
        descriptor: The descriptor of their class.

    Raises:
        JobGraphError: A message contains itself: its rows have no type.
    """
    rows = _rows(descriptor, ())
    if not _has_required(descriptor):
        return rows

    def to_row(message: Any) -> Any:
        if not message.IsInitialized():
            problem = f"it lacks what its class requires: {', '.join(message.FindInitializationErrors())}"
            raise ValueError(problem)
        return rows.to_row(message)

    return rows._replace(to_row=to_row)


def _has_required(descriptor: Any) -> bool:
    """Return whether messages, which don't contain themselves, have fields that proto2 requires."""
    return any(
        _is_required(field) or (field.message_type is not None and _has_required(field.message_type))
        for field in descriptor.fields
    )


def _rows(descriptor: Any, inside: tuple[str, ...]) -> ProtobufRows:
    if descriptor.full_name in inside:
        message = f"The message {descriptor.full_name!r} contains itself, so that its rows have no type."
        raise JobGraphError(message, hint="deserialize with a DeserializationSchema of your own")
    inside = (*inside, descriptor.full_name)
    fields = [_field(field, inside) for field in descriptor.fields]
    names = tuple(field.name for field in descriptor.fields)
    type_info = Types.ROW_NAMED(names, [field_type for field_type, _, _ in fields])
    gets = [get for _, get, _ in fields]
    sets = [(name, put) for name, (_, _, put) in zip(names, fields, strict=True)]

    def to_row(message: Any) -> Row:
        return Row.of_fields(names, [get(message) for get in gets])

    choices = [(one.name, [field.index for field in one.fields]) for one in descriptor.oneofs if len(one.fields) > 1]

    def fill(message: Any, row: Any) -> None:
        values = as_row(row, type_info).values_as(names)
        for choice, members in choices:
            given = [names[index] for index in members if values[index] is not None]
            if len(given) > 1:
                problem = f"{' and '.join(map(repr, given))} are set, and the oneof {choice!r} holds one of them"
                raise ValueError(problem)
        for (name, put), value in zip(sets, values, strict=True):
            if value is not None:
                try:
                    put(message, value)
                except (ValueError, TypeError) as error:
                    problem = f"field {name!r}: {getattr(error, 'message', error)}"
                    raise ValueError(problem) from error

    return ProtobufRows(type_info, to_row, fill)


def _field(field: Any, inside: tuple[str, ...]) -> tuple[TypeInformation, Convert, Callable[[Any, Any], None]]:
    name = field.name
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return _map(name, field.message_type, inside)
    part = _part(field, inside)
    if _is_repeated(field):
        return _list(name, part)
    read = part.read or (lambda value: value)
    if field.has_presence:

        def get(message: Any) -> Any:
            return read(getattr(message, name)) if message.HasField(name) else None
    else:

        def get(message: Any) -> Any:
            return read(getattr(message, name))

    def put(message: Any, value: Any) -> None:
        if part.fill is None:
            setattr(message, name, part.write(value))
        else:
            inner = getattr(message, name)
            inner.SetInParent()
            part.fill(inner, value)

    return part.type_info, get, put


def _is_repeated(field: Any) -> bool:
    found = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED) if found is None else bool(found)


def _is_required(field: Any) -> bool:
    found = getattr(field, "is_required", None)
    return bool(field.label == field.LABEL_REQUIRED) if found is None else bool(found)


def _list(name: str, part: _Part) -> tuple[TypeInformation, Convert, Callable[[Any, Any], None]]:
    type_info, read = Types.OBJECT_ARRAY(part.type_info), part.read

    def get(message: Any) -> list[Any]:
        items = getattr(message, name)
        return list(items) if read is None else [read(item) for item in items]

    def put(message: Any, value: Any) -> None:
        items = getattr(message, name)
        for item in as_list(value, type_info):
            if part.fill is None:
                items.append(part.write(item))
            else:
                part.fill(items.add(), item)

    return type_info, get, put


def _map(name: str, entry: Any, inside: tuple[str, ...]) -> tuple[TypeInformation, Convert, Callable[[Any, Any], None]]:
    key, part = (_part(entry.fields_by_name[one], inside) for one in ("key", "value"))
    type_info = Types.MAP(key.type_info, part.type_info)
    read = part.read or (lambda value: value)

    def get(message: Any) -> dict[Any, Any]:
        return {one: read(item) for one, item in getattr(message, name).items()}

    def put(message: Any, value: Any) -> None:
        items = getattr(message, name)
        for one, item in as_dict(value, type_info).items():
            if part.fill is None:
                items[key.write(one)] = part.write(item)
            else:
                part.fill(items[key.write(one)], item)

    return type_info, get, put


def _part(field: Any, inside: tuple[str, ...]) -> _Part:
    if field.enum_type is not None:
        return _enum(field.enum_type)
    if field.message_type is None:
        return _scalar(_SCALARS[_type_name(field)])
    message = field.message_type
    if message.full_name == _TIMESTAMP:
        return _Part(Types.INSTANT(), lambda value: Instant(value.seconds, value.nanos), lambda value: value, _fill_time)
    if message.full_name.startswith(_WRAPPERS) and message.full_name.endswith("Value") and len(message.fields) == 1:
        inner = _scalar(_SCALARS[_type_name(message.fields[0])])

        def wrap(target: Any, value: Any) -> None:
            target.value = inner.write(value)

        return _Part(inner.type_info, lambda value: value.value, inner.write, wrap)
    rows = _rows(message, inside)
    return _Part(rows.type_info, rows.to_row, lambda value: value, rows.fill)


def _type_name(field: Any) -> str:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    return str(FieldDescriptorProto.Type.Name(field.type)).removeprefix("TYPE_")


def _scalar(type_info: TypeInformation) -> _Part:
    if type_info == _BYTES:
        return _Part(type_info, None, lambda value: as_bytes(value, _BYTES.name))
    return _Part(type_info, None, SCALAR_RULES[type_info.kind])


def _enum(enum: Any) -> _Part:
    names = {number: value.name for number, value in enum.values_by_number.items()}
    numbers = {value.name: value.number for value in enum.values}

    def write(value: Any) -> int:
        if value not in numbers:
            if not enum.is_closed and isinstance(value, str) and _NUMBER.fullmatch(value):  # as it was read
                return int(value)
            message = f"{value!r} is none of {', '.join(numbers)}"
            raise ValueError(message)
        return int(numbers[value])

    return _Part(Types.STRING(), lambda number: names.get(number, str(number)), write)


def _fill_time(target: Any, value: Any) -> None:
    if not isinstance(value, Instant):
        message = f"{value!r} is no Instant"
        raise TypeError(message)
    target.seconds, target.nanos = value.seconds, value.nanos
