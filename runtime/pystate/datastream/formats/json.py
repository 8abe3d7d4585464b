"""Rows as JSON objects, in the names of `pyflink.datastream.formats.json`."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from collections.abc import Callable
from typing import Any

from pystate.common.errors import JobGraphError, RecordError
from pystate.common.row import Row
from pystate.common.serialization import DeserializationSchema, SerializationSchema
from pystate.common.time import Instant
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.datastream.formats.json_files import JsonLinesEncoder, JsonLinesFormat

__all__ = ["JsonLinesEncoder", "JsonLinesFormat", "JsonRowDeserializationSchema", "JsonRowSerializationSchema"]

Convert = Callable[[Any], Any]

_INTEGERS = (TypeKind.BYTE, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG, TypeKind.BIG_INT)
_LISTS = (TypeKind.LIST, TypeKind.PRIMITIVE_ARRAY, TypeKind.BASIC_ARRAY, TypeKind.OBJECT_ARRAY)
_SHOWN = 200


class JsonRowDeserializationSchema(DeserializationSchema):
    """Makes rows of JSON objects; made by `builder()`.

    Args:
        type_info: The type of the rows.
        fails_on_missing: A field that isn't there is an error; else it is None.
        ignores_errors: A message that is no such object makes no row; else it is an error.
    """

    def __init__(self, type_info: TypeInformation, fails_on_missing: bool, ignores_errors: bool) -> None:  # noqa: FBT001
        self.produced_type = self._type_info = type_info
        self._fails_on_missing = fails_on_missing
        self._ignores_errors = ignores_errors
        self._convert: Convert | None = None

    def deserialize(self, message: bytes) -> Row | None:
        """Return the row of a message; None where it is to be left out.

        Raises:
            RecordError: The message is no such object.
        """
        convert = self._convert
        if convert is None:
            convert = self._convert = from_json(self._type_info, self._fails_on_missing)
        try:
            row: Row = convert(json.loads(message, parse_float=decimal.Decimal))
        except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as error:
            if self._ignores_errors:
                return None
            shown = message[:_SHOWN]
            text = f"A message is no JSON of {self._type_info.name}: {error}. It begins with {shown!r}."
            raise RecordError(text, hint="call ignore_parse_errors() to leave such messages out") from error
        return row

    def __getstate__(self) -> dict[str, Any]:
        """Return what travels to the workers."""
        return {**self.__dict__, "_convert": None}

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """Begin to describe one."""
        return JsonRowDeserializationSchema.Builder()

    class Builder:
        """Collects what a schema does."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None
            self._fails_on_missing = self._ignores_errors = False

        def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchema.Builder:
            """Set the type of the rows."""
            self._type_info = _row_type("type_info", type_info)
            return self

        def json_schema(self, json_schema: str) -> JsonRowDeserializationSchema.Builder:
            """Refuse a JSON schema.

            Raises:
                JobGraphError: Always.
            """
            message = f"json_schema({json_schema[:_SHOWN]!r}): the type of the rows is not read from a JSON schema."
            raise JobGraphError(message, hint="call type_info(Types.ROW_NAMED([...], [...]))")

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            """Make a field that isn't there an error; otherwise it is None."""
            self._fails_on_missing = True
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            """Leave out messages that are no such object; otherwise one fails the job."""
            self._ignores_errors = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            """Return the schema.

            Raises:
                JobGraphError: The type is missing; or both kinds of strictness are asked for.
            """
            if self._type_info is None:
                message = "A JsonRowDeserializationSchema needs the type of its rows."
                raise JobGraphError(message, hint="call type_info(Types.ROW_NAMED([...], [...]))")
            if self._fails_on_missing and self._ignores_errors:
                message = "fail_on_missing_field() and ignore_parse_errors() contradict each other."
                raise JobGraphError(message, hint="call one of them")
            return JsonRowDeserializationSchema(self._type_info, self._fails_on_missing, self._ignores_errors)


class JsonRowSerializationSchema(SerializationSchema):
    """Makes JSON objects of rows; made by `builder()`.

    Args:
        type_info: The type of the rows.
    """

    def __init__(self, type_info: TypeInformation) -> None:
        self._type_info = type_info
        self._convert: Convert | None = None

    def serialize(self, element: Any) -> bytes:
        """Return the object of a row.

        Raises:
            RecordError: The row is of another type.
        """
        convert = self._convert
        if convert is None:
            convert = self._convert = to_json(self._type_info)
        try:
            text = json.dumps(convert(element), separators=(",", ":"), ensure_ascii=False)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            message = f"An element is no {self._type_info.name}: {error}. It is {repr(element)[:_SHOWN]}."
            raise RecordError(message, hint="name the type that the elements have in with_type_info()") from error
        return text.encode()

    def __getstate__(self) -> dict[str, Any]:
        """Return what travels to the slots."""
        return {**self.__dict__, "_convert": None}

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Begin to describe one."""
        return JsonRowSerializationSchema.Builder()

    class Builder:
        """Collects what a schema does."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None

        def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchema.Builder:
            """Set the type of the rows."""
            self._type_info = _row_type("with_type_info", type_info)
            return self

        def build(self) -> JsonRowSerializationSchema:
            """Return the schema.

            Raises:
                JobGraphError: The type is missing.
            """
            if self._type_info is None:
                message = "A JsonRowSerializationSchema needs the type of its rows."
                raise JobGraphError(message, hint="call with_type_info(Types.ROW_NAMED([...], [...]))")
            return JsonRowSerializationSchema(self._type_info)


def _row_type(call: str, type_info: Any) -> TypeInformation:
    if not isinstance(type_info, TypeInformation) or type_info.kind is not TypeKind.ROW:
        message = f"{call}() takes the type of rows, not {type_info!r}."
        raise JobGraphError(message, hint="Types.ROW_NAMED([...], [...]) makes one")
    return type_info


def from_json(type_info: TypeInformation, fails_on_missing: bool) -> Convert:  # noqa: FBT001
    """Return what makes a value of a type of what `json.loads` gave, numbers with a point being decimals."""
    kind = type_info.kind
    if kind is TypeKind.ROW:
        return _none_safe(_row_from_json(type_info, fails_on_missing))
    if kind in _LISTS and type_info.elements[0].kind is TypeKind.BYTE:
        return _none_safe(lambda text: base64.b64decode(text, validate=True))
    if kind in _LISTS:
        part = from_json(type_info.elements[0], fails_on_missing)
        return _none_safe(lambda values: [part(value) for value in _a(list, values)])
    if kind is TypeKind.TUPLE:
        parts = [from_json(element, fails_on_missing) for element in type_info.elements]
        return _none_safe(lambda values: tuple(part(value) for part, value in zip(parts, _a(list, values), strict=True)))
    if kind is TypeKind.MAP:
        key, part = _from_key(type_info.elements[0]), from_json(type_info.elements[1], fails_on_missing)
        return _none_safe(lambda values: {key(name): part(value) for name, value in _a(dict, values).items()})
    return _none_safe(_simple_from_json(type_info))


def _row_from_json(type_info: TypeInformation, fails_on_missing: bool) -> Convert:  # noqa: FBT001
    names = type_info.row_names
    parts = [from_json(element, fails_on_missing) for element in type_info.elements]

    def convert(values: Any) -> Row:
        found = _a(dict, values)
        if fails_on_missing:
            missing = [name for name in names if name not in found]
            if missing:
                message = f"the field {missing[0]!r} is missing"
                raise ValueError(message)
        return Row.of_fields(names, [part(found.get(name)) for name, part in zip(names, parts, strict=True)])

    return convert


def _from_key(type_info: TypeInformation) -> Convert:
    convert = _simple_from_json(type_info)
    if type_info.kind in _INTEGERS:
        return lambda text: int(text)
    return convert


def _simple_from_json(type_info: TypeInformation) -> Convert:
    kind = type_info.kind
    if kind in (TypeKind.STRING, TypeKind.CHAR):
        return lambda value: value if isinstance(value, str) else to_text(value)
    if kind is TypeKind.BOOLEAN:
        return _boolean
    if kind in _INTEGERS:
        return _integer
    if kind in (TypeKind.FLOAT, TypeKind.DOUBLE):
        return float
    if kind is TypeKind.BIG_DEC:
        return lambda value: decimal.Decimal(value if isinstance(value, (str, int, decimal.Decimal)) else repr(value))
    if kind is TypeKind.SQL_DATE:
        return datetime.date.fromisoformat
    if kind is TypeKind.SQL_TIME:
        return lambda text: datetime.time.fromisoformat(text.removesuffix("Z"))
    if kind is TypeKind.SQL_TIMESTAMP:
        return _timestamp
    if kind is TypeKind.INSTANT:
        return lambda text: _instant(_timestamp(text))
    message = f"{type_info.name} is no type of JSON's."
    raise JobGraphError(message, hint="leave the field out, or deserialize in map()")


def to_text(value: Any) -> str:
    """Return a value of JSON's that is no text as JSON."""
    return str(value) if isinstance(value, decimal.Decimal) else json.dumps(value, default=float)


def _a(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        message = f"{repr(value)[:_SHOWN]} is no {kind.__name__}"
        raise TypeError(message)
    return value


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    message = f"{value!r} is neither true nor false"
    raise ValueError(message)


def _integer(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, decimal.Decimal) and value != int(value)):
        message = f"{value} is no whole number"
        raise ValueError(message)
    return int(value)


def _timestamp(text: str) -> datetime.datetime:
    """Return a time in UTC, without a zone, as pystate's timestamps are."""
    time = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return time if time.tzinfo is None else time.astimezone(datetime.timezone.utc).replace(tzinfo=None)


def _instant(time: datetime.datetime) -> Instant:
    micros = (time - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)  # noqa: DTZ001
    return Instant(micros // 1_000_000, micros % 1_000_000 * 1000)


def _none_safe(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def to_json(type_info: TypeInformation) -> Convert:
    """Return what makes of a value of a type what `json.dumps` takes."""
    kind = type_info.kind
    if kind is TypeKind.ROW:
        names, parts = type_info.row_names, [to_json(element) for element in type_info.elements]
        return _none_safe(
            lambda row: {
                name: part(value)
                for name, part, value in zip(
                    names, parts, row.values_as(names) if isinstance(row, Row) else row, strict=True
                )
            }
        )
    if kind in _LISTS and type_info.elements[0].kind is TypeKind.BYTE:
        return _none_safe(lambda value: base64.b64encode(bytes(value)).decode())
    if kind in _LISTS:
        of_element = to_json(type_info.elements[0])
        return _none_safe(lambda values: [of_element(value) for value in values])
    if kind is TypeKind.TUPLE:
        of_parts = [to_json(element) for element in type_info.elements]
        return _none_safe(lambda values: [part(value) for part, value in zip(of_parts, values, strict=True)])
    if kind is TypeKind.MAP:
        of_value = to_json(type_info.elements[1])
        return _none_safe(lambda values: {_key(key): of_value(value) for key, value in values.items()})
    if kind is TypeKind.BIG_DEC:
        return _none_safe(str)
    if kind in (TypeKind.SQL_DATE, TypeKind.SQL_TIME):
        return _none_safe(lambda value: value.isoformat())
    if kind is TypeKind.SQL_TIMESTAMP:
        return _none_safe(lambda value: f"{value.isoformat()}Z")
    if kind is TypeKind.INSTANT:
        return _none_safe(_instant_text)
    if kind is TypeKind.PICKLED_BYTE_ARRAY:
        message = f"{type_info.name} is no type of JSON's."
        raise JobGraphError(message, hint="leave the field out, or serialize in map()")
    return lambda value: value


def _key(key: Any) -> str:
    return key if isinstance(key, str) else to_text(key)


def _instant_text(instant: Instant) -> str:
    time = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=instant.seconds, microseconds=instant.nanos // 1000)  # noqa: DTZ001
    return f"{time.isoformat()}Z"
