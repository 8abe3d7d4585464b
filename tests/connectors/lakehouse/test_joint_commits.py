"""Sinks to tables: a crash at each step, at each parallelism, and beside other writers leaves each row once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from pystate.common.errors import CommitError, JobGraphError
from pystate.common.row import Row
from pystate.connectors.lakehouse import table_committer, table_writer
from pystate.testing import SinkTestHarness
from tests.connectors.lakehouse.conftest import FORMATS
from tests.connectors.lakehouse.tables import IcebergTablesByRest, Killed, SinkJob, killed_at
from tests.servers.iceberg_catalog import iceberg_server  # noqa: F401 - a fixture


@pytest.fixture(params=[*FORMATS, "iceberg by REST"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param in FORMATS:
        return FORMATS[request.param](tmp_path)
    return IcebergTablesByRest(tmp_path, request.getfixturevalue("iceberg_server"))


def row(word: str, n: int = 1) -> Row:
    return Row(word=word, n=n)


def harness(tables: Any, subtask: int = 0, parallelism: int = 1, attempt: int = 0) -> SinkTestHarness:
    return SinkTestHarness(tables.sink(), parallelism=parallelism, subtask_index=subtask, attempt=attempt)


class Job(SinkJob):
    """All subtasks of a sink, in one attempt."""

    def __init__(self, tables: Any, parallelism: int, attempt: int = 0, restored: Any = None) -> None:
        super().__init__([harness(tables, index, parallelism, attempt) for index in range(parallelism)], restored)

    def write(self, *words: str) -> None:
        for index, word in enumerate(words):
            self.subtasks[index % len(self.subtasks)].process_element(row(word))

    def close(self) -> None:
        for one in self.subtasks:
            one.close()


def words(tables: Any) -> str:
    return "".join(one[0] for one in tables.rows())


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_checkpoint_of_all_subtasks_is_one_commit_and_nothing_is_seen_before(tables, parallelism):
    job = Job(tables, parallelism)
    made = tables.versions()
    job.write("a", "b", "c", "d")
    assert words(tables) == ""
    job.snapshot(1)
    job.write("e")
    assert words(tables) == ""

    job.complete(1)
    assert words(tables) == "abcd"
    assert tables.versions() == made + 1

    job.snapshot(2)
    job.snapshot(3)
    job.complete(3)  # nobody was told of 2
    assert words(tables) == "abcde"
    assert tables.versions() == made + 2  # nothing was written between 2 and 3
    job.close()
    assert tables.orphans() == []


PARALLELISMS = [(2, 3), *(pytest.param(*pair, marks=pytest.mark.slow) for pair in [(1, 1), (1, 2), (3, 1)])]
STEPS = ["stage", "staged", "begin", "look", "committed", "drop", "done"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("before", "after"), PARALLELISMS)
def test_a_crash_at_any_step_and_a_restore_at_any_parallelism_leaves_each_row_once(tables, step, before, after):
    job = Job(tables, before)
    job.write("a", "b")
    last = job.snapshot(1)
    job.complete(1)
    job.write("c", "d", "e")
    restored, again = last, "cde"  # what a source reads again after the checkpoint
    if step != "stage":
        taken = job.snapshot(2)
        if step != "staged":
            restored, again = taken, ""
            with killed_at(step):
                try:
                    job.complete(2)
                except Killed:
                    pass
    assert words(tables) in ("ab", "abcde")

    zombie = job
    job = Job(tables, after, 1, restored)
    assert words(tables) == ("ab" if again else "abcde")
    job.write(*again, "f")
    job.snapshot(3)
    job.complete(3)
    assert words(tables) == "abcdef"

    if step not in ("stage", "staged"):
        zombie.complete(2)  # it goes on where it stopped, and its checkpoint was complete
    assert words(tables) == "abcdef"


@pytest.mark.parametrize("came", [[0], [1], [0, 1]])
@pytest.mark.parametrize("is_killed", [False, True])
def test_rows_before_a_checkpoint_that_failed_come_with_the_next_one(tables, came, is_killed):
    job = Job(tables, 2)
    job.write("a", "b")
    for index in came:
        job.subtasks[index].snapshot(1)  # and the others never come to it
    job.write("c", "d")
    taken = job.snapshot(2)
    if is_killed:
        job = Job(tables, 3, 1, taken)
    else:
        job.complete(2)
    assert sorted(words(tables)) == list("abcd")
    job.write("e")
    job.snapshot(3)
    job.complete(3)
    assert sorted(words(tables)) == list("abcde")


def test_a_checkpoint_without_rows_is_restored_after_it_was_committed(tables, tmp_path, monkeypatch):
    monkeypatch.setattr(table_committer, "_MOST_EMPTY", 2)
    job = Job(tables, 2)
    made = tables.versions()
    for checkpoint in range(1, 5):
        taken = job.snapshot(checkpoint)
        job.complete(checkpoint)
        Job(tables, 3, checkpoint, taken)
    assert tables.versions() <= made + 1  # a commit of the marker alone after _MOST_EMPTY without one
    assert len(list(tmp_path.rglob("*.files"))) == 2  # those of the last checkpoint
    assert words(tables) == ""


def test_a_savepoint_without_rows_is_resumed_by_one_job_after_the_other(tables, monkeypatch):
    savepoint = Job(tables, 2).snapshot(1)
    for name in ("first", "second"):
        monkeypatch.setattr(table_writer, "owner_of", lambda _, name=name: name)  # as the jobs' ids make it
        job = Job(tables, 2, 1, savepoint)
        job.write(name[0])
        job.snapshot(2)
        job.complete(2)
    assert words(tables) == "fs"


def test_a_staged_file_that_somebody_has_deleted_is_not_committed(tables, tmp_path):
    job = Job(tables, 2)
    job.write("a", "b")
    job.snapshot(1)
    next(path for path in tmp_path.rglob("*.parquet")).unlink()
    with pytest.raises(CommitError, match="A data file that the checkpoint has to commit is gone"):
        job.complete(1)
    assert words(tables) == ""


def test_rows_for_a_table_are_not_committed_to_another_of_its_name(tables):
    job = Job(tables, 2)
    job.write("a", "b")
    taken = job.snapshot(1)
    tables.drop()
    other = Job(tables, 2, 1)
    for late in (lambda: job.complete(1), lambda: Job(tables, 3, 2, taken)):
        with pytest.raises(CommitError, match="is another one than that which the rows were staged for"):
            late()
    other.write("c")
    other.snapshot(1)
    other.complete(1)
    assert words(tables) == "c"


def test_columns_to_sort_by_are_looked_for_at_the_start(tables):
    with pytest.raises(JobGraphError, match="have no nope to sort by"):
        SinkTestHarness(tables.sink(lambda builder: builder.with_sort_by("nope"))).open()


def test_a_zombie_and_its_successor_that_commit_at_once_commit_once(tables):
    job = Job(tables, 2)
    job.write("a", "b", "c")
    taken = job.snapshot(1)

    successor = Job(tables, 3, 1, None)
    barrier = threading.Barrier(2)
    inside = threading.local()

    def meet(step: str) -> None:
        if step == "look" and not getattr(inside, "met", False):
            inside.met = True
            barrier.wait()

    def restore() -> None:
        Job(tables, 3, 1, taken)

    with killed_at(None):
        type(job.subtasks[0]._operator._committer).step = staticmethod(meet)
        other = threading.Thread(target=restore)
        other.start()
        job.complete(1)
        other.join()
    assert words(tables) == "abc"
    successor.close()


def test_commits_of_other_writers_are_kept_and_ours_comes_after_them(tables):
    job = Job(tables, 2)
    job.write("a", "b")
    job.snapshot(1)
    left = ["x", "y"]

    def write_beside(step: str) -> None:
        if step == "look" and left:
            tables.write_beside([{"word": left.pop(0), "n": 7}])

    with killed_at(None):
        type(job.subtasks[0]._operator._committer).step = staticmethod(write_beside)
        job.complete(1)
    assert words(tables) in ("abx", "abxy")
    assert words(tables) == "ab" + "xy"[: 2 - len(left)]


def test_a_savepoint_that_two_jobs_begin_from_is_committed_once(tables):
    job = Job(tables, 2)
    job.write("a", "b")
    savepoint = job.snapshot(1)
    one, two = Job(tables, 1, 0, savepoint), Job(tables, 3, 0, savepoint)
    job.complete(1)
    assert words(tables) == "ab"
    for fork in (one, two):
        fork.close()


def test_a_job_without_checkpoints_commits_at_its_end(tables):
    job = Job(tables, 2)
    job.write("a", "b", "c")
    for one in job.subtasks:
        one.end_input()
        one.commit_rest()
    assert words(tables) == "abc"


def test_what_is_staged_and_in_no_checkpoint_is_deleted_at_the_end(tables):
    sink = tables.sink(lambda builder: builder.with_max_rows_per_file(2))
    with SinkTestHarness(sink) as one:
        one.open()
        one.process_elements([row(word) for word in "abcde"])
        assert len(tables.orphans()) == 2
    assert tables.orphans() == []
    assert words(tables) == ""
