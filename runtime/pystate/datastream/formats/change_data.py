"""Changes of databases: Debezium's in JSON and Avro, Maxwell's and Canal's in JSON, with the names of Flink's Java classes.

A change of a row is two rows, `UPDATE_BEFORE` and `UPDATE_AFTER`; sinks that replace rows by key look at the second alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pystate.common.row import Row, RowKind
from pystate.common.type_info import TypeInformation, Types
from pystate.datastream.formats.change_schema import ChangeSchema, Metadata, instant_of, object_of, objects_of
from pystate.datastream.formats.debezium import DebeziumAvroDeserializationSchema, DebeziumJsonDeserializationSchema

__all__ = [
    "CanalJsonDeserializationSchema",
    "DebeziumAvroDeserializationSchema",
    "DebeziumJsonDeserializationSchema",
    "MaxwellJsonDeserializationSchema",
]

_TEXTS = Types.OBJECT_ARRAY(Types.STRING())
_OF_TABLES: Metadata = {
    "database": (Types.STRING(), lambda change: change.get("database")),
    "table": (Types.STRING(), lambda change: change.get("table")),
}


class MaxwellJsonDeserializationSchema(ChangeSchema):
    """Deserializes the rows of Maxwell's changes; those of tables themselves, and the ends of a bootstrap, make none.

    An update that changes the primary key is a DELETE and an INSERT, where Maxwell tells the key
    (`output_primary_key_columns`).

    Args:
        type_info: The type of the rows.
        metadata: Which fields are no columns of the table, and Flink's keys of what they are instead: `database`, `table`,
            `primary-key-columns`, `ingestion-timestamp`.
        ignore_parse_errors: Whether an invalid field becomes None, and an invalid message is left out; else they are errors.
    """

    whose = "Maxwell"
    known: Metadata = {
        **_OF_TABLES,
        "primary-key-columns": (_TEXTS, lambda change: change.get("primary_key_columns")),
        "ingestion-timestamp": (Types.INSTANT(), lambda change: change.get("ts")),  # in seconds
    }

    def _rows(self, change: dict[str, Any]) -> Iterator[Row]:
        kind, beside = change["type"], self._told_beside(change)
        if kind in ("insert", "bootstrap-insert"):
            yield self._row(RowKind.INSERT, {**object_of(change, "data"), **beside})
        elif kind == "update":
            after = {**object_of(change, "data"), **beside}
            keys = change.get("primary_key_columns") or ()
            yield from self._update({**after, **object_of(change, "old"), **beside}, after, keys)
        elif kind == "delete":
            yield self._row(RowKind.DELETE, {**object_of(change, "data"), **beside})
        elif "data" in change and kind not in ("bootstrap-start", "bootstrap-complete"):
            problem = f"its type is {kind!r}"
            raise ValueError(problem)


class CanalJsonDeserializationSchema(ChangeSchema):
    """Deserializes the rows of Canal's changes, several for each message; those of tables themselves make none.

    An update that changes the primary key is a DELETE and an INSERT.

    Args:
        type_info: The type of the rows.
        metadata: Which fields are no columns of the table, and Flink's keys of what they are instead: `database`, `table`,
            `sql-type`, `pk-names`, `ingestion-timestamp`, `event-timestamp`.
        database: Only changes in databases whose whole name this regular expression matches; None for all.
        table: Only changes of tables whose whole name it matches; None for all.
        ignore_parse_errors: Whether an invalid field becomes None, and an invalid message is left out; else they are errors.
    """

    whose = "Canal"
    known: Metadata = {
        **_OF_TABLES,
        "sql-type": (Types.MAP(Types.STRING(), Types.INT()), lambda change: change.get("sqlType")),
        "pk-names": (_TEXTS, lambda change: change.get("pkNames")),
        "ingestion-timestamp": (Types.INSTANT(), lambda change: instant_of(change.get("ts"))),
        "event-timestamp": (Types.INSTANT(), lambda change: instant_of(change.get("es"))),
    }

    def __init__(
        self,
        type_info: TypeInformation,
        *,
        metadata: Mapping[str, str] | None = None,
        database: str | None = None,
        table: str | None = None,
        ignore_parse_errors: bool = False,
    ) -> None:
        super().__init__(type_info, metadata=metadata, ignore_parse_errors=ignore_parse_errors)
        self._of = [(name, re.compile(of)) for name, of in (("database", database), ("table", table)) if of is not None]

    def _rows(self, change: dict[str, Any]) -> Iterator[Row]:
        kind = change["type"]
        if not all(of.fullmatch(change.get(name) or "") for name, of in self._of):
            return
        beside = self._told_beside(change)
        if kind in ("INSERT", "DELETE"):
            for values in objects_of(change, "data"):
                yield self._row(RowKind[kind], {**values, **beside})
        elif kind == "UPDATE":
            after, before = objects_of(change, "data"), objects_of(change, "old")
            if len(after) != len(before):
                problem = f"it has {len(after)} rows in 'data', and {len(before)} in 'old'"
                raise ValueError(problem)
            keys = change.get("pkNames") or ()
            for values, old in zip(after, before, strict=True):
                yield from self._update({**values, **old, **beside}, {**values, **beside}, keys)
        elif kind == "TRUNCATE":
            problem = "its table was truncated, which names no rows: filter it in the instance of Canal"
            raise ValueError(problem)
        elif not change.get("isDdl") and kind not in ("CREATE", "ALTER", "ERASE", "QUERY", "CINDEX", "DINDEX"):
            problem = f"its type is {kind!r}"
            raise ValueError(problem)
