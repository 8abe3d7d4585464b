"""Debezium's changes: its envelope, and what its connectors write of rows that JSON has no type for."""

from __future__ import annotations

import datetime as dt
import math
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import cached_property
from typing import Any

from pystate.common.errors import PystateError
from pystate.common.overrides import override
from pystate.common.row import Row, RowKind
from pystate.common.type_info import TypeInformation, TypeKind, Types
from pystate.connectors.schema_registry.avro_messages import avro_message_reader
from pystate.connectors.schema_registry.registry import SchemaRegistry
from pystate.datastream.formats.change_schema import ChangeSchema, Metadata, NoChangeError, instant_of, object_of
from pystate.datastream.formats.json_reading import PROBLEMS, Number

_TEXT = "__debezium_unavailable_value"
_UNAVAILABLE = (_TEXT, b64encode(_TEXT.encode()).decode(), [_TEXT], list(_TEXT.encode()))
"""What is in the place of a column that the database has not told: of texts, bytes, and lists of either."""
_FULL_HINT = (
    "PostgreSQL tells it of tables with ALTER TABLE ... REPLICA IDENTITY FULL; what is in the topic from before stays as it "
    "is: have the connector write a new snapshot"
)
_VALUES_HINT = (
    "set decimal.handling.mode=string and time.precision.mode=isostring for the connector, or declare what it writes; "
    "ignore_parse_errors=True makes such fields None"
)
_TABLES_HINT = "read the topics of tables only, as they are: without ExtractNewRecordState"
_FIRST_DAY = dt.date(1970, 1, 1)


class _DebeziumSchema(ChangeSchema):
    """What is the same of Debezium's changes in JSON and in Avro."""

    whose = "Debezium"
    known: Metadata = {
        "ingestion-timestamp": (Types.INSTANT(), lambda change: instant_of(change.get("ts_ms"))),
        "source.timestamp": (Types.INSTANT(), lambda change: instant_of(object_of(change, "source").get("ts_ms"))),
        "source.database": (Types.STRING(), lambda change: object_of(change, "source").get("db")),
        "source.schema": (Types.STRING(), lambda change: object_of(change, "source").get("schema")),
        "source.table": (Types.STRING(), lambda change: object_of(change, "source").get("table")),
        "source.properties": (Types.MAP(Types.STRING(), Types.STRING()), lambda change: object_of(change, "source")),
    }

    @cached_property
    def _columns(self) -> dict[str, TypeKind]:
        """The kinds of the columns of the table, by name."""
        fields = zip(self._type_info.row_names, self._type_info.elements, strict=True)
        return {name: field.kind for name, field in fields if name not in self._metadata}

    @cached_property
    def _dates(self) -> list[str]:
        return [name for name, kind in self._columns.items() if kind is TypeKind.SQL_DATE]

    @cached_property
    def _instants(self) -> list[str]:
        return [name for name, kind in self._columns.items() if kind is TypeKind.INSTANT]

    @override
    def _rows(self, change: dict[str, Any]) -> Iterator[Row]:
        if "payload" in change and "schema" in change:
            change = object_of(change, "payload")
        operation = change.get("op")
        if operation is None:
            problem = "it lacks 'op', as heartbeats, ends of transactions, and rows without their envelope do"
            raise NoChangeError(problem, _TABLES_HINT)
        if operation in ("c", "r"):
            yield self._row(RowKind.INSERT, self._told(change, "after"))
        elif operation == "u":
            yield from self._update(self._told(change, "before"), self._told(change, "after"))
        elif operation == "d":
            yield self._row(RowKind.DELETE, self._told(change, "before"))
        elif operation == "t":
            problem = "its table was truncated, which names no rows"
            raise NoChangeError(problem, "the connector leaves that out with skipped.operations=t, its default")
        elif operation != "m":  # a message of the log: no rows
            problem = f"its operation is {operation!r}"
            raise ValueError(problem)

    @override
    def _row(self, kind: RowKind, values: Any) -> Row:
        try:
            return super()._row(kind, values)
        except PROBLEMS as error:
            raise NoChangeError(str(error), _VALUES_HINT) from error

    def _told(self, change: dict[str, Any], name: str) -> dict[str, Any]:
        """Return the values of a row, with what else its fields are."""
        if change[name] is None:
            problem = f"it has no row {name!r}"
            raise NoChangeError(problem, _FULL_HINT)
        values = object_of(change, name)
        for column in self._columns:
            if values.get(column) in _UNAVAILABLE:
                problem = f"it has no value of {column!r}, a large one that didn't change"
                raise NoChangeError(problem, _FULL_HINT)
        if not (self._metadata or self._dates or self._instants):
            return values
        values = {**values, **self._told_beside(change)}
        for column in self._dates:
            values[column] = _date(values.get(column))
        for column in self._instants:
            if isinstance(values.get(column), int):  # which JSON's formats take for seconds
                problem = f"field {column!r}: {values[column]} has no unit"
                raise NoChangeError(problem, _VALUES_HINT)
        return values


class DebeziumJsonDeserializationSchema(_DebeziumSchema):
    """Deserializes the rows of Debezium's changes in JSON, with or without the schema beside each.

    A change without the row before it is an error: PostgreSQL tells it of tables with `REPLICA IDENTITY FULL`. So is one
    without a large value that didn't change.

    Args:
        type_info: The type of the rows.
        metadata: Which fields are no columns of the table, and Flink's keys of what they are instead: `source.properties`,
            which has `lsn` and `snapshot`, `source.timestamp`, `source.database`, `source.schema`, `source.table`,
            `ingestion-timestamp`.
        ignore_parse_errors: Whether an invalid field becomes None, and an invalid message is left out; else they are errors.
    """


class DebeziumAvroDeserializationSchema(_DebeziumSchema):
    """Deserializes the rows of Debezium's changes in Avro, whose schemas are in a schema registry; fields are found by name.

    Args:
        type_info: The type of the rows.
        url: The URL of the registry.
        registry_configs: Properties of its client: `basic.auth.user.info`, `ssl.ca.location`, ...
        metadata: As that of `DebeziumJsonDeserializationSchema`.
        ignore_parse_errors: Whether an invalid field becomes None, and an invalid message is left out; else they are errors.
    """

    def __init__(
        self,
        type_info: TypeInformation,
        url: str,
        registry_configs: Mapping[str, Any] | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        ignore_parse_errors: bool = False,
    ) -> None:
        super().__init__(type_info, metadata=metadata, ignore_parse_errors=ignore_parse_errors)
        self._registry = SchemaRegistry(url, registry_configs)
        self._read: Callable[[bytes], Any] | None = None

    @override
    def _change(self, message: bytes) -> dict[str, Any]:
        if self._read is None:
            self._read = avro_message_reader(self._registry)
        try:
            change = _as_json(self._read(message))
        except PystateError:
            raise
        except Exception as error:  # libraries raise many kinds of errors
            problem = f"it is no Avro of a schema registry: {error or type(error).__name__}"
            raise ValueError(problem) from error
        if type(change) is not dict:
            problem = "it is no record"
            raise ValueError(problem)
        return change

    @override
    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_read": None}


def _date(value: Any) -> Any:
    """Return a date as JSON has it, of days since 1970 or of Debezium's text in UTC."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (_FIRST_DAY + dt.timedelta(days=value)).isoformat()
    return value.removesuffix("Z") if isinstance(value, str) else value


def _as_json(value: Any) -> Any:
    """Return a datum of Avro as JSON has it."""
    if isinstance(value, dict):
        return {name: _as_json(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, Decimal):
        return Number(value)
    if isinstance(value, float):
        return Number(repr(value)) if math.isfinite(value) else "NaN" if math.isnan(value) else f"{value}inity".title()
    if isinstance(value, (dt.date, dt.time)):  # and datetimes
        return value.isoformat()
    return value
