"""Rows as JSON objects and lines of CSV."""

import datetime
import decimal
import json
import pickle

import pytest

from pystate.common import Row, Types
from pystate.common.errors import JobGraphError, RecordError
from pystate.common.time import Instant
from pystate.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from pystate.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema

INNER = Types.ROW_NAMED(["x"], [Types.DOUBLE()])
NAMES = [
    "text",
    "yes",
    "long",
    "real",
    "exact",
    "huge",
    "day",
    "at",
    "moment",
    "clock",
    "raw",
    "list",
    "map",
    "inner",
    "pair",
]
TYPES = [
    Types.STRING(),
    Types.BOOLEAN(),
    Types.LONG(),
    Types.DOUBLE(),
    Types.BIG_DEC(),
    Types.BIG_INT(),
    Types.SQL_DATE(),
    Types.SQL_TIMESTAMP(),
    Types.INSTANT(),
    Types.SQL_TIME(),
    Types.PRIMITIVE_ARRAY(Types.BYTE()),
    Types.LIST(Types.INT()),
    Types.MAP(Types.INT(), Types.STRING()),
    INNER,
    Types.TUPLE([Types.STRING(), Types.INT()]),
]
ALL = Types.ROW_NAMED(NAMES, TYPES)
VALUES = {
    "text": "ä\n,\"'",
    "yes": True,
    "long": -(2**63),
    "real": 0.5,
    "exact": decimal.Decimal("12345678901234567890.12345"),
    "huge": 2**100,
    "day": datetime.date(2024, 2, 29),
    "at": datetime.datetime(2024, 2, 29, 12, 30, 1, 500),  # noqa: DTZ001 - as elements have them
    "moment": Instant(1_700_000_000, 123_000),
    "clock": datetime.time(23, 59, 1),
    "raw": b"\x00\xff",
    "list": [1, None, 3],
    "map": {1: "one"},
    "inner": Row(x=1.5),
    "pair": ("a", 1),
}


def json_schemas(row_type):
    reads = JsonRowDeserializationSchema.builder().type_info(row_type).build()
    return JsonRowSerializationSchema.builder().with_type_info(row_type).build(), reads


def csv_schemas(row_type):
    return CsvRowSerializationSchema.Builder(row_type).build(), CsvRowDeserializationSchema.Builder(row_type).build()


@pytest.mark.parametrize("values", [VALUES, dict.fromkeys(NAMES)])
def test_rows_come_back_from_json_as_they_went(values):
    writes, reads = (pickle.loads(pickle.dumps(schema)) for schema in json_schemas(ALL))
    row = Row(**values)
    message = writes.serialize(row)
    assert list(json.loads(message)) == NAMES
    assert reads.deserialize(message) == row
    assert pickle.loads(pickle.dumps(reads)).deserialize(message) == row, "a used one travels too"
    assert reads.produced_type == ALL


@pytest.mark.parametrize("count", [12])
def test_flat_rows_come_back_from_csv_as_they_went(count):
    flat = Types.ROW_NAMED(NAMES[:count], TYPES[:count])
    values = {**{name: VALUES[name] for name in NAMES[:count]}, "list": [1, 2], "text": 'a "quoted", text'}
    writes, reads = csv_schemas(flat)
    line = writes.serialize(Row(**values))
    assert line.endswith(b"\n")
    assert reads.deserialize(line) == Row(**values)
    nothing = dict.fromkeys(NAMES[1:count])
    assert reads.deserialize(writes.serialize(Row(text="", **nothing))) == Row(text="", **nothing)


def test_json_of_elsewhere_is_read_by_type():
    _, reads = json_schemas(Types.ROW_NAMED(["s", "n", "d"], [Types.STRING(), Types.INT(), Types.DOUBLE()]))
    assert reads.deserialize(b'{"s": 1.5, "n": "7", "d": 2, "more": 0}') == Row(s="1.5", n=7, d=2.0)
    assert reads.deserialize(b"{}") == Row(s=None, n=None, d=None)
    _, times = json_schemas(Types.ROW_NAMED(["t"], [Types.SQL_TIMESTAMP()]))
    assert times.deserialize(b'{"t":"2024-01-01T02:00:00+02:00"}') == Row(t=datetime.datetime(2024, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize("message", [b"{", b"[1]", b'{"n": "x"}', b'{"n": 1.5}', b'{"n": true}', b"\xff"])
def test_what_is_no_such_row_fails_or_is_left_out(message):
    of = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["n"], [Types.INT()]))
    with pytest.raises(RecordError, match="A message is no JSON of ROW<n INT>: ") as refused:
        of.build().deserialize(message)
    assert "ignore_parse_errors" in refused.value.hint
    assert of.ignore_parse_errors().build().deserialize(message) is None


def test_a_missing_field_is_an_error_where_it_was_asked_for():
    of = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["n"], [Types.INT()])).fail_on_missing_field()
    assert of.build().deserialize(b'{"n":null}') == Row(n=None)
    with pytest.raises(RecordError, match="the field 'n' is missing"):
        of.build().deserialize(b"{}")
    with pytest.raises(JobGraphError, match="contradict"):
        of.ignore_parse_errors().build()


def test_lines_look_as_they_are_told():
    row_type = Types.ROW_NAMED(["a", "b", "c"], [Types.STRING(), Types.INT(), Types.LIST(Types.STRING())])
    writes = (
        CsvRowSerializationSchema.Builder(row_type).set_field_delimiter("|").set_null_literal("-").set_quote_character("'")
    )
    writes = writes.set_array_element_delimiter("+").set_line_delimiter("").build()
    assert writes.serialize(Row(a="x|y", b=None, c=["p", "q"])) == b"'x|y'|-|p+q"
    reads = CsvRowDeserializationSchema.Builder(row_type).set_field_delimiter("|").set_null_literal("-")
    reads = reads.set_quote_character("'").set_array_element_delimiter("+").set_allow_comments(True).build()
    assert reads.deserialize(b"'x|y'|-|p+q\r\n") == Row(a="x|y", b=None, c=["p", "q"])
    assert reads.deserialize(b"# a comment") is None
    with pytest.raises(RecordError, match="it has 2 columns, not 3"):
        reads.deserialize(b"a|1")
    lax = CsvRowDeserializationSchema.Builder(row_type).set_ignore_parse_errors(True).build()
    assert lax.deserialize(b"a,x,") is None


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: JsonRowDeserializationSchema.builder().build(), "needs the type"),
        (lambda: JsonRowSerializationSchema.builder().build(), "needs the type"),
        (lambda: JsonRowSerializationSchema.builder().with_type_info(Types.INT()), "takes the type of rows"),
        (lambda: JsonRowDeserializationSchema.builder().json_schema("{}"), "not read from a JSON schema"),
        (lambda: CsvRowSerializationSchema.Builder(ALL), "can't hold MAP"),
        (lambda: CsvRowDeserializationSchema.Builder(INNER).set_field_delimiter(";;"), "takes one character"),
    ],
)
def test_what_makes_no_sense_is_refused(made, message):
    with pytest.raises(JobGraphError, match=message):
        made()


def test_an_element_of_another_type_is_refused():
    writes, _ = json_schemas(INNER)
    with pytest.raises(RecordError, match="An element is no ROW<x DOUBLE>"):
        writes.serialize(Row(y=1))
