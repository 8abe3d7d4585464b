"""Files are always read in slots; what Spark may read is put there where asked."""

from __future__ import annotations

import pytest

from pystate.common import Types
from pystate.common.errors import JobGraphError
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import OwnSourceTransformation
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource, StreamFormat
from pystate.datastream.formats.csv import CsvReaderFormat, CsvSchema
from pystate.runtime.execution.sources_in_slots import sources_in_slots


def graph_of(*streams):
    for stream in streams:
        stream.print()
    return StreamGraph([stream.transformation for stream in streams])


def csv_source():
    schema = CsvSchema.builder().add_number_column("n").add_string_column("s").build()
    return FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), "/in").build()


def test_files_are_read_in_slots_and_a_collection_where_it_is_wanted():
    env = StreamExecutionEnvironment.get_execution_environment()
    text = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/in").build()
    streams = [env.from_source(text, None, "text"), env.from_source(csv_source(), None, "csv"), env.from_collection([1])]
    graph = graph_of(*streams)
    assert sources_in_slots(graph, {}, None, lambda uid: False) == []
    assert [isinstance(source, OwnSourceTransformation) for source in graph.sources] == [True, True, False]
    assert [source.output_type for source in graph.sources[:2]] == [
        Types.STRING(),
        Types.ROW_NAMED(["n", "s"], [Types.LONG(), Types.STRING()]),
    ]
    assert sources_in_slots(graph, {}, None, lambda uid: True) == [graph.sources[2].name]


def test_a_type_with_other_columns_than_the_files_have_is_refused():
    env = StreamExecutionEnvironment.get_execution_environment()
    declared = Types.ROW_NAMED(["n", "t"], [Types.LONG(), Types.STRING()])
    graph = graph_of(env.from_source(csv_source(), None, "csv", declared))
    with pytest.raises(JobGraphError, match="The source is declared as .*, its columns are"):
        sources_in_slots(graph, {}, None)
