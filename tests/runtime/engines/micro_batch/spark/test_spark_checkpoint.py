import json

import msgpack
import pytest

from pystate.common.errors import CorruptSnapshotError, RestoreError, SnapshotError
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import (
    SparkCheckpointDirectory,
    SparkSource,
    captured_sources,
    fit_sources,
    pack_archive,
    source_offsets,
    unpack_archive,
)

SOURCES = [SparkSource("files", 0, 0), SparkSource("rate", 0, 1)]


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
    return SparkCheckpointDirectory(root, SOURCES)


def test_a_capture_holds_the_last_two_batches_and_the_sources_up_to_the_cut(directory):
    files = directory.capture(7)
    assert sorted(files) == [
        "commits/6",
        "commits/7",
        "metadata",
        "offsets/6",
        "offsets/7",
        "pystate-sources",
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
    kept = SparkCheckpointDirectory(tmp_path / "kept", SOURCES)
    kept.rebuild(files, keep_query_id=True)
    assert kept.capture(7) == files
    other = SparkCheckpointDirectory(tmp_path / "other", SOURCES)
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


def test_a_log_of_other_sources_than_the_jobs_is_not_captured(directory):
    alone = SparkCheckpointDirectory(directory.path, SOURCES[:1])
    with pytest.raises(SnapshotError, match="has 2 sources, the job 1"):
        alone.capture(7)


def fitted(directory, sources, **options):
    files = fit_sources(directory.capture(7), sources, allow_non_restored=options.get("allow", False))
    assert captured_sources(files) == sources
    assert {name for name in files if not name.startswith("sources/")} == {
        "commits/6",
        "commits/7",
        "metadata",
        "offsets/6",
        "offsets/7",
        "pystate-sources",
    }
    logs = {name: data.decode() for name, data in files.items() if name.startswith("sources/")}
    return [source_offsets(files["offsets/6"]), source_offsets(files["offsets/7"])], logs


FILES_LOG = {"9.compact": "9.compact", "10": "10", "11": "11"}


def in_folder(number, log):
    return {f"sources/{number}/{name}": text for name, text in log.items()}


def test_the_same_sources_leave_the_files_as_they_are(directory):
    files = directory.capture(7)
    assert fit_sources(files, SOURCES, allow_non_restored=False) == files


def test_sources_in_another_order_take_their_offsets_and_logs_along(directory):
    swapped = [SparkSource("rate", 0, 0), SparkSource("files", 0, 1)]
    offsets, logs = fitted(directory, swapped)
    assert offsets == [["17", file_offset(10)], ["17", file_offset(11)]]
    assert logs == {**in_folder(0, {"0": "start time"}), **in_folder(1, FILES_LOG)}


def test_a_source_that_is_new_begins_anew_wherever_it_stands(directory):
    more = [SparkSource("new", 0, 0), SparkSource("rate", 0, 1), SparkSource("files", 0, 2), SparkSource("files", 1, 3)]
    offsets, logs = fitted(directory, more)
    assert offsets == [["-", "17", file_offset(10), "-"], ["-", "17", file_offset(11), "-"]]
    assert logs == {**in_folder(1, {"0": "start time"}), **in_folder(2, FILES_LOG)}


def test_a_source_that_keeps_no_place_begins_anew_though_the_files_know_it(directory):
    offsets, logs = fitted(directory, [SOURCES[0], SparkSource("rate", 0, 1, keeps_place=False)])
    assert offsets == [[file_offset(10), "-"], [file_offset(11), "-"]]
    assert logs == in_folder(0, FILES_LOG)


def test_a_source_that_is_gone_is_named_and_left_after_only_on_request(directory):
    with pytest.raises(RestoreError, match="no source 'files'") as refused:
        fitted(directory, [SparkSource("rate", 0, 0)])
    assert "--allowNonRestoredState" in str(refused.value)
    offsets, logs = fitted(directory, [SparkSource("rate", 0, 0)], allow=True)
    assert offsets == [["17"], ["17"]]
    assert logs == in_folder(0, {"0": "start time"})


def test_where_nothing_was_read_there_is_nothing_to_fit():
    assert fit_sources({}, SOURCES, allow_non_restored=False) == {}


def test_an_archive_that_does_not_name_its_sources_is_refused(directory):
    files = directory.capture(7)
    del files["pystate-sources"]
    with pytest.raises(CorruptSnapshotError, match="which sources"):
        fit_sources(files, SOURCES, allow_non_restored=False)
