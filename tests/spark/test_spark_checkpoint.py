import json

import msgpack
import pytest

from pystate.common.errors import CorruptSnapshotError, SnapshotError
from pystate.spark.spark_checkpoint import SparkCheckpointDirectory, pack_archive, source_offsets, unpack_archive


def offset_log(*offsets):
    return "\n".join(["v1", json.dumps({"batchWatermarkMs": 0}), *offsets]).encode()


def file_offset(number):
    return json.dumps({"logOffset": number})


@pytest.fixture
def directory(tmp_path):
    """A query of two sources (files, rate) that has committed batch 7 and planned batch 8."""
    root = tmp_path / "spark"
    for log in ("offsets", "commits"):
        (root / log).mkdir(parents=True)
    (root / "metadata").write_text('{"id":"query-1"}')
    for batch in range(9):
        (root / "offsets" / str(batch)).write_bytes(offset_log(file_offset(batch + 4), "17"))
        if batch < 8:
            (root / "commits" / str(batch)).write_text("v1\n{}")
    (root / "sources" / "0").mkdir(parents=True)
    for entry in ["9.compact", "10", "11", "12"]:
        (root / "sources" / "0" / entry).write_text(entry)
    (root / "sources" / "0" / ".12.crc").write_text("x")
    (root / "sources" / "1").mkdir()
    (root / "sources" / "1" / "0").write_text("start time")
    return SparkCheckpointDirectory(root)


def test_a_capture_holds_the_last_two_batches_and_the_sources_up_to_the_cut(directory):
    files = directory.capture(7)
    assert sorted(files) == [
        "commits/6",
        "commits/7",
        "metadata",
        "offsets/6",
        "offsets/7",
        "sources/0/10",
        "sources/0/11",
        "sources/0/9.compact",
        "sources/1/0",
    ], "not entry 12 of the file source: batch 8 planned it"


def test_a_compact_log_that_is_not_past_the_cut_replaces_the_entries_before_it(directory):
    assert "sources/0/9.compact" in directory.capture(5)
    assert "sources/0/10" not in directory.capture(5)


def test_entries_are_taken_one_by_one_where_the_only_compact_log_is_past_the_cut(directory):
    source = directory.path / "sources" / "0"
    for entry in range(9):
        (source / str(entry)).write_text(str(entry))
    names = {name for name in directory.capture(4) if name.startswith("sources/0/")}
    assert names == {f"sources/0/{entry}" for entry in range(9)}


def test_before_the_first_batch_there_is_nothing_to_capture(directory):
    assert directory.capture(-1) == {}
    assert directory.is_committed(-1)
    assert directory.capture_commit(-1) == {}


def test_a_batch_that_is_not_in_the_log_is_an_error(directory):
    with pytest.raises(SnapshotError, match="no entry for batch 99"):
        directory.capture(99)


def test_a_rebuilt_directory_holds_the_capture_and_keeps_or_changes_the_query_id(directory, tmp_path):
    files = directory.capture(7)
    kept = SparkCheckpointDirectory(tmp_path / "kept")
    kept.rebuild(files, keep_query_id=True)
    assert kept.capture(7) == files
    other = SparkCheckpointDirectory(tmp_path / "other")
    other.rebuild(files, keep_query_id=False)
    assert json.loads((other.path / "metadata").read_text())["id"] != "query-1"


def test_offsets_are_those_of_each_source(directory):
    assert source_offsets((directory.path / "offsets" / "7").read_bytes()) == [file_offset(11), "17"]


def test_an_archive_comes_back_as_it_went(directory):
    files = directory.capture(7)
    assert unpack_archive(pack_archive(files)) == files


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xff",
        msgpack.packb([1]),
        msgpack.packb({"../../etc/passwd": b"x"}),
        msgpack.packb({"sources/0/../../../x": b"x"}),
        msgpack.packb({"/etc/passwd": b"x"}),
        msgpack.packb({"offsets/1": "text"}),
        msgpack.packb({"lib/evil.jar": b"x"}),
    ],
    ids=repr,
)
def test_an_archive_with_anything_else_in_it_is_refused(data):
    with pytest.raises(CorruptSnapshotError):
        unpack_archive(data)
