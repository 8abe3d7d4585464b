"""Avro: messages as rows and as dicts, container files, and files that Java's writer has written."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import pickle
from decimal import Decimal
from pathlib import Path

import fastavro
import pytest

from pystate.common import Row, Types
from pystate.common.errors import JobGraphError, RecordError
from pystate.common.time import Instant
from pystate.connectors.file_system.formats.avro_format import AvroFormat
from pystate.connectors.file_system.formats.avro_writer import CODECS
from pystate.datastream.formats.avro import (
    AvroBulkFormat,
    AvroBulkWriters,
    AvroDeserializationSchema,
    AvroInputFormat,
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
    AvroSerializationSchema,
    GenericRecordAvroTypeInfo,
)
from pystate.datastream.formats.parquet import AvroParquetReaders, AvroParquetWriters

JAVA = Path(__file__).parents[2] / "fixtures" / "avro"
"""Files of orders: by `avro-tools-1.12.0.jar fromjson --schema-file order.avsc --codec CODEC`. `blocks.txt`: data by
`EncoderFactory().configureBlockSize(64).blockingBinaryEncoder(...)` of avro-1.12.1.jar, in base64."""


def moment(*parts):
    return dt.datetime(*parts)  # noqa: DTZ001 - of our timestamps, which have no zone


def logical(kind, name, **more):
    return {"type": kind, "logicalType": name, **more}


BY_DAY = Types.MAP(Types.STRING(), Types.SQL_DATE())
PARTS = {
    "id": ("long", Types.LONG(), 7),
    "number": ("int", Types.INT(), -3),
    "ratio": ("double", Types.DOUBLE(), 0.25),
    "small": ("float", Types.FLOAT(), 0.5),
    "open": ("boolean", Types.BOOLEAN(), True),
    "text": (["null", "string"], Types.STRING(), None),
    "alone": (["string"], Types.STRING(), "ä"),
    "data": ("bytes", Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff"),
    "fixed": ({"type": "fixed", "name": "F", "size": 3}, Types.PRIMITIVE_ARRAY(Types.BYTE()), b"abc"),
    "state": ({"type": "enum", "name": "E", "symbols": ["NEW", "PAID"]}, Types.STRING(), "PAID"),
    "again": (["E", "null"], Types.STRING(), "NEW"),
    "day": (logical("int", "date"), Types.SQL_DATE(), dt.date(2026, 1, 31)),
    "clock": (logical("int", "time-millis"), Types.SQL_TIME(), dt.time(23, 59, 58, 123000)),
    "fine": (logical("long", "time-micros"), Types.SQL_TIME(), dt.time(23, 59, 58, 123456)),
    "at": (logical("long", "timestamp-millis"), Types.SQL_TIMESTAMP(), moment(1969, 12, 31, 1, 2, 3, 4000)),
    "at_micros": (logical("long", "timestamp-micros"), Types.SQL_TIMESTAMP(), moment(2026, 1, 2, 3, 4, 5, 6)),
    "at_nanos": (logical("long", "timestamp-nanos"), Types.INSTANT(), Instant(1_700_000_000, 7)),
    "local": (logical("long", "local-timestamp-millis"), Types.SQL_TIMESTAMP(), moment(2026, 7, 1)),
    "local_micros": (logical("long", "local-timestamp-micros"), Types.SQL_TIMESTAMP(), moment(2026, 7, 1, 0, 0, 0, 9)),
    "price": (logical("bytes", "decimal", precision=9, scale=2), Types.BIG_DEC(), Decimal("-1234.50")),
    "token": (logical("string", "uuid"), Types.STRING(), "12345678-1234-5678-1234-567812345678"),
    "numbers": ({"type": "array", "items": ["null", "long"]}, Types.OBJECT_ARRAY(Types.LONG()), [1, None, 3]),
    "days": (
        {"type": "map", "values": logical("int", "date")},
        Types.MAP(Types.STRING(), Types.SQL_DATE()),
        {"a": dt.date(2026, 1, 1)},
    ),
    "inner": (
        ["null", {"type": "record", "name": "In", "fields": [{"name": "a", "type": "int"}]}],
        Types.ROW_NAMED(["a"], [Types.INT()]),
        Row(a=3),
    ),
    "inners": ({"type": "array", "items": "In"}, Types.OBJECT_ARRAY(Types.ROW_NAMED(["a"], [Types.INT()])), [Row(a=1)]),
    "any": (["int", "string"], Types.PICKLED_BYTE_ARRAY(), "x"),
}
SCHEMA = json.dumps(
    {"type": "record", "name": "All", "namespace": "n", "fields": [{"name": k, "type": v[0]} for k, v in PARTS.items()]}
)
ROW = Row(**{name: value for name, (_, _, value) in PARTS.items()})


def schema(*fields, name="R"):
    return json.dumps({"type": "record", "name": name, "fields": list(fields)})


def test_each_type_of_avro_has_a_type_here_and_comes_back():
    reads, writes = AvroRowDeserializationSchema(avro_schema_string=SCHEMA), AvroRowSerializationSchema(None, SCHEMA)

    assert reads.produced_type == Types.ROW_NAMED(list(PARTS), [kind for _, kind, _ in PARTS.values()])
    assert reads.deserialize(writes.serialize(ROW)) == ROW
    reads, writes = pickle.loads(pickle.dumps(reads)), pickle.loads(pickle.dumps(writes))
    assert reads.deserialize(writes.serialize(ROW)) == ROW


def test_another_library_reads_the_bytes():
    data = AvroRowSerializationSchema(avro_schema_string=SCHEMA).serialize(ROW)
    datum = fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(json.loads(SCHEMA)))

    assert datum["at"] == moment(1969, 12, 31, 1, 2, 3, 4000).replace(tzinfo=dt.timezone.utc)
    assert datum["at_nanos"] == 1_700_000_000_000_000_007
    assert (datum["price"], datum["inner"]) == (Decimal("-1234.50"), {"a": 3})


def test_the_readers_schema_takes_what_an_older_writer_wrote():
    old = schema({"name": "a", "type": "int"}, {"name": "gone", "type": "string"}, {"name": "was", "type": "int"})
    new = schema(
        {"name": "more", "type": "string", "default": "d"},
        {"name": "a", "type": "long"},
        {"name": "is", "aliases": ["was"], "type": ["null", "int"]},
    )
    data = AvroRowSerializationSchema(avro_schema_string=old).serialize(Row(a=1, gone="x", was=2))

    read = AvroRowDeserializationSchema(avro_schema_string=new, writer_schema_string=old).deserialize(data)

    assert read == Row(**{"more": "d", "a": 1, "is": 2})
    assert read.get_field_names() == ["more", "a", "is"]
    generic = AvroDeserializationSchema.for_generic(AvroSchema.parse_string(new), old)
    assert generic.deserialize(data) == {"more": "d", "a": 1, "is": 2}


@pytest.mark.parametrize("cut", [slice(0, -1), slice(0, 0)])
def test_bytes_that_are_no_datum_are_refused(cut):
    data = AvroRowSerializationSchema(avro_schema_string=SCHEMA).serialize(ROW)

    with pytest.raises(RecordError, match=r"no Avro of ROW<id LONG") as refused:
        AvroRowDeserializationSchema(avro_schema_string=SCHEMA).deserialize(data[cut])
    assert "set_bad_records" in refused.value.hint


def test_bytes_that_are_left_are_refused_for_another_schema_has_written_them():
    data = AvroRowSerializationSchema(avro_schema_string=SCHEMA).serialize(ROW)

    with pytest.raises(RecordError, match="3 bytes are left"):
        AvroRowDeserializationSchema(avro_schema_string=SCHEMA).deserialize(data + b"abc")


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("id", "7", "'7'"),
        ("id", None, "None"),
        ("number", 2**31, "INT goes from"),
        ("state", "LOST", "symbols of the schema are NEW, PAID"),
        ("fixed", b"ab", "3 bytes, it has 2"),
        ("price", Decimal("1.234"), "Scale"),
        ("token", "no", "badly formed"),
        ("inner", Row(b=1), "field 'inner'"),
        ("text", 5, "STRING"),
    ],
)
def test_values_of_other_types_are_refused(name, value, why):
    row = Row(**{**ROW.as_dict(), name: value})

    with pytest.raises(RecordError, match=why):
        AvroRowSerializationSchema(avro_schema_string=SCHEMA).serialize(row)


def test_a_generic_record_is_a_dict():
    text = schema({"name": "a", "type": ["null", "int"], "default": None})
    data = AvroSerializationSchema.for_generic(text).serialize({"a": 5})
    reads = AvroDeserializationSchema.for_generic(text)

    assert reads.deserialize(data) == {"a": 5}
    assert reads.produced_type == Types.PICKLED_BYTE_ARRAY()
    made = pickle.loads(pickle.dumps(GenericRecordAvroTypeInfo(text)))
    assert (made.schema, made) == (AvroSchema(text), GenericRecordAvroTypeInfo(text))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: AvroSchema.parse_string("{"), "no JSON"),
        (lambda: AvroSchema.parse_string('{"type": "recrd"}'), "wrong"),
        (lambda: AvroSchema.parse_string({"type": "int"}), "a text of JSON"),
        (lambda: AvroSchema.parse_file("/nowhere/it.avsc"), "can't be read"),
        (lambda: AvroRowDeserializationSchema(avro_schema_string='"int"'), "A row is a record"),
        (lambda: AvroRowDeserializationSchema("org.Order"), "no meaning"),
        (lambda: AvroRowSerializationSchema(), "needs a schema"),
        (lambda: AvroRowDeserializationSchema(avro_schema_string=RING), "contains itself"),
        (lambda: AvroBulkWriters.for_generic_record(SCHEMA, "zip"), "no codec"),
    ],
)
def test_what_is_no_schema_is_refused_where_the_program_says_it(make, why):
    with pytest.raises(JobGraphError, match=why) as refused:
        make()
    assert refused.value.hint or refused.value.where


RING = schema({"name": "next", "type": ["null", "R"]})


def test_a_record_that_contains_itself_is_read_as_dicts():
    data = AvroSerializationSchema.for_generic(RING).serialize({"next": {"next": None}})

    assert AvroDeserializationSchema.for_generic(RING).deserialize(data) == {"next": {"next": None}}


# -- files

PAIR = schema({"name": "n", "type": "long"}, {"name": "s", "type": "string"})


def number(value):
    """Return a number as Avro writes it."""
    value, out = (value << 1) ^ (value >> 63), b""
    while value > 0x7F:
        value, out = value >> 7, out + bytes([value & 0x7F | 0x80])
    return out + bytes([value])


def numbers(*values):
    return b"".join(map(number, values))


def test_blocks_with_their_sizes_are_read_as_java_writes_them():
    reads = AvroRowDeserializationSchema(avro_schema_string=(JAVA / "blocks.avsc").read_text())
    rows = [reads.deserialize(base64.b64decode(line)) for line in (JAVA / "blocks.txt").read_text().split()]

    assert [row.id for row in rows] == [0, 3, 200]
    for row in rows:
        assert row.numbers == [at * at for at in range(row.id)]
        assert row.by_name == {f"k{at}": f"v{at}" if at % 3 else None for at in range(row.id)}
        states = [(f"p{at}" if at % 2 else None, "PAID" if at % 2 else "NEW", at % 2 == 0) for at in range(row.id)]
        assert [(part.name, part.state, part.open) for part in row.parts] == states


UNION, LONGS, ENUM = (
    ["null", "long"],
    {"type": "array", "items": "long"},
    {"type": "enum", "name": "E", "symbols": ["A", "B"]},
)
DAMAGED = {
    "a union of 2 types has none with the index -1": (UNION, numbers(-1, 7)),
    "a union of 2 types has none with the index 5": (UNION, numbers(5, 7)),
    "a union of 2 types has none with the index 64": (UNION, numbers(64, 7)),
    "an enum of 2 symbols has none with the index -2": (ENUM, numbers(-2)),
    "an enum of 2 symbols has none with the index 2": (ENUM, numbers(2)),
    "a boolean is 0 or 1, not 7": ("boolean", b"\x07"),
    "a block of array says that its 2 items have 3 bytes, and they have 2": (LONGS, numbers(-2, 3, 1, 2, 0)),
    "a block of array says that its 2 items have -2 bytes, and they have 2": (LONGS, numbers(-2, -2, 1, 2, 0)),
    "a block of array has 9223372036854775808 items": (LONGS, numbers(-(1 << 63), 1, 0)),
    "a block of map says that its 1 items have 9 bytes": ({"type": "map", "values": UNION}, numbers(-1, 9, 0, 1, 7, 0)),
    "the length -3 of a text or of bytes is below 0": ({"type": "array", "items": "string"}, numbers(1, -3, 1, 0)),
}


@pytest.mark.parametrize("reason", DAMAGED)
def test_bytes_that_are_damaged_are_refused_with_the_reason(reason):
    kind, data = DAMAGED[reason]
    text = schema({"name": "n", "type": "long"}, {"name": "v", "type": kind})

    for reads in (AvroDeserializationSchema.for_generic(text), AvroRowDeserializationSchema(avro_schema_string=text)):
        with pytest.raises(RecordError, match=reason):
            reads.deserialize(number(1) + data)


@pytest.mark.parametrize("item", ["null", {"type": "fixed", "name": "F", "size": 0}, json.loads(schema(name="Empty"))])
def test_a_few_bytes_do_not_make_an_array_of_any_size(item):
    reads = AvroDeserializationSchema.for_generic(schema({"name": "v", "type": {"type": "array", "items": item}}))

    assert len(reads.deserialize(numbers(60_000, 5_000, 0))["v"]) == 65_000
    for data in (numbers(10**9, 0), numbers(60_000, 6_000, 0), numbers(-(10**9), 0, 0)):
        with pytest.raises(RecordError, match=r"\d+ items of an array have no bytes"):
            reads.deserialize(data)


def test_a_block_with_its_size_is_read():
    text = schema({"name": "v", "type": LONGS}, {"name": "m", "type": {"type": "map", "values": UNION}})
    data = numbers(-2, 2, 1, 2, 1, 3, 0, -1, 4) + number(1) + b"k" + numbers(1, 7, 0)

    assert AvroDeserializationSchema.for_generic(text).deserialize(data) == {"v": [1, 2, 3], "m": {"k": 7}}


def test_types_that_contain_themselves_are_checked():
    tree = {"name": "next", "type": ["null", "R"]}
    reads = AvroDeserializationSchema.for_generic(schema({"name": "n", "type": "long"}, tree))

    assert reads.deserialize(numbers(1, 1, 2, 0)) == {"n": 1, "next": {"n": 2, "next": None}}
    with pytest.raises(RecordError, match="the index -2"):
        reads.deserialize(numbers(1, 1, 2, -2))


def written(elements, text=PAIR, codec="null", block=5):
    file = io.BytesIO()
    writer = AvroBulkWriters.for_generic_record(text, codec).create(file)
    for number, element in enumerate(elements, 1):
        writer.add_element(element)
        if number % block == 0:
            writer.flush()
    writer.flush()
    writer.finish()
    return file.getvalue()


def read_all(records, most=1000):
    found = []
    while (some := records.read(most)) is not None:
        found += some
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_rows_are_read_back_whatever_compresses_them(codec):
    rows = [Row(n=number, s=f"s{number}") for number in range(12)]
    records = AvroFormat(AvroSchema(PAIR), as_rows=True).open(io.BytesIO(written(rows, codec=codec)), "f", 0)

    assert read_all(records) == rows


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_reading_goes_on_at_every_position(most):
    rows = [Row(n=number, s=f"s{number}") for number in range(23)]
    data = written(rows)

    for position in range(24):
        records = AvroFormat(AvroSchema(PAIR), as_rows=True).open(io.BytesIO(data), "f", position)
        assert read_all(records, most) == rows[position:]
        assert records.position == 23
    with pytest.raises(ValueError, match="shorter"):
        AvroFormat(AvroSchema(PAIR), as_rows=True).open(io.BytesIO(data), "f", 24)


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard"])
def test_files_of_javas_writer_are_read(codec):
    text = (JAVA / "order.avsc").read_text()
    file = (JAVA / f"order-{codec}.avro").open("rb")
    rows = read_all(AvroBulkFormat.for_rows(text).in_slots(None, ()).open(file, "f", 0))

    assert len(rows) == 50
    assert rows[11] == Row(
        id=11,
        customer="customer 11",
        at=moment(2023, 11, 14, 22, 13, 20, 134000),
        local=moment(2023, 11, 14, 22, 13, 20, 123467),
        day=dt.date(1970, 1, 1) + dt.timedelta(days=19711),
        clock=dt.time(1, 0, 0, 11000),
        price=Decimal("123.56"),
        state="PAID",
        digest=b"\x01\xff\x00\x0b",
        tags={"k": "v11"},
        items=[Row(sku="s0", count=0, weight=0.5), Row(sku="s1", count=1, weight=0.5)],
        ratio=2.75,
        open=False,
        token="12345678-1234-5678-1234-000000000011",
    )
    assert [row["customer"] for row in rows[:2]] == [None, "customer 1"]


def test_a_file_has_a_schema_of_its_own_and_the_program_another():
    data = written([Row(n=1, s="a")])
    wanted = schema({"name": "s", "type": "string"}, {"name": "d", "type": "int", "default": 4})

    rows = AvroFormat(AvroSchema(wanted), as_rows=True).open(io.BytesIO(data), "f", 0)
    assert read_all(rows) == [Row(s="a", d=4)]
    own = AvroBulkFormat.for_generic_record().in_slots(None, ()).open(io.BytesIO(data), "f", 0)
    assert read_all(own) == [{"n": 1, "s": "a"}]


def test_a_program_reads_dicts_by_pyflinks_name():
    source = AvroInputFormat("/data", AvroSchema(PAIR))

    assert source.bounded and source.single_column
    assert source.get_produced_type().schema == AvroSchema(PAIR)


@pytest.mark.parametrize("data", [b"no avro", written([Row(n=1, s="a")])[:-3]])
def test_a_file_that_is_damaged_is_named(data):
    with pytest.raises(RecordError, match="folder/f can't be read as Avro"):
        read_all(AvroFormat(AvroSchema(PAIR), as_rows=True).open(io.BytesIO(data), "folder/f", 0))


def test_the_rest_of_a_block_is_refused_and_the_next_one_read():
    rows = [Row(n=number, s=f"s{number}") for number in range(15)]
    data = written(rows).replace(b"s7", b"\xff7")
    records, refused = AvroFormat(AvroSchema(PAIR), as_rows=True).open(io.BytesIO(data), "f", 0), []

    with pytest.raises(RecordError, match="after record 5"):
        read_all(AvroFormat(AvroSchema(PAIR), as_rows=True).open(io.BytesIO(data), "f", 0))
    records.refuse = lambda *said: refused.append(said)
    assert read_all(records) == rows[:7] + rows[10:]
    assert [(value, position) for value, position, _ in refused] == [(None, 7)]
    assert "3 records are lost" in refused[0][2]


def test_an_index_that_a_union_does_not_have_is_refused_in_a_file_too():
    text = schema({"name": "s", "type": ["null", "string"]})
    rows = [Row(s=f"s{number}") for number in range(15)]
    data = written(rows, text).replace(b"\x02\x04s7", b"\x01\x04s7")  # -1 would be the last of the union
    records, refused = AvroFormat(AvroSchema(text), as_rows=True).open(io.BytesIO(data), "f", 0), []
    records.refuse = lambda *said: refused.append(said)

    assert read_all(records) == rows[:7] + rows[10:]
    assert (
        "3 records are lost, the rest of a block: ValueError: a union of 2 types has none with the index -1" in refused[0][2]
    )


def test_an_element_that_does_not_fit_is_refused_by_the_writer():
    with pytest.raises(RecordError, match="can't be written as Avro"):
        written([Row(n="x", s="a")])


def test_parquet_is_written_and_read_by_a_schema():
    parts = ["id", "text", "open", "day", "at_micros", "days", "inner"]
    text = schema(*({"name": name, "type": PARTS[name][0]} for name in parts))
    data = [
        fastavro.schemaless_reader(
            io.BytesIO(AvroRowSerializationSchema(avro_schema_string=text).serialize(Row(**{n: ROW[n] for n in parts}))),
            fastavro.parse_schema(json.loads(text)),
        )
    ] * 3
    file = io.BytesIO()
    writer = AvroParquetWriters.for_generic_record(text).create(file)
    for one in data:
        writer.add_element(one)
    with pytest.raises(RecordError, match="can't be written as Parquet"):
        writer.add_element({"id": 1})
    writer.flush()
    writer.finish()

    made = AvroParquetReaders.for_generic_record(text)
    records = made.in_slots(None, ()).open(io.BytesIO(file.getvalue()), "f", 1)
    assert read_all(records, 1) == data[1:]
    assert records.position == 3 and made.single_column and made.element_type == Types.PICKLED_BYTE_ARRAY()
    with pytest.raises(JobGraphError, match="not read as BIG_DEC"):
        AvroParquetReaders.for_generic_record(schema({"name": "d", "type": PARTS["price"][0]}))


DAY, MOMENT = logical("int", "date"), logical("long", "timestamp-millis")
INNER = {"type": "record", "name": "In", "fields": [{"name": "b", "type": "bytes", "default": "\u00ff"}]}
DEFAULTS = {
    "data": ("bytes", "\u00ff", b"\xff"),
    "fixed": ({"type": "fixed", "name": "F", "size": 1}, "\u00ff", b"\xff"),
    "price": (logical("bytes", "decimal", precision=4, scale=2), "\u00ff", Decimal("-0.01")),
    "day": (DAY, 5, dt.date(1970, 1, 6)),
    "clock": (logical("int", "time-millis"), 5, dt.time(0, 0, 0, 5000)),
    "at": (MOMENT, 1000, moment(1970, 1, 1, 0, 0, 1)),
    "at_micros": (logical("long", "timestamp-micros"), 7, moment(1970, 1, 1, 0, 0, 0, 7)),
    "maybe": ([MOMENT, "null"], 0, moment(1970, 1, 1)),
    "later": (["null", MOMENT], 0, moment(1970, 1, 1)),
    "nothing": (["null", DAY], None, None),
    "ratio": ("double", 5, 5.0),
    "state": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
    "inner": (INNER, {}, Row(b=b"\xff")),
    "inners": ({"type": "array", "items": "In"}, [{"b": "a"}, {}], [Row(b=b"a"), Row(b=b"\xff")]),
    "days": ({"type": "map", "values": DAY}, {"a": 0}, {"a": dt.date(1970, 1, 1)}),
    "numbers": ({"type": "array", "items": "int"}, [1], [1]),
    "names": ({"type": "map", "values": "string"}, {}, {}),
}
NARROW = schema({"name": "v", "type": "int"})
WIDE = schema({"name": "v", "type": "int"}, *({"name": k, "type": d[0], "default": d[1]} for k, d in DEFAULTS.items()))


def test_a_default_of_the_readers_schema_is_what_a_message_would_hold():
    row = AvroRowDeserializationSchema(None, WIDE, writer_schema_string=NARROW).deserialize(b"\x02")

    assert row == Row(v=1, **{name: value for name, (_, _, value) in DEFAULTS.items()})
    assert isinstance(row.ratio, float)
    records = AvroBulkFormat.for_rows(WIDE).in_slots(None, []).open(io.BytesIO(written([{"v": 1}], NARROW)), "f", 0)
    assert read_all(records) == [row]
    many = json.dumps({"type": "array", "items": json.loads(WIDE)})
    generic = AvroDeserializationSchema.for_generic(many, json.dumps({"type": "array", "items": json.loads(NARROW)}))
    assert generic.deserialize(b"\x02\x02\x00")[0]["day"] == dt.date(1970, 1, 6)


@pytest.mark.parametrize("as_rows", [True, False])
@pytest.mark.parametrize("in_a_file", [True, False])
def test_each_record_has_a_default_of_its_own(as_rows, in_a_file):
    if in_a_file:
        bulk = AvroBulkFormat.for_rows(WIDE) if as_rows else AvroBulkFormat.for_generic_record(WIDE)
        first, second = read_all(bulk.in_slots(None, []).open(io.BytesIO(written([{"v": 1}] * 2, NARROW)), "f", 0))
    else:
        rows = AvroRowDeserializationSchema(None, WIDE, writer_schema_string=NARROW)
        reads = rows if as_rows else AvroDeserializationSchema.for_generic(WIDE, NARROW)
        first, second = reads.deserialize(b"\x02"), reads.deserialize(b"\x02")

    first["numbers"].append(2)
    first["names"]["a"] = "b"
    first["inners"][0]["b"] = b"changed"
    assert (second["numbers"], second["names"], second["inners"][0]["b"]) == ([1], {}, b"a")


def test_a_default_of_another_type_is_refused():
    days = {"type": "array", "items": DAY}
    wrong = schema({"name": "v", "type": "int"}, {"name": "d", "type": days, "default": ["x"]})

    with pytest.raises(JobGraphError, match="The default of the field 'd' of 'R' is none of its type: 'x' is no int"):
        AvroRowDeserializationSchema(None, wrong, writer_schema_string=NARROW).deserialize(b"\x02")


@pytest.mark.parametrize("number", [1 << 31, -(1 << 31) - 1])
@pytest.mark.parametrize("kind", ["int", ["null", "int"], {"type": "array", "items": ["null", "int"]}])
def test_a_number_that_is_no_int_is_a_bad_record(kind, number):
    """Its bytes are those of a long, which fastavro takes."""
    as_long = json.loads(json.dumps(kind).replace('"int"', '"long"'))
    writes = AvroRowSerializationSchema(None, schema({"name": "v", "type": as_long}))
    reads = AvroRowDeserializationSchema(None, schema({"name": "v", "type": kind}))

    def row(value):
        return Row(v=[1, None, value] if isinstance(kind, dict) else value)

    end = (1 << 31) - 1 if number > 0 else -(1 << 31)
    assert reads.deserialize(writes.serialize(row(end))) == row(end)
    with pytest.raises(RecordError, match=f"{number} is no INT"):
        reads.deserialize(writes.serialize(row(number)))
