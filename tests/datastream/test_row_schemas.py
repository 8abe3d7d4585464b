"""Rows as JSON objects and lines of CSV."""

import datetime
import decimal
import json
import pickle

import pytest

from pystate.common import Row, Types
from pystate.common.errors import JobGraphError, RecordError
from pystate.common.time import Instant
from pystate.core.records.codec import RecordCodec
from pystate.core.state.values.serializers import serializer_for
from pystate.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from pystate.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema

PRIMITIVE = Types.PRIMITIVE_ARRAY(Types.INT())
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


@pytest.mark.parametrize("message", [b"{", b"[1]", b"\xff", b"", b'{"n":1}{"n":2}', b"[" * 100_000, b'{"n":' * 100_000])
def test_what_is_no_object_fails_or_is_left_out(message):
    of = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["n"], [Types.INT()]))
    with pytest.raises(RecordError, match="A message is no JSON of ROW<n INT>: ") as refused:
        of.build().deserialize(message)
    assert "ignore_parse_errors" in refused.value.hint
    assert of.ignore_parse_errors().build().deserialize(message) is None


@pytest.mark.parametrize("value", ['"x"', "1.5", "true", "2147483648", "1e999999999", "[1]"])
def test_a_field_that_is_none_of_its_type_fails_or_is_none(value):
    of = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["m", "n"], [Types.STRING(), Types.INT()]))
    with pytest.raises(RecordError, match="field 'n': .* is no "):
        of.build().deserialize(f'{{"m":"a","n":{value}}}'.encode())
    assert of.ignore_parse_errors().build().deserialize(f'{{"m":"a","n":{value}}}'.encode()) == Row(m="a", n=None)


def test_what_was_read_fits_the_columns_that_carry_it_on():
    row_type = Types.ROW_NAMED(["l", "f", "c", "a"], [Types.LONG(), Types.FLOAT(), Types.CHAR(), PRIMITIVE])
    reads = JsonRowDeserializationSchema.builder().type_info(row_type).ignore_parse_errors().build()
    row = reads.deserialize(b'{"l":9223372036854775808,"f":1e300,"c":"ab","a":[1,null]}')
    assert row == Row(l=None, f=float("inf"), c=None, a=None)
    codec = RecordCodec(row_type, "here")
    assert codec.encode([codec.prepare(row)])[0].to_pylist() == [None]
    assert serializer_for(row_type).serialize(row)


@pytest.mark.parametrize(
    "digits", ["10", "10.0", "10.000", "0.99999999999999999", "1.230", "799.929496989092949698", "1E+3"]
)
def test_decimals_keep_their_digits_and_their_zeros_both_ways(digits):
    writes, reads = json_schemas(Types.ROW_NAMED(["d"], [Types.BIG_DEC()]))
    message = f'{{"d":{digits}}}'.encode()
    assert writes.serialize(reads.deserialize(message)) == message


def test_a_missing_field_is_an_error_where_it_was_asked_for():
    of = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["n"], [Types.INT()])).fail_on_missing_field()
    assert of.build().deserialize(b'{"n":null}') == Row(n=None)
    with pytest.raises(RecordError, match="field 'n': it is missing") as refused:
        of.build().deserialize(b"{}")
    assert "fail_on_missing_field" in refused.value.hint
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
    assert lax.deserialize(b"a,x,") == Row(a="a", b=None, c=None)
    assert lax.deserialize(b"a") == Row(a="a", b=None, c=None)
    assert lax.deserialize(b"a,1,b,c") is None


def test_lists_of_csv_have_a_place_for_none_and_none_for_the_delimiter():
    numbers = Types.ROW_NAMED(["n"], [Types.LIST(Types.INT())])
    writes, reads = csv_schemas(numbers)
    assert writes.serialize(Row(n=[1, None, 3])) == b"1;;3\n"
    assert reads.deserialize(b"1;;3\n") == Row(n=[1, None, 3])
    writes, _ = csv_schemas(Types.ROW_NAMED(["t"], [Types.LIST(Types.STRING())]))
    with pytest.raises(RecordError, match="'a;b' would be read as more than one element"):
        writes.serialize(Row(t=["a;b"]))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: JsonRowDeserializationSchema.builder().build(), "needs the type"),
        (lambda: JsonRowSerializationSchema.builder().build(), "needs the type"),
        (lambda: JsonRowSerializationSchema.builder().with_type_info(Types.INT()), "takes the type of rows"),
        (lambda: JsonRowDeserializationSchema.builder().json_schema("{}"), "not read from a JSON schema"),
        (lambda: json_schemas(Types.ROW([Types.PICKLED_BYTE_ARRAY()])), "is no type of JSON's"),
        (lambda: json_schemas(Types.ROW([Types.MAP(INNER, Types.INT())])), "are no texts"),
        (lambda: CsvRowSerializationSchema.Builder(ALL), "can't hold MAP"),
        (lambda: csv_schemas(Types.ROW([Types.LIST(INNER)])), "can't hold LIST"),
        (lambda: CsvRowDeserializationSchema.Builder(INNER).set_field_delimiter(";;"), "takes one character"),
    ],
)
def test_what_makes_no_sense_is_refused(made, message):
    with pytest.raises(JobGraphError, match=message):
        made()


@pytest.mark.parametrize("schemas", [json_schemas, csv_schemas])
@pytest.mark.parametrize("value", ["1", True, 2**31, 1.0])
def test_a_value_of_another_type_is_refused(schemas, value):
    writes, _ = schemas(Types.ROW_NAMED(["n"], [Types.INT()]))
    with pytest.raises(RecordError, match="is not of type INT"):
        writes.serialize(Row(n=value))


def test_an_element_of_another_type_is_refused():
    writes, _ = json_schemas(INNER)
    with pytest.raises(RecordError, match="An element is no ROW<x DOUBLE>"):
        writes.serialize(Row(y=1))
