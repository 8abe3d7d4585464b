"""Serialization of rows as JSON objects, with the names of `pyflink.datastream.formats.json`."""

from __future__ import annotations

from typing import Any

from pystate.common.errors import JobGraphError, RecordError
from pystate.common.row import Row
from pystate.common.serialization import DeserializationSchema, SerializationSchema
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.datastream.formats.json_reading import PROBLEMS, SHOWN, Convert, parse, reader
from pystate.datastream.formats.json_writing import Write, writer


class JsonRowDeserializationSchema(DeserializationSchema):
    """Deserializes rows from JSON objects; made by `builder()`.

    Args:
        type_info: The type of the rows.
        fails_on_missing: Whether a missing field is an error; else it is None.
        ignores_errors: Whether an invalid field becomes None, and an invalid message is skipped; else they are errors.
    """

    def __init__(self, type_info: TypeInformation, fails_on_missing: bool, ignores_errors: bool) -> None:  # noqa: FBT001
        self.produced_type = self._type_info = type_info
        self._fails_on_missing = fails_on_missing
        self._ignores_errors = ignores_errors
        self._convert: Convert | None = self._reader()

    def _reader(self) -> Convert:
        return reader(self._type_info, fails_on_missing=self._fails_on_missing, ignores_errors=self._ignores_errors)

    def deserialize(self, message: bytes) -> Row | None:
        """Return the row of a message; None to skip it.

        Raises:
            RecordError: The message isn't an object of the type.
        """
        convert = self._convert
        if convert is None:
            convert = self._convert = self._reader()
        try:
            row: Row | None = convert(parse(message))
        except PROBLEMS as error:
            if self._ignores_errors:
                return None
            shown = message[:SHOWN]
            text = f"A message is no JSON of {self._type_info.name}: {error}. It begins with {shown!r}."
            hint = "call ignore_parse_errors() to read such fields as None"
            if self._fails_on_missing:
                hint = "mend the messages, or build the schema without fail_on_missing_field()"
            raise RecordError(text, hint=hint) from error
        return row

    def __getstate__(self) -> dict[str, Any]:
        """Return the pickled state."""
        return {**self.__dict__, "_convert": None}

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """Return a builder."""
        return JsonRowDeserializationSchema.Builder()

    class Builder:
        """Builds the schema."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None
            self._fails_on_missing = self._ignores_errors = False

        def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchema.Builder:
            """Set the type of the rows."""
            self._type_info = check_row_type("type_info", type_info)
            return self

        def json_schema(self, json_schema: str) -> JsonRowDeserializationSchema.Builder:
            """Not supported: a JSON schema.

            Raises:
                JobGraphError: Always.
            """
            message = f"json_schema({json_schema[:SHOWN]!r}): the type of the rows is not read from a JSON schema."
            raise JobGraphError(message, hint="call type_info(Types.ROW_NAMED([...], [...]))")

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            """Make a missing field an error; by default it is None."""
            self._fails_on_missing = True
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            """Read invalid fields as None, and skip messages that aren't objects; by default they fail the job."""
            self._ignores_errors = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            """Return the schema.

            Raises:
                JobGraphError: The type is missing; or both kinds of strictness are set.
            """
            if self._type_info is None:
                message = "A JsonRowDeserializationSchema needs the type of its rows."
                raise JobGraphError(message, hint="call type_info(Types.ROW_NAMED([...], [...]))")
            if self._fails_on_missing and self._ignores_errors:
                message = "fail_on_missing_field() and ignore_parse_errors() contradict each other."
                raise JobGraphError(message, hint="call one of them")
            return JsonRowDeserializationSchema(self._type_info, self._fails_on_missing, self._ignores_errors)


class JsonRowSerializationSchema(SerializationSchema):
    """Serializes rows as JSON objects; made by `builder()`.

    Args:
        type_info: The type of the rows.
    """

    def __init__(self, type_info: TypeInformation) -> None:
        self._type_info = self.consumed_type = type_info
        self._write: Write | None = writer(type_info)

    def serialize(self, element: Any) -> bytes:
        """Return the object of a row.

        Raises:
            RecordError: The row has another type.
        """
        write = self._write
        if write is None:
            write = self._write = writer(self._type_info)
        try:
            text = write(element)
        except PROBLEMS as error:
            message = f"An element is no {self._type_info.name}: {error.args[0]}. It is {repr(element)[:SHOWN]}."
            raise RecordError(message, hint="name the type that the elements have in with_type_info()") from error
        return text.encode("utf-8", "backslashreplace")  # half of a surrogate pair is written as \\ud800, as Jackson does

    def __getstate__(self) -> dict[str, Any]:
        """Return the pickled state."""
        return {**self.__dict__, "_write": None}

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Return a builder."""
        return JsonRowSerializationSchema.Builder()

    class Builder:
        """Builds the schema."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None

        def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchema.Builder:
            """Set the type of the rows."""
            self._type_info = check_row_type("with_type_info", type_info)
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


def check_row_type(call: str, type_info: Any) -> TypeInformation:
    """Return the type of rows that a program gave to a call.

    Raises:
        JobGraphError: It isn't one.
    """
    if not isinstance(type_info, TypeInformation) or type_info.kind is not TypeKind.ROW:
        message = f"{call}() takes the type of rows, not {type_info!r}."
        raise JobGraphError(message, hint="Types.ROW_NAMED([...], [...]) makes one")
    return type_info
