"""What an epoch of the micro-batch engine takes at most of files that are read in slots."""

from __future__ import annotations

import pytest

from pystate.common import Types
from pystate.common.errors import JobGraphError
from pystate.connectors.file_system.files_of_epoch import FilesOfEpoch
from pystate.connectors.source import EpochBound
from pystate.datastream.connectors.file_system import FileSource, StreamFormat
from pystate.testing.source_harness import SourceTestHarness

LINES = 4
BYTES = 2 * LINES


@pytest.fixture
def folder(tmp_path):
    for number in range(6):
        (tmp_path / f"{number}.txt").write_text(f"{number}\n" * LINES)
    return tmp_path


def harness(folder, most_files=None, snapshots=None, **options):
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), f"file:{folder}")
    source, _ = (builder if most_files is None else builder.set_max_files_per_epoch(most_files)).build().in_slots(None, "f")
    return SourceTestHarness(lambda: source, snapshots, output_type=Types.STRING(), **options)


def epochs_of(made):
    """Run epochs to the end; return for each how many lines came of which file."""
    found = []
    while not made.ended:
        elements = made.run_epoch()
        if elements:
            found.append({file: elements.count(file) for file in elements})
    return found


@pytest.mark.parametrize("most", [1, 2, 4])
def test_one_subtask_reads_so_many_files_in_an_epoch(folder, most):
    with harness(folder, most) as made:
        epochs = epochs_of(made)
    assert [len(files) for files in epochs] == [most] * (6 // most) + ([6 % most] if 6 % most else [])
    assert [count for files in epochs for count in files.values()] == [LINES] * 6


@pytest.mark.parametrize(("most", "parallelism"), [(1, 2), (1, 3), (2, 3), (3, 2), (5, 2)])
def test_all_subtasks_together_read_so_many_files_in_an_epoch(folder, most, parallelism):
    with harness(folder, most, parallelism=parallelism) as made:
        epochs = epochs_of(made)
    assert max(len(files) for files in epochs) == most
    assert sorted(file for files in epochs for file in files) == [str(number) for number in range(6)]


def test_a_file_that_is_read_in_parts_counts_in_each_of_its_epochs(folder):
    with harness(folder, 1, rows_per_epoch=3) as made:
        epochs = epochs_of(made)
    assert epochs == [{str(number): count} for number in range(6) for count in (3, 1)]


def test_files_that_moved_to_another_parallelism_wait_for_their_turn(folder):
    with harness(folder, 2, parallelism=2, rows_per_epoch=1) as made:
        first = made.run_epoch()
        snapshots = made.snapshot(1)
    with harness(folder, 1, snapshots, parallelism=3) as made:
        epochs = epochs_of(made)
    assert all(len(files) == 1 for files in epochs)
    assert len(first) + sum(sum(files.values()) for files in epochs) == 6 * LINES


def test_without_a_number_of_files_their_bytes_are_bounded(folder):
    with harness(folder, file_bytes_per_epoch=2 * BYTES + 1) as made:
        assert [len(files) for files in epochs_of(made)] == [2, 2, 2]
    with harness(folder, file_bytes_per_epoch=1) as made:
        assert [len(files) for files in epochs_of(made)] == [1] * 6, "a file is never cut for it"


def test_a_number_of_files_is_in_the_place_of_their_bytes(folder):
    with harness(folder, 3, file_bytes_per_epoch=1) as made:
        assert [len(files) for files in epochs_of(made)] == [3, 3]


def test_where_there_are_no_epochs_nothing_is_bounded(folder):
    with harness(folder, 1, file_bytes_per_epoch=1) as made:
        assert len(set(made.run_epoch(whole=True))) == 6


def test_an_epoch_takes_no_more_rows_than_it_may(folder):
    with harness(folder, rows_per_epoch=7) as made:
        counts = [sum(files.values()) for files in epochs_of(made)]
    assert counts == [7, 7, 7, 3]


def test_there_is_a_turn_for_each_subtask():
    shares = []
    for number in range(6):
        row = []
        for subtask in range(3):
            files = FilesOfEpoch(4)
            files.begin(EpochBound(number, subtask, 3, 0))
            row.append(files.share)
        shares.append(row)
    assert [sum(row) for row in shares] == [4] * 6
    assert [sum(column) for column in zip(*shares, strict=True)] == [8] * 3


def test_an_epoch_of_no_files_is_refused():
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "file:/x")
    with pytest.raises(JobGraphError, match="An epoch can't read 0 files"):
        builder.set_max_files_per_epoch(0)
