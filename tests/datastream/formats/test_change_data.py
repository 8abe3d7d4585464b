"""Changes of databases in JSON become rows with kinds."""

from __future__ import annotations

import json
import pickle

import pytest

from pystate.common import Row, Types
from pystate.common.errors import JobGraphError, RecordError
from pystate.common.row import RowKind
from pystate.datastream.formats.change_data import (
    CanalJsonDeserializationSchema,
    DebeziumJsonDeserializationSchema,
    MaxwellJsonDeserializationSchema,
)

PAIR = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
INSERT, BEFORE, AFTER, DELETE = RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE
OLD, NEW = {"id": 1, "name": "a"}, {"id": 1, "name": "b"}


def kind_of(kind, values):
    return Row.of_kind(kind, **values)


def debezium(op, before, after):
    return {"before": before, "after": after, "op": op, "ts_ms": 5, "source": {"table": "t"}}


CHANGES = {
    "created": (DebeziumJsonDeserializationSchema, debezium("c", None, NEW), [(INSERT, NEW)]),
    "read": (DebeziumJsonDeserializationSchema, debezium("r", None, NEW), [(INSERT, NEW)]),
    "updated": (DebeziumJsonDeserializationSchema, debezium("u", OLD, NEW), [(BEFORE, OLD), (AFTER, NEW)]),
    "deleted": (DebeziumJsonDeserializationSchema, debezium("d", OLD, None), [(DELETE, OLD)]),
    "a message of the log": (DebeziumJsonDeserializationSchema, {"op": "m"}, []),
    "with a schema": (
        DebeziumJsonDeserializationSchema,
        {"schema": {}, "payload": debezium("d", OLD, None)},
        [(DELETE, OLD)],
    ),
    "maxwell insert": (MaxwellJsonDeserializationSchema, {"type": "insert", "data": NEW}, [(INSERT, NEW)]),
    "maxwell bootstrap": (MaxwellJsonDeserializationSchema, {"type": "bootstrap-insert", "data": NEW}, [(INSERT, NEW)]),
    "maxwell start": (MaxwellJsonDeserializationSchema, {"type": "bootstrap-start", "data": {}}, []),
    "maxwell update": (
        MaxwellJsonDeserializationSchema,
        {"type": "update", "data": NEW, "old": {"name": "a"}},
        [(BEFORE, OLD), (AFTER, NEW)],
    ),
    "maxwell delete": (MaxwellJsonDeserializationSchema, {"type": "delete", "data": OLD}, [(DELETE, OLD)]),
    "maxwell table": (MaxwellJsonDeserializationSchema, {"type": "table-create", "def": {}}, []),
    "canal insert": (CanalJsonDeserializationSchema, {"type": "INSERT", "data": [OLD, NEW]}, [(INSERT, OLD), (INSERT, NEW)]),
    "canal update": (
        CanalJsonDeserializationSchema,
        {"type": "UPDATE", "data": [NEW], "old": [{"name": "a"}]},
        [(BEFORE, OLD), (AFTER, NEW)],
    ),
    "canal delete": (CanalJsonDeserializationSchema, {"type": "DELETE", "data": [OLD]}, [(DELETE, OLD)]),
    "canal table": (CanalJsonDeserializationSchema, {"type": "ALTER", "isDdl": True, "data": None}, []),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_change_is_rows_of_kinds(case):
    schema, change, expected = CHANGES[case]
    made = pickle.loads(pickle.dumps(schema(PAIR)))

    rows = made.deserialize(json.dumps(change).encode())

    assert made.makes_several and made.produced_type is None, "columns have no place for kinds"
    assert rows == [kind_of(kind, values) for kind, values in expected]
    assert [row.get_row_kind() for row in rows] == [kind for kind, _ in expected]


BAD = {
    "no json": (DebeziumJsonDeserializationSchema, b"x", "no change of Debezium.*it isn't JSON: Expecting value"),
    "spaces": (DebeziumJsonDeserializationSchema, b" ", "it is empty"),
    "truncated": (DebeziumJsonDeserializationSchema, b'{"op": "t"}', "table was truncated"),
    "no payload": (
        DebeziumJsonDeserializationSchema,
        b'{"schema": {}, "payload": null}',
        "'payload' is no object",
    ),
    "no old row": (MaxwellJsonDeserializationSchema, b'{"type": "update", "data": {}, "old": null}', "'old' is no object"),
    "no rows": (CanalJsonDeserializationSchema, b'{"type": "INSERT", "data": null}', "'data' is no list of objects"),
    "fewer old rows": (
        CanalJsonDeserializationSchema,
        b'{"type": "UPDATE", "data": [{}, {}], "old": [{}]}',
        "it has 2 rows in 'data', and 1 in 'old'",
    ),
    "a list": (MaxwellJsonDeserializationSchema, b"[]", "no object"),
    "no operation": (DebeziumJsonDeserializationSchema, b"{}", "lacks 'op'"),
    "another operation": (DebeziumJsonDeserializationSchema, b'{"op": "x"}', "operation is 'x'"),
    "no row before": (DebeziumJsonDeserializationSchema, json.dumps(debezium("u", None, NEW)).encode(), "no row 'before'"),
    "a wrong field": (MaxwellJsonDeserializationSchema, b'{"type": "insert", "data": {"id": "x"}}', "field 'id'"),
    "truncated by Canal": (CanalJsonDeserializationSchema, b'{"type": "TRUNCATE", "isDdl": true}', "table was truncated"),
    "a wrong type": (CanalJsonDeserializationSchema, b'{"type": "MERGE"}', "type is 'MERGE'"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_change_is_refused_or_left_out(case):
    schema, message, why = BAD[case]

    with pytest.raises(RecordError, match=why):
        schema(PAIR).deserialize(message)
    left = schema(PAIR, ignore_parse_errors=True).deserialize(message)
    assert left == ([Row(id=None, name=None)] if case == "a wrong field" else [])


def test_canal_tells_of_many_tables_and_one_is_wanted():
    schema = CanalJsonDeserializationSchema(PAIR, database="d", table="t")

    def rows(database, table):
        return schema.deserialize(
            json.dumps({"type": "INSERT", "database": database, "table": table, "data": [NEW]}).encode()
        )

    assert rows("d", "t") == [kind_of(INSERT, NEW)]
    assert rows("d", "other") == rows("other", "t") == []


def test_canals_databases_and_tables_are_regular_expressions_of_whole_names():
    schema = pickle.loads(pickle.dumps(CanalJsonDeserializationSchema(PAIR, table="orders_[0-9]+|clients")))
    message = {"type": "INSERT", "data": [NEW]}
    found = [
        name
        for name in ("orders_1", "orders_22", "orders_", "my_orders_1", "clients", "clients2", "", None)
        if schema.deserialize(json.dumps({**message, "table": name}).encode())
    ]
    assert found == ["orders_1", "orders_22", "clients"]


@pytest.mark.parametrize(
    "schema", [DebeziumJsonDeserializationSchema, MaxwellJsonDeserializationSchema, CanalJsonDeserializationSchema]
)
def test_an_empty_message_is_a_tombstone_and_has_no_rows(schema):
    assert schema(PAIR).deserialize(b"") == []


def test_rows_have_a_type():
    with pytest.raises(JobGraphError, match="takes the type of rows"):
        DebeziumJsonDeserializationSchema(Types.STRING())
