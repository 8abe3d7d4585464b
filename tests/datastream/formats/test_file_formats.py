"""What the formats of files give, and what they refuse."""

from __future__ import annotations

import pytest

from pystate.common.errors import JobGraphError
from pystate.common.type_info import Types
from pystate.datastream.connectors.file_system import FileSource
from pystate.datastream.formats.csv import CsvReaderFormat, CsvSchema
from pystate.datastream.formats.json import JsonLinesFormat


def test_a_schema_of_csv_has_its_columns():
    plain = CsvSchema.builder().add_number_column("id").add_string_column("a b").add_boolean_column("on").build()
    builder = CsvSchema.builder().add_columns_from(plain)
    assert len(builder) == len(builder.build()) == 3
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(builder.build()), "/in/*").build()
    assert not source.single_column
    assert source.in_slots(None, "csv")[1] == Types.ROW_NAMED(
        ["id", "a b", "on"], [Types.LONG(), Types.STRING(), Types.BOOLEAN()]
    )
    assert builder.clear_columns().size() == 0


def test_types_that_files_do_not_have_are_refused():
    with pytest.raises(JobGraphError, match="A JSON file is not read as BIG_INT"):
        JsonLinesFormat.for_row_type(Types.ROW_NAMED(["id"], [Types.BIG_INT()]))
    with pytest.raises(JobGraphError, match="A CSV file is not read as BIG_DEC"):
        CsvReaderFormat.for_schema(CsvSchema.builder().add_number_column("id", Types.BIG_DEC()).build())


@pytest.mark.parametrize("call", ["set_column_separator", "set_quote_char", "set_escape_char"])
def test_a_separator_is_one_character(call):
    with pytest.raises(ValueError, match="must be a single char"):
        getattr(CsvSchema.builder(), call)("ab")
