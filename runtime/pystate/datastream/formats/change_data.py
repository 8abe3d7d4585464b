"""Changes of databases: Debezium's in JSON and Avro, Maxwell's and Canal's in JSON, with the names of Flink's Java classes.

A change of a row is two rows, `UPDATE_BEFORE` and `UPDATE_AFTER`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pystate.common.row import Row, RowKind
from pystate.common.type_info import TypeInformation
from pystate.datastream.formats.change_schema import ChangeSchema, object_of, objects_of
from pystate.datastream.formats.debezium import DebeziumAvroDeserializationSchema, DebeziumJsonDeserializationSchema

__all__ = [
    "CanalJsonDeserializationSchema",
    "DebeziumAvroDeserializationSchema",
    "DebeziumJsonDeserializationSchema",
    "MaxwellJsonDeserializationSchema",
]


class MaxwellJsonDeserializationSchema(ChangeSchema):
    """Deserializes the rows of Maxwell's changes; those of tables themselves, and the ends of a bootstrap, make none."""

    whose = "Maxwell"

    def _rows(self, change: dict[str, Any]) -> Iterator[Row]:
        kind = change["type"]
        if kind in ("insert", "bootstrap-insert"):
            yield self._row(RowKind.INSERT, change["data"])
        elif kind == "update":
            yield from self._update({**object_of(change, "data"), **object_of(change, "old")}, change["data"])
        elif kind == "delete":
            yield self._row(RowKind.DELETE, change["data"])
        elif "data" in change and not kind.startswith("bootstrap-"):
            problem = f"its type is {kind!r}"
            raise ValueError(problem)


class CanalJsonDeserializationSchema(ChangeSchema):
    """Deserializes the rows of Canal's changes, several for each message; those of tables themselves make none.

    Args:
        type_info: The type of the rows.
        database: Only changes in databases whose whole name this regular expression matches; None for all.
        table: Only changes of tables whose whole name it matches; None for all.
        ignore_parse_errors: Whether an invalid field becomes None, and an invalid message is left out; else they are errors.
    """

    whose = "Canal"

    def __init__(
        self,
        type_info: TypeInformation,
        *,
        database: str | None = None,
        table: str | None = None,
        ignore_parse_errors: bool = False,
    ) -> None:
        super().__init__(type_info, ignore_parse_errors=ignore_parse_errors)
        self._of = [(name, re.compile(of)) for name, of in (("database", database), ("table", table)) if of is not None]

    def _rows(self, change: dict[str, Any]) -> Iterator[Row]:
        kind = change["type"]
        if not all(of.fullmatch(change.get(name) or "") for name, of in self._of):
            return
        if kind == "INSERT":
            for values in objects_of(change, "data"):
                yield self._row(RowKind.INSERT, values)
        elif kind == "UPDATE":
            after, before = objects_of(change, "data"), objects_of(change, "old")
            if len(after) != len(before):
                problem = f"it has {len(after)} rows in 'data', and {len(before)} in 'old'"
                raise ValueError(problem)
            for values, old in zip(after, before, strict=True):
                yield from self._update({**values, **old}, values)
        elif kind == "DELETE":
            for values in objects_of(change, "data"):
                yield self._row(RowKind.DELETE, values)
        elif kind == "TRUNCATE":
            problem = "its table was truncated, which names no rows: filter it in the instance of Canal"
            raise ValueError(problem)
        elif not change.get("isDdl") and kind not in ("CREATE", "ALTER", "ERASE", "QUERY", "CINDEX", "DINDEX"):
            problem = f"its type is {kind!r}"
            raise ValueError(problem)
