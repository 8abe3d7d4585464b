"""Events of Debezium's own connector, recorded: what they become, and what is told of those that can't be read."""

from __future__ import annotations

import base64
import datetime as dt
import json
import pickle
import threading
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pystate.common import Row, Types
from pystate.common.errors import JobGraphError, RecordError
from pystate.common.row import RowKind
from pystate.common.time import Instant
from pystate.datastream.formats.change_data import DebeziumAvroDeserializationSchema, DebeziumJsonDeserializationSchema
from pystate.testing import ProcessFunctionTestHarnesses
from tests.testing.test_examples import example

EVENTS = Path(__file__).parents[2] / "fixtures" / "debezium"
STRINGS = Types.OBJECT_ARRAY(Types.STRING())
ALWAYS = {
    "id": Types.LONG(), "name": Types.STRING(), "day": Types.SQL_DATE(), "doc": Types.STRING(), "tags": STRINGS,
    "numbers": Types.OBJECT_ARRAY(Types.INT()), "flag": Types.BOOLEAN(), "small": Types.SHORT(), "r": Types.FLOAT(),
    "d": Types.DOUBLE(), "u": Types.STRING(), "raw": Types.PRIMITIVE_ARRAY(Types.BYTE()), "big": Types.STRING(),
    "state": Types.STRING(), "iv": Types.LONG(), "must": Types.STRING(), "atz": Types.SQL_TIMESTAMP(),
}  # fmt: skip
AS_TEXT = {
    "price": Types.BIG_DEC(), "free": Types.BIG_DEC(), "at": Types.SQL_TIMESTAMP(), "millis": Types.INSTANT(),
    "clock": Types.SQL_TIME(),
}  # fmt: skip
BY_DEFAULT = {"at": Types.LONG(), "millis": Types.LONG(), "clock": Types.LONG(), "price": Types.STRING()}
LARGE = "__debezium_unavailable_value"
SOURCE = Types.MAP(Types.STRING(), Types.STRING())


def row_type(columns):
    return Types.ROW_NAMED(list(columns), list(columns.values()))


def events(name, topic):
    lines = (json.loads(line) for line in (EVENTS / f"{name}.jsonl").read_text().splitlines())
    return [line["value"].encode() if line["value"] else b"" for line in lines if line["topic"].endswith(topic)]


def rows_of(name, columns, topic="things", **more):
    schema = pickle.loads(pickle.dumps(DebeziumJsonDeserializationSchema(row_type(columns), **more)))
    return [row for event in events(name, topic) for row in schema.deserialize(event)]


def test_events_with_texts_become_rows_of_all_types_and_in_the_end_the_table():
    table = {}
    rows = rows_of("strings", {**ALWAYS, **AS_TEXT})
    for row in rows:
        if row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER):
            table[row.id] = row
        elif row.get_row_kind() is RowKind.DELETE:
            del table[row.id]
    large = table[3].big
    assert len(large) == 70 * 32, "it comes with each change of a table that tells all"
    first = {
        "id": 1, "name": "ä", "day": dt.date(2026, 1, 31), "doc": '{"a": [1, null]}', "tags": ["a", None], "numbers": [1, 2],
        "flag": True, "small": 3, "r": 1.5, "d": 2.5, "u": "00000000-0000-0000-0000-000000000001", "raw": b"\xff\x00",
        "big": "x" * 20, "state": "ok", "iv": 86_400_000_000, "must": "x",
        "atz": dt.datetime.fromisoformat("2026-01-31T10:00:00.123456"), "price": Decimal("12.34"), "free": Decimal(1000),
        "at": dt.datetime.fromisoformat("2026-01-31T12:00:00.123456"), "millis": Instant(1769860800, 123_000_000),
        "clock": dt.time(12, 0, 1, 500_000),
    }  # fmt: skip
    assert next(row for row in rows if row.id == 1).as_dict() == first
    assert table[3].as_dict() == {**first, "id": 3, "name": "toast", "price": Decimal(-5), "big": large}
    assert {number: row.name for number, row in table.items() if number != 3} == {
        50: "interleaved2",
        51: "between",
        52: "end",
    }


@pytest.mark.parametrize("name", ["plain", "schemas"])
def test_events_of_a_connector_as_it_comes_are_read_by_the_types_that_it_writes(name):
    first = next(row for row in rows_of(name, {**ALWAYS, **BY_DEFAULT}) if row.id == 1)
    assert (first.day, first.at, first.millis, first.clock, first.price) == (
        dt.date(2026, 1, 31), 1769860800123456, 1769860800123, 43201500000, "BNI=",
    )  # fmt: skip


@pytest.mark.parametrize("column", AS_TEXT)
def test_what_a_connector_as_it_comes_writes_of_decimals_and_times_is_refused_with_what_to_set(column):
    columns = {"id": Types.LONG(), column: AS_TEXT[column]}
    with pytest.raises(RecordError, match=f"field '{column}'") as error:
        rows_of("plain", columns)
    assert "decimal.handling.mode=string" in error.value.hint
    assert "time.precision.mode=isostring" in error.value.hint
    assert {row[column] for row in rows_of("plain", columns, ignore_parse_errors=True) if column != "millis"} <= {None}


KEYED = {
    "big": Types.STRING(), "nums": Types.OBJECT_ARRAY(Types.INT()), "txts": STRINGS,
    "bin": Types.PRIMITIVE_ARRAY(Types.BYTE()), "js": Types.STRING(),
}  # fmt: skip


def test_a_table_that_tells_only_its_keys_is_refused_with_what_to_set():
    with pytest.raises(RecordError, match="no row 'before'") as error:
        rows_of("plain", {"id": Types.LONG()}, "keyed")
    assert "REPLICA IDENTITY FULL" in error.value.hint


@pytest.mark.parametrize("column", KEYED)
def test_a_large_value_that_is_not_told_is_refused_where_it_is_wanted(column):
    schema = DebeziumJsonDeserializationSchema(row_type({"id": Types.LONG(), column: KEYED[column]}))
    moved = next(event for event in events("plain", "keyed") if b'"op":"c"' in event)  # to another key
    with pytest.raises(RecordError, match=f"no value of '{column}'") as error:
        schema.deserialize(moved)
    assert "REPLICA IDENTITY FULL" in error.value.hint
    others = DebeziumJsonDeserializationSchema(row_type({"id": Types.LONG(), "name": Types.STRING()}))
    assert others.deserialize(moved) == [Row(id=2, name="toast")]


@pytest.mark.parametrize("topic", ["heartbeat.changes", "changes.transaction"])
def test_topics_that_are_of_no_table_are_told(topic):
    with pytest.raises(RecordError, match="lacks 'op', as heartbeats, ends of transactions") as error:
        rows_of("plain", {"id": Types.LONG()}, topic)
    assert "topics of tables" in error.value.hint
    assert rows_of("plain", {"id": Types.LONG()}, topic, ignore_parse_errors=True) == []


def test_a_message_of_the_log_has_no_rows():
    assert len(events("plain", "changes.message")) == 1
    assert rows_of("plain", {"id": Types.LONG()}, "changes.message") == []


METADATA = {
    "told": ("ingestion-timestamp", Types.INSTANT()), "at": ("source.timestamp", Types.INSTANT()),
    "db": ("source.database", Types.STRING()), "of": ("source.schema", Types.STRING()),
    "table": ("source.table", Types.STRING()), "source": ("source.properties", SOURCE),
}  # fmt: skip


def test_fields_may_be_metadata_by_flinks_keys():
    columns = {"id": Types.LONG(), **{name: type_info for name, (_, type_info) in METADATA.items()}}
    metadata = {name: key for name, (key, _) in METADATA.items()}
    events_of = [json.loads(event) for event in events("plain", "things") if event]
    first, *_ = rows_of("plain", columns, metadata=metadata)
    assert (first.db, first.of, first.table) == ("postgres", "public", "things")
    assert (
        first.told.to_epoch_milli() == events_of[0]["ts_ms"] and first.at.to_epoch_milli() == events_of[0]["source"]["ts_ms"]
    )
    assert first.source["lsn"] == str(events_of[0]["source"]["lsn"]) and first.source["xmin"] is None


def test_wrong_metadata_is_told_when_the_schema_is_made():
    with pytest.raises(JobGraphError, match="no metadata 'lsn'"):
        DebeziumJsonDeserializationSchema(row_type({"a": Types.STRING()}), metadata={"a": "lsn"})
    for columns in ({"b": SOURCE}, {"a": Types.STRING()}):
        with pytest.raises(JobGraphError, match="is MAP<STRING, STRING> in the type of the rows"):
            DebeziumJsonDeserializationSchema(row_type(columns), metadata={"a": "source.properties"})


def test_changes_that_a_connector_repeats_go_on_once():
    module = example("postgres_to_delta")
    columns = {"id": Types.LONG(), "name": Types.STRING(), "source": SOURCE}
    rows = rows_of("plain", columns, metadata={"source": "source.properties"})
    others = dict.fromkeys(set(module.COLUMNS) - {"id", "owner"})
    rows = [Row.of_kind(row.get_row_kind(), id=row.id, owner=row.name, source=row.source, **others) for row in rows]

    def told(order):
        with ProcessFunctionTestHarnesses.for_keyed_process_function(
            module.Newest(), lambda row: row.id, Types.LONG()
        ) as harness:
            for row in order:
                harness.process_element(row)
            return [(one.get_row_kind(), one.id, one.owner) for one in harness.extract_output()]

    once = told(rows)
    assert len(once) == len(rows)
    streamed = [row for row in rows if row.source["snapshot"] == "false"]
    for begin in range(len(streamed)):
        assert told([*rows, *streamed[begin:]]) == once


def test_a_change_that_began_before_a_snapshot_and_ended_after_it_goes_on():
    module = example("postgres_to_delta")
    others = dict.fromkeys(set(module.COLUMNS) - {"id", "owner"})

    def change(kind, owner, lsn, snapshot="false"):
        return Row.of_kind(kind, id=1, owner=owner, source={"lsn": lsn, "snapshot": snapshot}, **others)

    changes = [
        change(RowKind.INSERT, "a", "100", "last"),
        change(RowKind.UPDATE_BEFORE, "a", "90"),
        change(RowKind.UPDATE_AFTER, "b", "90"),
    ]
    with ProcessFunctionTestHarnesses.for_keyed_process_function(
        module.Newest(), lambda row: row.id, Types.LONG()
    ) as harness:
        for one in [*changes, *changes[1:]]:
            harness.process_element(one)
        assert [row.owner for row in harness.extract_output()] == ["a", "a", "b"]


@pytest.fixture
def recorded():
    """A registry that knows the schemas of the recorded messages, and these."""
    told = json.loads((EVENTS / "avro.json").read_text())

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            number = urlsplit(self.path).path.rpartition("/")[2]
            body = json.dumps({"schema": told["schemas"][number]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        messages = [base64.b64decode(message or "") for message in told["messages"]]
        yield f"http://127.0.0.1:{server.server_port}", messages
        server.shutdown()


def test_avro_of_a_registry_becomes_rows_of_the_fields_that_are_wanted(recorded):
    url, messages = recorded
    columns = {**example("postgres_to_delta").COLUMNS, "n": Types.BIG_DEC(), "d": Types.DOUBLE(), "more": Types.INT()}
    columns |= {"raw": Types.PRIMITIVE_ARRAY(Types.BYTE()), "source": SOURCE}
    schema = DebeziumAvroDeserializationSchema(row_type(columns), url, metadata={"source": "source.properties"})
    schema = pickle.loads(pickle.dumps(schema))
    rows = [row for message in messages for row in schema.deserialize(message)]

    assert [str(row.get_row_kind()) for row in rows] == ["+I", "-U", "+U", "-D", "+I", "-D", "+I"]
    first = {name: rows[0][name] for name in columns if name != "source"}
    assert first == {
        "id": 1, "owner": "a", "cents": Decimal("1.25"), "opened": dt.date(2026, 1, 31),
        "at": dt.datetime.fromisoformat("2026-01-31T12:00:00.123456"), "tags": ["a", None], "n": Decimal("1.50"),
        "d": float("inf"), "more": None, "raw": b"\x00\x01",
    }  # fmt: skip
    assert (rows[0].source["snapshot"], rows[-1].source["snapshot"], rows[-1].more) == ("last", "false", 3)
    assert int(rows[-1].source["lsn"]) > int(rows[0].source["lsn"])


def test_what_is_no_avro_of_a_registry_is_refused_or_left_out(recorded):
    url, messages = recorded
    for message, why in ((b"plain", "doesn't begin with the zero"), (messages[0][:-3], "no Avro of a schema registry")):
        schema = DebeziumAvroDeserializationSchema(row_type({"id": Types.LONG()}), url)
        with pytest.raises(RecordError, match=f"no change of Debezium .*{why}"):
            schema.deserialize(message)
        lax = DebeziumAvroDeserializationSchema(row_type({"id": Types.LONG()}), url, ignore_parse_errors=True)
        assert lax.deserialize(message) == []
