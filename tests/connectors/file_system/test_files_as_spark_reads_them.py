"""Sources of files in slots give what Spark's readers give, and fail where those fail."""

from __future__ import annotations

import json
import math
import sys
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError

from pystate.common import Types
from pystate.common.errors import PystateError
from pystate.connectors.file_system.file_listing import found_files
from pystate.connectors.file_system.file_reader import FileSourceReader
from pystate.connectors.file_system.file_splits import FileSourceSplit
from pystate.connectors.file_system.formats.csv_schema import CsvSchema
from pystate.connectors.source import InputStatus
from pystate.core.records.codec import RecordCodec
from pystate.datastream.formats.csv import CsvReaderFormat
from pystate.datastream.formats.json import JsonLinesFormat
from pystate.datastream.formats.parquet import ParquetColumnarRowInputFormat
from pystate.runtime.spark.spark_types import type_info_of

pytestmark = pytest.mark.slow

MIXED = CsvReaderFormat(
    CsvSchema.builder()
    .add_number_column("i", Types.INT())
    .add_string_column("s")
    .add_number_column("d", Types.DOUBLE())
    .add_boolean_column("b")
    .build()
)
SCALARS = JsonLinesFormat(
    Types.ROW_NAMED(["i", "s", "d", "b"], [Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.BOOLEAN()])
)


class _Output:
    epoch = None

    def __init__(self):
        self.elements = []
        self.wanted = sys.maxsize

    def collect(self, record, timestamp=None):
        self.elements.append(record)

    def room(self):
        return self.wanted


def ours(file_format, folder, at_once=None, spark=None):
    """Return all elements of a folder, read by the reader of slots."""
    reader = FileSourceReader(None, file_format.in_slots(spark, [str(folder)]), None)
    reader.add_splits([FileSourceSplit(file) for file in found_files((str(folder),))])
    reader.notify_no_more_splits()
    output = _Output()
    while reader.poll_next(output) is not InputStatus.END_OF_INPUT:
        pass
    return output.elements


def elements_of(frame):
    """Return what the micro-batch engine makes of a DataFrame's rows."""
    single = frame.columns == ["value"]
    type_info = type_info_of(frame.schema.fields[0].dataType if single else frame.schema, "test")
    codec = RecordCodec(type_info, "test")
    arrays = []
    for column, field in zip(frame.toArrow().columns, codec.schema, strict=True):
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
        elif pa.types.is_decimal(column.type):
            column = column.cast(pa.string())
        arrays.append(column.combine_chunks().cast(field.type))
    return list(codec.decode(pa.RecordBatch.from_arrays(arrays, schema=codec.schema)))


def sparks(spark, kind, folder, columns=None):
    reader = spark.read.format(kind).option("mode", "FAILFAST")
    return elements_of((reader if columns is None else reader.schema(columns)).load(str(folder)))


def outcome(read):
    try:
        return shown(read())
    except Exception as error:
        known = isinstance(error, (PystateError, Py4JError, UnicodeDecodeError)) or "spark" in type(error).__module__
        assert known, error
        return "fails"


def shown(elements):
    return [repr(element) for element in elements]


def line_by_line(spark, file_format, folder, lines, columns, strict=True):
    """Compare what each line gives, and which of them are refused.

    Args:
        strict: Whether no line that Spark takes may be refused.
    """
    folder.mkdir()
    (folder / "lines").write_bytes(b"\n".join(lines) + b"\n")
    reader = spark.read.format("csv" if isinstance(file_format, CsvReaderFormat) else "json").option("mode", "PERMISSIVE")
    frame = reader.schema(f"{columns}, _corrupt_record STRING").load(str(folder)).coalesce(1).cache()
    try:
        corrupt = [row[0] is not None for row in frame.select("_corrupt_record").collect()]
        theirs = elements_of(frame.drop("_corrupt_record"))
    finally:
        frame.unpersist()
    assert len(theirs) == len(lines)
    refused = 0
    for line, bad, row in zip(lines, corrupt, theirs, strict=True):
        one = folder / "one"
        one.write_bytes(line)
        with one.open("rb") as file:
            records = file_format.in_slots(spark, []).open(file, "one", 0)
            try:
                found = list(records.read(9) or [])
            except PystateError:
                found = None
        if found is None and not bad and not strict:
            refused += 1
            continue
        assert (found is None) == bad, (line, row, found)
        assert bad or shown(found) == shown([row]), line
    assert refused < len(lines) / 4
    return sum(corrupt)


NUMBERS = """0 -0 +1 01 1. .5 5e3 1e400 -1e400 1e-400 1d 1F 0x1p3 -0x1p-3 0x1p2000 1_0 NaN nan Inf -Inf
 +Inf Infinity -Infinity inf
 2147483647 2147483648 -2147483648 -2147483649 128 -128 32768 9223372036854775807 9223372036854775808 １ true TRUE True yes
 1.5 e5 + - . d 0x 0x1 1e 1e+ --1 1,5 "1" 0.1 16777217 1e39 3.4028236e38 1e-46""".split()


def test_numbers_in_csv(spark, tmp_path):
    kinds = [
        Types.BYTE(),
        Types.SHORT(),
        Types.INT(),
        Types.LONG(),
        Types.FLOAT(),
        Types.DOUBLE(),
        Types.BOOLEAN(),
    ]
    columns = ["TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "BOOLEAN"]
    lines = [text.encode() for text in NUMBERS]
    for number, kind in enumerate(kinds):
        csv = CsvReaderFormat(CsvSchema(Types.ROW_NAMED(["x"], [kind])))
        line_by_line(spark, csv, tmp_path / f"f{number}", lines, f"x {columns[number]}")


DATES = """2020-01-02|2020-1-2|2020|2020-01|2020-01-02T|2020-01-02 x|2020-01-02Tx|  2020-01-02 |2020-02-30|20200102
02020-01-02|+2020-01-02|2020-01-02 03:04:05|2020-01-02T03:04:05.123456Z|2020-01-02 03:04|2020-01-02 03
2020-01-02 03:04:05+02:00|2020-01-02 03:04:05+0200|2020-01-02 03:04:05+2|2020-01-02 03:04:05 Europe/Berlin
2020-03-29 02:30:00 Europe/Berlin|2020-10-25 02:30:00 Europe/Berlin|2020-01-02 03:04:05.1234567
2020-01-02 03:04:05.|2020-01-02 3:4:5|2020-01-02 24:00:00|2020-01-02 03:60:05|1577934245|0001-01-03|9999-12-31
1582-10-10|1900-01-01 00:00:00|2020-01-02 03:04:05 UTC|2020-01-02 03:04:05Z |2020-01-02 03:04:05 GMT+1
2020-01-02 03:04:05-18:00|2020-01-02 03:04:05-18:01|2020-01-02 03:04:05+01:02:03|today|now|x|2020-13-01
2020-00-01|2020-01-02 03:04:05 Mars/Base|2020-01-02t03:04:05|2020-01-02  03:04:05|2020-01-02 03:04:05.1Z
2020-03-29 02:30:00|1969-12-31 23:59:59.999999|2020-01-02 03:04:05+14:60""".replace("\n", "|").split("|")


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_dates_and_instants(spark, tmp_path, kind):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        for name, part in (("DATE", Types.SQL_DATE()), ("TIMESTAMP", Types.SQL_TIMESTAMP())):
            row_type = Types.ROW_NAMED(["x"], [part])
            csv = CsvReaderFormat(CsvSchema(row_type)) if kind == "csv" else JsonLinesFormat(row_type)
            lines = [one.encode() if kind == "csv" else json.dumps({"x": one}).encode() for one in DATES]
            lines = [
                line for line in lines if kind == "csv" or b"20200102" not in line
            ]  # so many days are past Python's years
            lines += (
                [] if kind == "csv" else [b'{"x":5}', b'{"x":"5"}', b'{"x":-1}', b'{"x":1.5}', b'{"x":""}', b'{"x":" 5"}']
            )
            lines = [line for line in lines if b"1577934245" not in line]  # so many days, or it is no date
            # a time without a date is one of today, and a local time that is skipped is told in both
            line_by_line(spark, csv, tmp_path / name, lines, f"x {name}", strict=False)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


JSON = [
    rb'{"i":1,"s":"a","d":1.5,"b":true}',
    rb"{}",
    rb'{"i":1',
    rb"{i:1}",
    rb'{"i":01}',
    rb'{"i":1.0}',
    rb'{"i":1e2}',
    rb'{"i":-0}',
    rb'{"i":"1"}',
    rb'{"i":""}',
    rb'{"i":null,"s":null}',
    rb'{"I":1}',
    rb'{"i":1,"i":2}',
    rb'{"i":1,"i":null}',
    rb'{"i":{}}',
    rb'{"i":[]}',
    rb'{"i":9223372036854775808}',
    rb'{"s":1}',
    rb'{"s":1.50e3}',
    rb'{"s": -0.0}',
    rb'{"s":true}',
    rb'{"s":NaN}',
    rb'{"s":{"a": 1,"b":[1, 2]}, "i": 7}',
    rb'{"s":[1, "x]\"", {"q":"}"}],"b":false}',
    rb'{"s":{},"d":"NaN"}',
    rb'{"s":"\ud83d\ude00 \ud800"}',
    b'{"s":"\xff"}',
    b'{"zz":"\xff"}',
    '{"s":"ä€😀"}'.encode(),
    b'{"s":"a\tb"}',
    rb'{"s":"\x"}',
    rb'{"s":"\u0000"}',
    rb'{"s":"a\/b\n"}',
    rb'{"d":1}',
    rb'{"d":"Infinity"}',
    rb'{"d":"+INF"}',
    rb'{"d":"-INF"}',
    rb'{"d":"inf"}',
    rb'{"d":NaN}',
    rb'{"d":-Infinity}',
    rb'{"d":"1"}',
    rb'{"d":1e400}',
    rb'{"d":""}',
    rb'{"b":"true"}',
    rb'{"b":1}',
    rb"null",
    rb"1",
    rb'"x"',
    rb"[1]",
    rb'/* c */{"i":1}',
    rb'{"i":1,}',
    b'\x0b{"i":1}',
    b' \t{"i" : 1 , "s" :"x" } ',
    rb'{"zz":[{"a":{"b":[]}}],"i":3}',
    rb'{"zz":bad,"i":3}',
]


def test_lines_of_json(spark, tmp_path):
    columns = "i BIGINT, s STRING, d DOUBLE, b BOOLEAN"
    assert line_by_line(spark, SCALARS, tmp_path / "f", JSON, columns) > 20


NESTED = [
    rb'{"r":{"a":1,"s":{"q": 1}},"m":{"k":1,"j":null},"l":[1,null],"x":"AQI=","rs":[{"a":1},null,{}]}',
    rb'{"r":null,"l":[],"m":{},"x":"","rs":[]}',
    rb'{"r":{},"rs":[{"a":[]}]}',
    rb'{"r":{"s":[1 ,2]},"rs":[{"s":{"z" : 0}}, {"a":2}]}',
    rb'{"ms":{"a":{"b": 1},"c":"d","e":2.50}}',
    rb'{"r":[1]}',
    rb'{"r":""}',
    rb'{"r":"x"}',
    rb'{"r":{"a":"x"}}',
    rb'{"m":[]}',
    rb'{"m":{"a":"x"}}',
    rb'{"m":{"a":1,"a":2}}',
    rb'{"l":1}',
    rb'{"l":["1"]}',
    rb'{"l":{"a":1}}',
    rb'{"x":"***"}',
    rb'{"x":"AQI"}',
    rb'{"x":5}',
    rb'{"y":200}',
    rb'{"y":256}',
    rb'{"h":40000}',
    rb'{"n":2147483648}',
    rb'{"f":0.1,"n":-2147483648,"h":-32768,"y":-128}',
    rb'{"f":1e39}',
]


def test_nested_json(spark, tmp_path):
    inner = Types.ROW_NAMED(["a", "s"], [Types.LONG(), Types.STRING()])
    types = {
        "r": inner,
        "m": Types.MAP(Types.STRING(), Types.LONG()),
        "ms": Types.MAP(Types.STRING(), Types.STRING()),
        "l": Types.BASIC_ARRAY(Types.LONG()),
        "x": Types.PRIMITIVE_ARRAY(Types.BYTE()),
        "rs": Types.LIST(inner),
        "y": Types.BYTE(),
        "h": Types.SHORT(),
        "n": Types.INT(),
        "f": Types.FLOAT(),
    }
    nested = JsonLinesFormat(Types.ROW_NAMED(list(types), list(types.values())))
    columns = (
        "r STRUCT<a: BIGINT, s: STRING>, m MAP<STRING, BIGINT>, ms MAP<STRING, STRING>, l ARRAY<BIGINT>, x BINARY, "
        "rs ARRAY<STRUCT<a: BIGINT, s: STRING>>, y TINYINT, h SMALLINT, n INT, f FLOAT"
    )
    line_by_line(spark, nested, tmp_path / "f", NESTED, columns)


def test_lines_without_a_row_and_with_several(spark, tmp_path):
    (tmp_path / "a.json").write_bytes(b'\n  \n[{"i":1},{"i":2}]\n[]\r\n{"i":3}')
    found = ours(SCALARS, tmp_path)
    assert shown(found) == shown(sparks(spark, "json", tmp_path, "i BIGINT, s STRING, d DOUBLE, b BOOLEAN"))
    assert [row[0] for row in found] == [1, 2, 3]


def test_arrays_in_csv(spark, tmp_path):
    schema = CsvSchema.builder().add_array_column("l").add_array_column("n", ",", Types.INT()).build()
    wanted = [
        [(["a", "b"], [1]), (None, [1, 2]), (["x"], [1])],
        "fails",
        "fails",
        [(None, None)],
    ]
    for number, data in enumerate([b'a;b,1\n,"1,2"\nx," 1"', b'a;;b;,"1,2,"', b'x,"1,z"', b'"",""\n']):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "a.csv").write_bytes(data)
        found = outcome(lambda folder=folder: [tuple(row) for row in ours(CsvReaderFormat(schema), folder)])
        assert found == (wanted[number] if wanted[number] == "fails" else shown(wanted[number])), data


def test_the_types_of_elements_are_those_that_spark_finds(spark):
    declared = Types.ROW_NAMED(
        ["a", "b", "c", "d", "e"],
        [
            Types.OBJECT_ARRAY(Types.ROW_NAMED(["q"], [Types.FLOAT()])),
            Types.MAP(Types.STRING(), Types.BASIC_ARRAY(Types.INT())),
            Types.PRIMITIVE_ARRAY(Types.BYTE()),
            Types.SQL_TIMESTAMP(),
            Types.PRIMITIVE_ARRAY(Types.LONG()),
        ],
    )
    columns = "a ARRAY<STRUCT<q: FLOAT>>, b MAP<STRING, ARRAY<INT>>, c BINARY, d TIMESTAMP, e ARRAY<BIGINT>"
    theirs = type_info_of(spark.createDataFrame([], columns).schema, "test")
    for file_format in (JsonLinesFormat(declared), ParquetColumnarRowInputFormat(declared)):
        assert file_format.in_slots(spark, []).element_type == theirs


def parquet_table():
    return pa.table(
        {
            "i": pa.array([1, None, 3], pa.int32()),
            "S": pa.array(["a", None, "ä€😀"]),
            "d": pa.array([1.5, math.inf, None], pa.float32()),
            "t": pa.array([1577934245000006, None, -2208988800000000], pa.timestamp("us", "UTC")),
            "day": pa.array([date(2020, 1, 2), None, date(1, 1, 1)]),
            "l": pa.array([[1, None], None, []], pa.list_(pa.int64())),
            "r": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}]),
            "m": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
            "x": pa.array([b"\xff", None, b""]),
            "m$": pa.array([Decimal("1.50"), None, Decimal("-0.01")], pa.decimal128(10, 2)),
        }
    )


def test_parquet_with_the_columns_of_the_files(spark, tmp_path):
    pq.write_table(parquet_table(), tmp_path / "a.parquet", row_group_size=2)
    parquet = ParquetColumnarRowInputFormat()
    found = ours(parquet, tmp_path, spark=spark)
    assert shown(found) == shown(sparks(spark, "parquet", tmp_path))
    assert len(found) == 3


@pytest.mark.parametrize(
    ("names", "types", "columns"),
    [
        (["s", "i", "gone"], [Types.STRING(), Types.INT(), Types.LONG()], "s STRING, i INT, gone BIGINT"),
        (["t"], [Types.SQL_TIMESTAMP()], "t TIMESTAMP"),
        (["i"], [Types.LONG()], "i BIGINT"),
        (["i"], [Types.DOUBLE()], "i DOUBLE"),
        (["d"], [Types.DOUBLE()], "d DOUBLE"),
        (["r"], [Types.ROW_NAMED(["b", "c"], [Types.STRING(), Types.INT()])], "r STRUCT<b: STRING, c: INT>"),
        (["l"], [Types.LIST(Types.LONG())], "l ARRAY<BIGINT>"),
        (["l"], [Types.LIST(Types.INT())], "l ARRAY<INT>"),
        (["i"], [Types.STRING()], "i STRING"),
        (["s"], [Types.INT()], "s INT"),
        (["x"], [Types.STRING()], "x STRING"),
    ],
)
def test_parquet_with_declared_columns(spark, tmp_path, names, types, columns):
    pq.write_table(parquet_table(), tmp_path / "a.parquet")
    parquet = ParquetColumnarRowInputFormat(Types.ROW_NAMED(names, types))
    assert outcome(lambda: ours(parquet, tmp_path)) == outcome(lambda: sparks(spark, "parquet", tmp_path, columns))


def test_what_is_no_parquet_fails(spark, tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no")
    parquet = ParquetColumnarRowInputFormat(Types.ROW_NAMED(["i"], [Types.INT()]))
    assert (
        outcome(lambda: ours(parquet, tmp_path)) == outcome(lambda: sparks(spark, "parquet", tmp_path, "i INT")) == "fails"
    )
