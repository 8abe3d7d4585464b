"""Changes of databases in JSON: Debezium's, Maxwell's and Canal's, with the names of Flink's Java classes.

A change of a row is two rows, `UPDATE_BEFORE` and `UPDATE_AFTER`.
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from pystate.common.errors import RecordError
from pystate.common.row import Row, RowKind, expect_kinds
from pystate.common.serialization import DeserializationSchema
from pystate.common.type_info import TypeInformation
from pystate.datastream.formats.json_reading import PROBLEMS, SHOWN, Convert, parse, reader
from pystate.datastream.formats.json_rows import check_row_type

__all__ = [
    "CanalJsonDeserializationSchema",
    "DebeziumJsonDeserializationSchema",
    "MaxwellJsonDeserializationSchema",
]


class _ChangeSchema(DeserializationSchema):
    """Deserializes the rows of a change.

    Args:
        type_info: The type of the rows.
        ignore_parse_errors: Whether an invalid field becomes None, and an invalid message is left out; else they are errors.
    """

    makes_several = True
    whose: str

    def __init__(self, type_info: TypeInformation, *, ignore_parse_errors: bool = False) -> None:
        expect_kinds()
        self._type_info = check_row_type(type(self).__name__, type_info)
        self._ignores_errors = ignore_parse_errors
        self._convert: Convert | None = self._reader()

    def _reader(self) -> Convert:
        return reader(self._type_info, ignores_errors=self._ignores_errors)

    def deserialize(self, message: bytes) -> list[Row]:
        """Return the rows of a message, with their kinds; none of an empty one.

        Raises:
            RecordError: The message isn't such a change.
        """
        if self._convert is None:
            self._convert = self._reader()
        if not message:
            return []
        try:
            change = _parsed(message)
            if type(change) is not dict:
                problem = "it is no object"
                raise ValueError(problem)  # noqa: TRY301
            return list(self._rows(change))
        except PROBLEMS as error:
            if self._ignores_errors:
                return []
            problem = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
            text = (
                f"A message is no change of {self.whose} of {self._type_info.name}: {problem}. "
                f"It begins with {message[:SHOWN]!r}."
            )
            hint = "look what writes the topic; ignore_parse_errors=True leaves such messages out"
            raise RecordError(text, hint=hint) from error

    @abstractmethod
    def _rows(self, change: dict[str, Any]) -> Iterator[Row]:
        """Yield the rows of a change."""

    def _row(self, kind: RowKind, values: Any) -> Row:
        assert self._convert is not None  # noqa: S101 - made before
        row = None if values is None else self._convert(values)
        if row is None:
            problem = f"it has no values for {kind}"
            raise ValueError(problem)
        found: Row = row
        if kind is not RowKind.INSERT:
            found.set_row_kind(kind)
        return found

    def _update(self, before: Any, after: Any) -> Iterator[Row]:
        yield self._row(RowKind.UPDATE_BEFORE, before)
        yield self._row(RowKind.UPDATE_AFTER, after)

    def __getstate__(self) -> dict[str, Any]:
        """Return the pickled state."""
        return {**self.__dict__, "_convert": None}


class DebeziumJsonDeserializationSchema(_ChangeSchema):
    """Deserializes the rows of Debezium's changes, with or without the schema that Kafka Connect may write beside each.

    A change without the row before it is an error: PostgreSQL tells it of tables with `REPLICA IDENTITY FULL`.
    """

    whose = "Debezium"

    def _rows(self, change: dict[str, Any]) -> Iterator[Row]:
        if "payload" in change and "schema" in change:
            change = _object(change, "payload")
        operation = change["op"]
        if operation in ("c", "r"):
            yield self._row(RowKind.INSERT, change["after"])
        elif operation == "u":
            yield from self._update(change["before"], change["after"])
        elif operation == "d":
            yield self._row(RowKind.DELETE, change["before"])
        elif operation == "t":
            problem = "its table was truncated, which names no rows: the connector skips that with skipped.operations=t"
            raise ValueError(problem)
        elif operation != "m":  # a message of the log: no rows
            problem = f"its operation is {operation!r}"
            raise ValueError(problem)


class MaxwellJsonDeserializationSchema(_ChangeSchema):
    """Deserializes the rows of Maxwell's changes; those of tables themselves, and the ends of a bootstrap, make none."""

    whose = "Maxwell"

    def _rows(self, change: dict[str, Any]) -> Iterator[Row]:
        kind = change["type"]
        if kind in ("insert", "bootstrap-insert"):
            yield self._row(RowKind.INSERT, change["data"])
        elif kind == "update":
            yield from self._update({**_object(change, "data"), **_object(change, "old")}, change["data"])
        elif kind == "delete":
            yield self._row(RowKind.DELETE, change["data"])
        elif "data" in change and not kind.startswith("bootstrap-"):
            problem = f"its type is {kind!r}"
            raise ValueError(problem)


class CanalJsonDeserializationSchema(_ChangeSchema):
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
            for values in _objects(change, "data"):
                yield self._row(RowKind.INSERT, values)
        elif kind == "UPDATE":
            after, before = _objects(change, "data"), _objects(change, "old")
            if len(after) != len(before):
                problem = f"it has {len(after)} rows in 'data', and {len(before)} in 'old'"
                raise ValueError(problem)
            for values, old in zip(after, before, strict=True):
                yield from self._update({**values, **old}, values)
        elif kind == "DELETE":
            for values in _objects(change, "data"):
                yield self._row(RowKind.DELETE, values)
        elif kind == "TRUNCATE":
            problem = "its table was truncated, which names no rows: filter it in the instance of Canal"
            raise ValueError(problem)
        elif not change.get("isDdl") and kind not in ("CREATE", "ALTER", "ERASE", "QUERY", "CINDEX", "DINDEX"):
            problem = f"its type is {kind!r}"
            raise ValueError(problem)


def _parsed(message: bytes) -> Any:
    try:
        return parse(message)
    except ValueError as error:
        problem = f"it isn't JSON: {error}" if message.strip() else "it is empty"
        raise ValueError(problem) from error


def _object(change: dict[str, Any], name: str) -> dict[str, Any]:
    found = change[name]
    if isinstance(found, dict):
        return found
    problem = f"its {name!r} is no object, it is {json.dumps(found)[:SHOWN]}"
    raise ValueError(problem)


def _objects(change: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = change[name]
    if isinstance(found, list) and all(isinstance(one, dict) for one in found):
        return found
    problem = f"its {name!r} is no list of objects, it is {json.dumps(found)[:SHOWN]}"
    raise ValueError(problem)
