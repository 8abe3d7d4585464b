"""Streams as DataFrames of Spark's, as far as it goes without Spark."""

import pytest

from pystate.common import Duration, Types
from pystate.common.errors import JobGraphError
from pystate.datastream.connectors.file_system import FileSource, StreamFormat


def test_elements_without_a_type_have_no_columns(env):  # noqa: F811
    with pytest.raises(JobGraphError, match="no declared type") as refused:
        env.from_collection([1]).map(lambda one: one).to_data_frame()
    assert "output_type" in refused.value.hint


def test_a_source_without_an_end_is_refused(env):  # noqa: F811
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/x")
    watched = env.from_source(builder.monitor_continuously(Duration.of_seconds(1)).build(), None, "watched")
    both = env.from_collection(["a"], Types.STRING()).union(watched)
    with pytest.raises(JobGraphError, match="its source 'watched' has none") as refused:
        both.to_data_frame()
    assert "bounded=True" in refused.value.hint
    assert "for_each_batch" in refused.value.hint
