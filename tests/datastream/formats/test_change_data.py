"""Changes of databases in JSON become rows with kinds."""

from __future__ import annotations

import json
import pickle

import pytest

from pystate.common import Row, Types
from pystate.common.errors import JobGraphError, RecordError
from pystate.common.row import RowKind
from pystate.common.time import Instant
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
    "maxwell update of a key": (
        MaxwellJsonDeserializationSchema,
        {"type": "update", "data": {"id": 2, "name": "b"}, "old": {"id": 1}, "primary_key_columns": ["id"]},
        [(DELETE, NEW), (INSERT, {"id": 2, "name": "b"})],
    ),
    "canal update of a key": (
        CanalJsonDeserializationSchema,
        {
            "type": "UPDATE",
            "data": [{"id": "2", "name": "b"}, {"id": "3", "name": "b"}],
            "old": [{"id": "1"}, {"name": "a"}],
            "pkNames": ["id"],
        },
        [(DELETE, NEW), (INSERT, {"id": 2, "name": "b"}), (BEFORE, {"id": 3, "name": "a"}), (AFTER, {"id": 3, "name": "b"})],
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
    "another type": (MaxwellJsonDeserializationSchema, b'{"type": ["x"], "data": {}}', "its type is ..x..."),
    "no type": (MaxwellJsonDeserializationSchema, b'{"type": null, "data": {}}', "its type is None"),
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


STRING, STRINGS, INSTANT = Types.STRING(), Types.OBJECT_ARRAY(Types.STRING()), Types.INSTANT()
BESIDE = {
    "maxwell": (
        MaxwellJsonDeserializationSchema,
        {"type": "update", "data": {"id": 1, "table": "a column"}, "old": {"id": 0}, "ts": 7, "primary_key_columns": ["x"]},
        {
            "database": (STRING, "d"),
            "table": (STRING, "t"),
            "primary-key-columns": (STRINGS, ["x"]),
            "ingestion-timestamp": (INSTANT, Instant(7, 0)),
        },
    ),
    "canal": (
        CanalJsonDeserializationSchema,
        {"type": "DELETE", "data": [{"id": 1}], "ts": 7, "es": 6001, "pkNames": ["x"], "sqlType": {"id": -5}},
        {
            "database": (STRING, "d"),
            "table": (STRING, "t"),
            "sql-type": (Types.MAP(STRING, Types.INT()), {"id": -5}),
            "pk-names": (STRINGS, ["x"]),
            "ingestion-timestamp": (INSTANT, Instant(0, 7_000_000)),
            "event-timestamp": (INSTANT, Instant(6, 1_000_000)),
        },
    ),
}


@pytest.mark.parametrize("case", BESIDE)
def test_fields_may_be_what_is_told_beside_the_rows(case):
    schema, change, known = BESIDE[case]
    of = Types.ROW_NAMED(["id", *known], [Types.LONG(), *(kind for kind, _ in known.values())])
    made = pickle.loads(pickle.dumps(schema(of, metadata={key: key for key in known})))
    expected = [value for _, value in known.values()]
    for row in made.deserialize(json.dumps({**change, "database": "d", "table": "t"}).encode()):
        assert row[1:] == expected
    (row, *_) = made.deserialize(json.dumps({key: change[key] for key in ("type", "data", "old") if key in change}).encode())
    assert row[1:] == [None] * len(known)
    with pytest.raises(JobGraphError, match="have no metadata 'lsn'"):
        schema(of, metadata={"id": "lsn"})
    with pytest.raises(JobGraphError, match="'id' of 'table' is STRING .* here it is LONG"):
        schema(of, metadata={"id": "table"})


@pytest.mark.parametrize("source", [None, [], "x", 5])
def test_a_source_that_is_none_is_no_change(source):
    schema, of = DebeziumJsonDeserializationSchema, Types.ROW_NAMED(["id", "of"], [Types.LONG(), STRING])
    message = json.dumps({"op": "c", "after": {"id": 1}, "source": source}).encode()
    with pytest.raises(RecordError, match="'source' is no object"):
        schema(of, metadata={"of": "source.table"}).deserialize(message)
    assert schema(of, metadata={"of": "source.table"}, ignore_parse_errors=True).deserialize(message) == []


@pytest.mark.parametrize(
    "schema", [DebeziumJsonDeserializationSchema, MaxwellJsonDeserializationSchema, CanalJsonDeserializationSchema]
)
def test_an_empty_message_is_a_tombstone_and_has_no_rows(schema):
    assert schema(PAIR).deserialize(b"") == []


def test_rows_have_a_type():
    with pytest.raises(JobGraphError, match="takes the type of rows"):
        DebeziumJsonDeserializationSchema(Types.STRING())
