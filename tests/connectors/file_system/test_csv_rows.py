"""CSV is RFC 4180: what is written is read again, rows may have several lines, and what is none is refused."""

from __future__ import annotations

import csv
import io
import random

import pytest

from pystate.common import Types
from pystate.common.errors import JobGraphError, RecordError
from pystate.common.row import Row
from pystate.connectors.file_system.formats.csv_format import CsvFormat
from pystate.connectors.file_system.formats.csv_schema import CsvSchema
from pystate.connectors.file_system.formats.csv_writer import CsvWriterFactory
from pystate.connectors.file_system.formats.file_content import TextEncoding
from pystate.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema

ONE = Types.ROW_NAMED(["a"], [Types.STRING()])
TWO = Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.STRING()])
MIXED = Types.ROW_NAMED(["i", "s", "d", "b"], [Types.INT(), Types.STRING(), Types.DOUBLE(), Types.BOOLEAN()])


def read(data, row_type=TWO, most=500, position=0, **options):
    data = data if isinstance(data, bytes) else data.encode()
    records = CsvFormat(CsvSchema(row_type, **options), "UTC").open(io.BytesIO(data), "f.csv", position)
    rows, places = [], []
    while (now := records.read(most)) is not None:
        rows += [tuple(row) for row in now]
        places.append((records.position, len(rows)))
    records.close()
    return rows if position or most == 500 else (rows, places)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('ann,"Dear Bob,\nsee you, Ann"\nbob,ok\n', [("ann", "Dear Bob,\nsee you, Ann"), ("bob", "ok")]),
        ('a,"b\r\nc\rd\n\ne"\r\nf,"g"', [("a", "b\r\nc\rd\n\ne"), ("f", "g")]),
        ('"a""b","""",\n'.replace(",\n", "\n"), [('a"b', '"')]),
        ('"a,b",c', [("a,b", "c")]),
        ("a,b\rc,d\r", [("a", "b"), ("c", "d")]),
        (" a , b \n", [(" a ", " b ")]),
        ('a "b",c d\n', [('a "b"', "c d")]),
        ("\ufeffa,b\n\n\r\n  \nc,d", [("a", "b"), ("c", "d")]),
        (",\n", [(None, None)]),
        ('"",a\n', [(None, "a")]),
        ('a,"\n#no comment\n\n"\n', [("a", "\n#no comment\n\n")]),
        ("a\u2028b,c\x85d\n", [("a\u2028b", "c\x85d")]),
        ('a,"x\0"\n', [("a", "x\0")]),
    ],
)
def test_rows_of_rfc_4180(text, rows):
    assert read(text) == rows
    for most in (1, 2):
        found, places = read(text, most=most)
        assert found == rows
        for position, count in places:
            assert read(text, most=most, position=position) == rows[count:]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('a,"b\nc,d\n', "a quote isn't closed up to the end of the file"),
        ('a,"b"c\n', "',' expected after '\"'"),
        ('a,"b" \n', "',' expected after '\"'"),
        ("a\n", "it has 1 fields, not 2"),
        ("a,b,c\n", "it has 3 fields, not 2"),
        (b"a,\xff\n", "can't decode byte 0xff"),
    ],
)
def test_what_is_no_row_is_refused_with_its_place(text, reason):
    with pytest.raises(RecordError) as caught:
        read(b"a,b\n" * 3 + (text if isinstance(text, bytes) else text.encode()), most=1)
    assert reason in caught.value.message
    assert "f.csv after byte 12" in caught.value.message


def test_a_quote_that_nobody_closes_ends_before_the_memory_does(monkeypatch):
    from pystate.connectors.file_system.formats import csv_format

    before = csv.field_size_limit(1_000)
    monkeypatch.setattr(csv_format, "_LONGEST_FIELD", 1_000)
    try:
        with pytest.raises(RecordError, match="field larger|isn't closed within"):
            read('a,"b\n' + "c,d\n" * 1_000)
    finally:
        csv.field_size_limit(before)


@pytest.mark.parametrize(
    "options", [{}, {"escape_char": "\\"}, {"quote_char": "'", "column_separator": ";"}, {"column_separator": "\t"}]
)
def test_rows_that_are_read_in_lines_are_those_of_the_whole_text(options):
    chosen = random.Random(7)
    quote, separator = options.get("quote_char", '"'), options.get("column_separator", ",")
    alphabet = f"a{quote}{quote}{separator}\n\r \\"
    told = {"quotechar": quote, "delimiter": separator, "escapechar": options.get("escape_char"), "strict": True}
    rows, refused = 0, 0
    for _ in range(3_000):
        text = "".join(chosen.choice(alphabet) for _ in range(chosen.randint(1, 12)))
        try:
            wanted = [row for row in csv.reader(io.StringIO(text, newline=""), **told) if row]
            if any(len(row) == 1 and not row[0].strip() for row in wanted):
                continue  # it doesn't tell a line of spaces from one of quotes
            odd = any(len(row) != 2 for row in wanted)
        except csv.Error:
            odd = True
        try:
            found = read(text, **options)
        except RecordError:
            assert odd, text
            refused += 1
            continue
        assert not odd, text
        assert found == [tuple(field or None for field in row) for row in wanted], text
        rows += bool(found)
    assert rows > 50 < refused


FIELDS = ["", "a", " ", "\t", ",", '"', "'", "\\", "\n", "\r", "\r\n", "#", "# x", ";", "ä", '\\"', 'a"b,c\nd', "#,", "\\n"]
MARKED = ["\ufeff", "\ufeffa", "a\ufeff", "\ufeff,", "\ufeff#"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"line_separator": "\r\n"},
        {"line_separator": ";\n"},
        {"escape_char": "\\"},
        {"escape_char": '"'},
        {"allow_comments": True},
        {"column_separator": "\t"},
        {"column_separator": ";", "quote_char": "'"},
        {"use_header": True, "strict_headers": True},
        {"null_value": "-"},
    ],
)
@pytest.mark.parametrize("row_type", [ONE, TWO])
def test_what_is_written_is_read_again(options, row_type):
    if options.get("line_separator") == ";\n" and row_type is ONE:
        options = {"line_separator": "\n\n"}
    rows = [(one,) for one in FIELDS] if row_type is ONE else [(one, other) for one in FIELDS for other in FIELDS]
    rows = [row for row in rows if ";" not in options.get("line_separator", "") or not any(";" in field for field in row)]
    schema, stream = CsvSchema(row_type, **options), io.BytesIO()
    writer = CsvWriterFactory(schema).create(stream)
    for row in rows:
        writer.add_element(row)
    writer.finish()
    data = stream.getvalue().replace(b";\n", b"\n") if options.get("line_separator") == ";\n" else stream.getvalue()
    null = options.get("null_value", "")
    assert read(data, row_type, **options) == [tuple(None if field == null else field for field in row) for row in rows]


@pytest.mark.parametrize("field", MARKED)
@pytest.mark.parametrize("options", [{}, {"quote_char": "'"}, {"escape_char": "\\"}, {"use_header": True}])
def test_a_byte_order_mark_at_the_begin_of_a_file_is_read_again(field, options):
    stream = io.BytesIO()
    writer = CsvWriterFactory(CsvSchema(TWO, **options)).create(stream)
    writer.add_element((field, field))
    writer.finish()
    assert read(stream.getvalue(), **options) == [(field, field)]


def test_a_byte_order_mark_in_a_message_is_read_again():
    for field in MARKED:
        written = CsvRowSerializationSchema.Builder(TWO).build().serialize(Row(a=field, b="x"))
        assert CsvRowDeserializationSchema.Builder(TWO).build().deserialize(written) == Row(a=field, b="x")


def test_a_byte_order_mark_that_nothing_can_stand_around_is_refused():
    writer = CsvWriterFactory(CsvSchema(TWO, quote_char=None)).create(io.BytesIO())
    writer.add_element(("a", "\ufeff"))
    with pytest.raises(RecordError, match="without its byte order mark"):
        writer.add_element(("\ufeff", "a"))


def test_characters_that_stand_for_two_things_are_refused():
    with pytest.raises(JobGraphError, match="quote character of CSV is the column separator, too: '|'"):
        CsvSchema.builder().add_string_column("a").set_column_separator("|").set_quote_char("|").build()
    with pytest.raises(JobGraphError, match="escape character of CSV is the column separator"):
        CsvSchema.builder().add_string_column("a").set_escape_char(",").build()
    with pytest.raises(JobGraphError, match="ends a line of CSV"):
        CsvSchema.builder().add_string_column("a").set_column_separator("\r").build()
    for schema in (CsvRowSerializationSchema, CsvRowDeserializationSchema):
        with pytest.raises(JobGraphError, match="quote character of CSV is the column separator"):
            schema.Builder(TWO).set_quote_character(",").build()
    CsvSchema.builder().add_string_column("a").set_column_separator('"').set_quote_char("'").build()


@pytest.mark.parametrize("field", ["\n", "a\rb"])
@pytest.mark.parametrize("escape", [None, "\\"])
def test_a_line_end_that_nothing_can_stand_around_is_refused(field, escape):
    writer = CsvWriterFactory(CsvSchema(TWO, quote_char=None, escape_char=escape)).create(io.BytesIO())
    with pytest.raises(RecordError, match="can't stand in a CSV file"):
        writer.add_element(("a", field))


@pytest.mark.parametrize("end", ["\n", "", "\r\n"])
@pytest.mark.parametrize("field", [one for one in FIELDS if one])
def test_a_message_is_read_again_whatever_ends_it(end, field):
    written = CsvRowSerializationSchema.Builder(TWO).set_line_delimiter(end).build().serialize(Row(a="x", b=field))
    assert CsvRowDeserializationSchema.Builder(TWO).build().deserialize(written) == Row(a="x", b=field)


def test_values_headers_and_comments():
    data = "#x\ni,s,d,b\n1,a,1.5,true\n#y\n\n,,,\n"
    assert read(data, MIXED, use_header=True, strict_headers=True, allow_comments=True) == [
        (1, "a", 1.5, True),
        (None, None, None, None),
    ]
    with pytest.raises(RecordError, match=r"The header of f.csv is \['i', 's'"):
        read("i,s,b,d\n", MIXED, use_header=True, strict_headers=True)
    with pytest.raises(RecordError, match=r"'x' is not an integer: b\"\['x', 'a', '1', 'true'\]\""):
        read("1,a,1,true\nx,a,1,true\n2,b,1,true\n", MIXED)


def test_rows_of_another_charset():
    data = 'a,"ä\n本"\r\nb,c'.encode("UTF-16")
    records = CsvFormat(CsvSchema(TWO), "UTC", TextEncoding("UTF-16")).open(io.BytesIO(data), "f", 0)
    assert [tuple(row) for _ in range(2) for row in records.read(9)] == [("a", "ä\n本"), ("b", "c")]


def test_a_quote_that_is_its_own_escape_is_a_doubled_one():
    """As Spark's users have it: `.option("escape", '"')`."""
    assert read('"say ""hi"", Bob",z\n"x,y",z\n', escape_char='"') == [('say "hi", Bob', "z"), ("x,y", "z")]
