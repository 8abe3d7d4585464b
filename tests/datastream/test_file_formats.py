"""What the formats of files ask of Spark, and what they refuse."""

from __future__ import annotations

import pytest

from pystate.common.errors import JobGraphError
from pystate.common.type_info import Types
from pystate.datastream.connectors.file_system import FileSource
from pystate.datastream.formats.csv import CsvReaderFormat, CsvSchema
from pystate.datastream.formats.json import JsonLinesFormat


class Reader:
    """Notes what a format asks of Spark."""

    def __init__(self):
        self.options = {}

    readStream = property(lambda self: self)  # noqa: N815 - Spark's name

    def format(self, name):
        self.name = name
        return self

    def schema(self, columns):
        self.columns = columns
        return self

    def option(self, name, value):
        self.options[name] = value
        return self

    def load(self, path):
        self.path = path
        return self


def asked(file_format):
    reader = Reader()
    source = FileSource.for_record_stream_format(file_format, "/in/*").build()
    source.to_frame(reader)
    assert not source.single_column
    return reader


def test_a_csv_schema_becomes_columns_and_options_of_spark():
    plain = CsvSchema.builder().add_number_column("id").add_string_column("a b").add_boolean_column("on").build()
    reader = asked(CsvReaderFormat.for_schema(plain))
    assert (reader.name, reader.columns, reader.path) == ("csv", "`id` BIGINT, `a b` STRING, `on` BOOLEAN", "/in/*")
    assert reader.options == {
        "mode": "FAILFAST",
        "sep": ",",
        "quote": '"',
        "escape": '"',  # a quote in a field is doubled
        "nullValue": "",
        "header": False,
        "enforceSchema": True,
        "comment": "",
    }
    builder = CsvSchema.builder().add_columns_from(plain).set_column_separator("|").set_quote_char("'")
    builder.set_escape_char("\\").set_null_value("-").set_use_header().set_strict_headers().set_allow_comments()
    options = asked(CsvReaderFormat.for_schema(builder.build())).options
    assert (options["sep"], options["quote"], options["escape"], options["nullValue"]) == ("|", "'", "\\", "-")
    assert (options["header"], options["enforceSchema"], options["comment"]) == (True, False, "#")
    assert len(builder) == len(builder.build()) == 3
    assert builder.clear_columns().size() == 0


def test_json_lines_have_declared_columns():
    row_type = Types.ROW_NAMED(["id", "tags"], [Types.INT(), Types.LIST(Types.STRING())])
    reader = asked(JsonLinesFormat.for_row_type(row_type))
    assert (reader.name, reader.columns, reader.options) == (
        "json",
        "`id` INT, `tags` ARRAY<STRING>",
        {"mode": "FAILFAST"},
    )
    with pytest.raises(JobGraphError, match="A JSON file is not read as BIG_INT"):
        JsonLinesFormat.for_row_type(Types.ROW_NAMED(["id"], [Types.BIG_INT()]))


@pytest.mark.parametrize("call", ["set_column_separator", "set_quote_char", "set_escape_char"])
def test_a_separator_is_one_character(call):
    with pytest.raises(ValueError, match="must be a single char"):
        getattr(CsvSchema.builder(), call)("ab")
