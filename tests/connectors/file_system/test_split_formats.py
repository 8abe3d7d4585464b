"""Formats of files in slots, without Spark; `test_files_as_spark_reads_them` asks whether they give what it gives."""

from __future__ import annotations

import datetime as dt
import io
import json
import time
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pystate.common import Row, Types
from pystate.common.errors import JobGraphError, RecordError
from pystate.connectors.file_system.file_listing import FoundFile
from pystate.connectors.file_system.file_reader import FileSourceReader
from pystate.connectors.file_system.file_splits import FileSourceSplit
from pystate.connectors.file_system.formats.csv_format import CsvFormat
from pystate.connectors.file_system.formats.csv_schema import CsvSchema
from pystate.connectors.file_system.formats.json_format import JsonFormat
from pystate.connectors.file_system.formats.parquet_format import ParquetFormat
from pystate.connectors.file_system.formats.parquet_writer import ParquetWriterFactory
from pystate.connectors.file_system.formats.split_format import TextLines
from pystate.datastream.formats.json import JsonLinesEncoder, JsonLinesFormat, JsonRowSerializationSchema

PAIR = Types.ROW_NAMED(["n", "s"], [Types.LONG(), Types.STRING()])


def parquet_of(rows):
    file = io.BytesIO()
    pq.write_table(pa.table({"n": [row[0] for row in rows], "s": [row[1] for row in rows]}), file, row_group_size=7)
    return file.getvalue()


def json_of(rows):
    return "".join(json.dumps({"s": s, "n": n}) + "\r\n" for n, s in rows).encode()


def csv_of(rows):
    return ("n,s\n" + "\n".join(f'{n},"{s}"' for n, s in rows)).encode()


FORMATS = {
    "csv": (CsvFormat(CsvSchema(PAIR, use_header=True), "UTC"), csv_of),
    "json": (JsonFormat(PAIR, "UTC"), json_of),
    "parquet": (ParquetFormat(PAIR), parquet_of),
}


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("most", [1, 5, 1000])
def test_rows_go_on_at_every_position(kind, most):
    split_format, content = FORMATS[kind]
    rows = [(number, f"s,{number}") for number in range(40)]
    data = content(rows)
    records = split_format.open(io.BytesIO(data), "f", 0)
    places, count = [], 0
    while (now := records.read(most)) is not None:
        assert now == [Row(n=n, s=s) for n, s in rows[count : count + len(now)]]
        count += len(now)
        places.append((records.position, count))
    assert count == 40
    for position, read in places:
        rest = split_format.open(io.BytesIO(data), "f", position)
        found = []
        while (now := rest.read(9)) is not None:
            found.extend(now)
        assert [row["n"] for row in found] == list(range(read, 40))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_that_has_become_shorter_is_not_taken_for_read(kind, tmp_path):
    split_format, content = FORMATS[kind]
    path = tmp_path / "f"
    path.write_bytes(content([(1, "a")]))
    reader = FileSourceReader(None, split_format, None)
    reader.add_splits([FileSourceSplit(FoundFile(f"file:{path}", 0), 500)])
    with pytest.raises(RecordError, match="f can't be read: it has become shorter than the 500"):
        reader.poll_next(SimpleNamespace(epoch=None))
    reader.close()


@pytest.mark.parametrize(
    ("split_format", "data", "problem"),
    [
        (TextLines(), b"a\n\xff\n", "no UTF-8"),
        (FORMATS["json"][0], b'{"n":1}\n{"n":1.5}', r"'1.5' is not an integer.*n"),
        (FORMATS["json"][0], b"{'n':1}", "no such row of JSON"),
        (FORMATS["json"][0], b"[1]", "holds no object"),
        (FORMATS["csv"][0], b"n,s\n1", "it has 1 fields, not 2"),
        (FORMATS["csv"][0], b"n,s\nx,y", "'x' is not an integer"),
        (FORMATS["parquet"][0], b"no", "can't be read as Parquet"),
        (ParquetFormat(Types.ROW_NAMED(["s"], [Types.INT()])), parquet_of([(1, "a")]), "column s of f is string"),
    ],
)
def test_what_is_no_such_file_fails_with_its_name_and_place(split_format, data, problem):
    with pytest.raises(RecordError, match=problem) as caught:
        records = split_format.open(io.BytesIO(data), "f", 0)
        while records.read(1) is not None:
            pass
    assert "f " in caught.value.message


def test_objects_in_a_column_of_texts_are_read_as_they_are_written():
    part = Types.ROW_NAMED(["s", "l"], [Types.STRING(), Types.LIST(Types.STRING())])
    data = b'{"l":[{"a": 1}, [2 ,3], "x", 4.50, null],"s":{"b":"}"}}'
    assert JsonFormat(part, "UTC").open(io.BytesIO(data), "f", 0).read(9) == [
        Row(s='{"b":"}"}', l=['{"a": 1}', "[2 ,3]", "x", "4.50", None])
    ]


@pytest.fixture
def in_zone(monkeypatch):
    """Return what sets the zone of this machine."""

    def set_zone(zone):
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()


def parquet_written(row_type, *rows):
    file = io.BytesIO()
    writer = ParquetWriterFactory(row_type).create(file)
    for row in rows:
        writer.add_element(row)
    writer.flush()
    writer.finish()
    return file.getvalue()


AT = dt.datetime(2026, 6, 1, 12)  # noqa: DTZ001 - as SQL_TIMESTAMP has them
TIMES = [
    AT,
    AT.replace(year=1900),
    AT.replace(month=3, day=29, hour=2, minute=30),  # is left out by the clocks of Berlin
    AT.replace(month=10, day=25, hour=2, minute=30),  # comes twice there
    AT.replace(month=3, day=8, hour=2, minute=30),  # is left out by those of New York
    AT.replace(year=1582, month=10, day=10),
    dt.datetime.min,  # noqa: DTZ901
    dt.datetime.max,  # noqa: DTZ901
    None,
]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"])
def test_timestamps_in_parquet_are_the_same_in_each_zone(in_zone, zone):
    in_zone("UTC")
    row_type = Types.ROW_NAMED(["t", "l"], [Types.SQL_TIMESTAMP(), Types.LIST(Types.SQL_TIMESTAMP())])
    rows = [Row(t=at, l=[at]) for at in TIMES]
    expected = parquet_written(row_type, *rows)
    in_zone(zone)
    assert parquet_written(row_type, *rows) == expected
    assert ParquetFormat(row_type).open(io.BytesIO(expected), "f", 0).read(99) == rows
    column = pq.read_table(io.BytesIO(expected)).column("t")
    assert column.type == pa.timestamp("us", "UTC")
    assert column.to_pylist()[0] == AT.replace(tzinfo=dt.timezone.utc)


def test_timestamps_in_parquet_are_what_the_type_takes():
    row_type = Types.ROW_NAMED(["t"], [Types.SQL_TIMESTAMP()])
    aware = AT.replace(tzinfo=dt.timezone(dt.timedelta(hours=5)))
    data = parquet_written(row_type, Row(t=aware))
    assert ParquetFormat(row_type).open(io.BytesIO(data), "f", 0).read(9) == [Row(t=AT.replace(hour=7))]
    for wrong in (5, AT.date(), aware.replace(year=1, month=1, day=1, hour=0)):
        with pytest.raises(RecordError, match="is not of type SQL_TIMESTAMP: it is a datetime"):
            parquet_written(row_type, Row(t=wrong))


KEYS = [
    (Types.STRING(), {"": 1, "ä": None}),
    (Types.BYTE(), {-128: 1}),
    (Types.LONG(), {-(2**63): 1, 0: None}),
    (Types.DOUBLE(), {0.5: 1, float("inf"): 2, float("-inf"): 3, 1e300: 4}),
    (Types.BOOLEAN(), {True: 1, False: 2}),
    (Types.SQL_DATE(), {AT.date(): 1}),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), {b"\xff\0": 1}),
]


@pytest.mark.parametrize("text", [Types.LONG(), Types.STRING()])
@pytest.mark.parametrize(("key", "value"), KEYS)
def test_keys_of_maps_in_json_are_read_as_they_are_written(key, value, text):
    """With a text that is an object, the line is read as it is written."""
    row_type = Types.ROW_NAMED(["m", "s"], [Types.MAP(key, Types.LONG()), text])
    row = Row(m=value, s="x" if text == Types.STRING() else 5)
    line = JsonLinesEncoder().encode(row)
    assert line == JsonRowSerializationSchema.builder().with_type_info(row_type).build().serialize(row) + b"\n"
    line = line.replace(b'"x"', b"{}")
    (found,) = JsonLinesFormat(row_type).in_slots(None, []).open(io.BytesIO(line), "f", 0).read(9)
    assert found["m"] == value


def test_keys_of_maps_in_json_that_have_no_text():
    with pytest.raises(JobGraphError, match="A key of a map in a JSON file is a text, which is not read as LIST<LONG>"):
        JsonLinesFormat(Types.ROW_NAMED(["m"], [Types.MAP(Types.LIST(Types.LONG()), Types.LONG())]))
    with pytest.raises(RecordError, match="None is no key"):
        JsonLinesEncoder().encode({None: 1})
    broken = JsonFormat(Types.ROW_NAMED(["m"], [Types.MAP(Types.LONG(), Types.LONG())]), "UTC")
    with pytest.raises(RecordError, match="'x' is not an integer"):
        broken.open(io.BytesIO(b'{"m":{"x":1}}'), "f", 0).read(9)


def test_numbers_that_json_does_not_have_are_read_as_they_are_written():
    numbers = [float("nan"), float("inf"), float("-inf"), -0.0, None]
    row_type = Types.ROW_NAMED(["l", "x"], [Types.LIST(Types.DOUBLE()), Types.DOUBLE()])
    row = Row(l=numbers, x=float("nan"))
    line = JsonLinesEncoder().encode(row)
    assert line == JsonRowSerializationSchema.builder().with_type_info(row_type).build().serialize(row) + b"\n"
    (found,) = JsonLinesFormat(row_type).in_slots(None, []).open(io.BytesIO(line), "f", 0).read(9)
    assert repr(found) == repr(row)
