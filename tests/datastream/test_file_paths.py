"""Files, folders and patterns as the one path that Spark reads."""

from __future__ import annotations

import pytest

from pystate.common.errors import JobGraphError
from pystate.datastream.connectors.file_paths import load_path
from pystate.datastream.connectors.file_system import FileSource, StreamFormat


@pytest.fixture
def there(tmp_path):
    (tmp_path / "folder").mkdir()
    for name in ("one", "two", "folder/three", "a,b"):
        (tmp_path / name).write_text("x")
    return str(tmp_path)


def test_a_folder_and_a_pattern_are_left_as_they_are(spark, there):
    for path in (there, f"file:{there}/folder", f"{there}/*", f"{there}/not there"):
        assert load_path(spark, [path]) == path


def test_files_are_a_pattern_of_alternatives(spark, there):
    below = there.removeprefix("/")
    assert load_path(spark, [f"{there}/one"]) == f"file:/{{{below}/one}}"
    assert load_path(spark, [f"file:{there}/one", f"{there}/folder"]) == f"file:/{{{below}/one,{below}/folder}}"


@pytest.mark.parametrize(
    ("paths", "reason"),
    [
        (["{}/a,b"], "a,b has a comma or a brace in it"),
        (["{}/one", "{}/{{x,y}}"], "has a comma or a brace in it"),
        (["{}/one", "webhdfs://127.0.0.1:1/two"], "they are on 2 file systems"),
    ],
)
def test_what_no_pattern_stands_for_is_refused(spark, there, paths, reason):
    with pytest.raises(JobGraphError, match=reason) as error:
        load_path(spark, [path.format(there) for path in paths])
    assert "union()" in error.value.hint


def test_a_source_takes_several_paths_and_at_least_one():
    lines = StreamFormat.text_line_format()
    assert FileSource.for_record_stream_format(lines, "a", "b").build().paths == ("a", "b")
    with pytest.raises(JobGraphError, match="needs a path"):
        FileSource.for_record_stream_format(lines)
