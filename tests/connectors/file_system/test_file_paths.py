"""Files, folders and patterns as slots take them."""

from __future__ import annotations

import pytest

from pystate.common.errors import JobGraphError
from pystate.connectors.file_system.file_paths import qualified_paths
from pystate.datastream.connectors.file_system import FileSource, StreamFormat


def test_paths_are_the_same_in_every_process(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert qualified_paths(None, ["a b", "/x/2026-11-28T10:00", "s3://b/k"]) == (
        f"{tmp_path}/a b",
        "/x/2026-11-28T10:00",
        "s3://b/k",
    )


def test_a_source_takes_several_paths_and_at_least_one():
    lines = StreamFormat.text_line_format()
    assert FileSource.for_record_stream_format(lines, "a", "b").build().paths == ("a", "b")
    with pytest.raises(JobGraphError, match="needs a path"):
        FileSource.for_record_stream_format(lines)
