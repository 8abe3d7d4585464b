"""Rows that replace the partitions they belong to: once, whatever fails, by one commit at the end of the input."""

from __future__ import annotations

from typing import Any

import pytest
from deltalake import DeltaTable

from pystate.common.errors import CommitError, ConfigurationError, JobGraphError
from pystate.common.row import Row
from pystate.connectors.delta.delta_staging import DeltaStaging
from pystate.connectors.iceberg.iceberg_staging import IcebergStaging
from pystate.testing import SinkTestHarness
from tests.connectors.lakehouse.tables import COLUMNS, DeltaTables, Killed, SinkJob, killed_at


@pytest.fixture
def table(tables: Any) -> Any:
    """A table partitioned by word, with a1 b1 c1."""
    with SinkTestHarness(tables.sink(lambda builder: builder.with_partition_by("word"))) as one:
        one.open()
        one.process_elements([Row(word=word, n=1) for word in "abc"])
        one.snapshot(1)
        one.notify_of_completed_checkpoint(1)
    return tables


class Job(SinkJob):
    """All subtasks of a sink that overwrites, in one attempt."""

    def __init__(self, tables: Any, parallelism: int = 2, attempt: int = 0, restored: Any = None) -> None:
        sink = tables.sink(lambda builder: builder.with_overwrite())
        options: dict[str, Any] = {"job_parameters": {"execution.checkpointing.interval": "1 s"}}
        subtasks = [
            SinkTestHarness(sink, parallelism=parallelism, subtask_index=index, attempt=attempt, **options)
            for index in range(parallelism)
        ]
        super().__init__(subtasks, restored)

    def write(self, text: str) -> None:
        for at, pair in enumerate(text.split()):
            self.subtasks[at % len(self.subtasks)].process_element(Row(word=pair[0], n=int(pair[1:])))

    def end_input(self, *among: int) -> None:
        for one in (self.subtasks[index] for index in among) if among else self.subtasks:
            one.end_input(of_all=not among)


def read(tables: Any) -> str:
    return " ".join(sorted(f"{row['word']}{row['n']}" for row in tables.dicts()))


@pytest.mark.parametrize("parallelism", [1, 2])
def test_all_rows_of_a_job_replace_their_partitions_in_one_commit_at_its_end(table, parallelism):
    job, before = Job(table, parallelism), table.versions()
    job.write("a2 b2")
    job.snapshot(2)
    job.complete(2)
    assert (read(table), table.versions()) == ("a1 b1 c1", before)
    table.write_beside([{"word": "b", "n": 7}, {"word": "d", "n": 7}])
    job.write("a3")
    job.end_input()
    job.snapshot(3)
    job.complete(3)
    assert (read(table), table.versions()) == ("a2 a3 b2 c1 d7", before + 2)


@pytest.mark.parametrize("step", ["begin", "look", "committed", "drop"])
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_a_crash_at_any_step_replaces_once(table, step, before, after):
    job = Job(table, before)
    job.write("a2 b2")
    held = job.snapshot(2)
    job.complete(2)
    job = Job(table, after, 1, held)  # what waited is staged, and is in the checkpoint
    job.write("a3")
    job.end_input()
    taken = job.snapshot(3)
    with killed_at(step):
        try:
            job.complete(3)
        except Killed:
            pass
    zombie, job = job, Job(table, before, 2, taken)
    assert read(table) == "a2 a3 b2 c1"
    table.write_beside([{"word": "a", "n": 9}])
    zombie.complete(3)  # a commit that came again would take this away
    assert read(table) == "a2 a3 a9 b2 c1"


@pytest.mark.parametrize("early", [0, 1])
def test_subtasks_that_end_early_wait_for_the_others(table, early):
    job, before = Job(table), table.versions()
    job.write("a2 b2")
    job.end_input(early)
    held = job.snapshot(2)
    job.complete(2)
    assert table.versions() == before
    job = Job(table, 2, 1, held)  # the files of both are in the checkpoint
    job.end_input(early)
    job.snapshot(3)
    job.complete(3)
    job.end_input()
    job.snapshot(4)
    job.complete(4)
    assert (read(table), table.versions()) == ("a2 b2 c1", before + 1)


def test_a_job_that_is_given_up_leaves_the_table_as_it_was(table):
    job = Job(table)
    job.write("a2 b2")
    job.snapshot(2)
    job.complete(2)
    for one in job.subtasks:
        one.close()
    assert read(table) == "a1 b1 c1"


def test_a_last_checkpoint_that_failed_is_made_up_for_by_the_next(table):
    job = Job(table)
    job.write("a2 b2")
    job.end_input()
    job.snapshot(2)  # nobody is told that it is complete
    job.snapshot(3)
    job.complete(3)
    assert read(table) == "a2 b2 c1"


def test_files_that_a_checkpoint_has_outlive_a_failure_at_the_end(table, monkeypatch):
    job = Job(table)
    job.write("a2 b2")
    held = job.snapshot(2)
    job.write("a3 b3")
    job.end_input()

    def fail(*_: Any) -> None:
        message = "no storage"
        raise OSError(message)

    with monkeypatch.context() as patched:
        for kind in (DeltaStaging, IcebergStaging):
            patched.setattr(kind, "put", fail)
        with pytest.raises(OSError, match="no storage"):
            job.snapshot(3)
    for one in job.subtasks:
        one.close()
    job = Job(table, 1, 1, held)
    job.write("a3 b3")
    job.end_input()
    job.snapshot(4)
    job.complete(4)
    assert read(table) == "a2 a3 b2 b3 c1"


def test_several_subtasks_without_checkpoints_are_refused(table):
    sink = table.sink(lambda builder: builder.with_overwrite())
    with pytest.raises(ConfigurationError, match="one commit of all subtasks"):
        SinkTestHarness(sink, parallelism=2).open()


def test_keys_and_partitions_are_not_replaced_at_once(table):
    with pytest.raises(JobGraphError, match="not both"):
        table.sink(lambda builder: builder.with_overwrite().with_upsert_by("word"))


def test_a_table_without_partitions_is_replaced_as_a_whole(tables):
    with SinkTestHarness(tables.sink()) as one:
        one.open()
        one.process_elements([Row(word="a", n=1)])
        one.snapshot(1)
        one.notify_of_completed_checkpoint(1)
    job = Job(tables, 1)
    job.write("b1")
    job.end_input()
    job.snapshot(2)
    job.complete(2)
    assert read(tables) == "b1"


def test_files_of_another_table_are_not_taken_over(table):
    job = Job(table)
    job.write("a2 b2")
    held = job.snapshot(2)
    table.drop()
    with pytest.raises(CommitError, match="isn't the table"):
        Job(table, 2, 1, held)


@pytest.mark.parametrize("key", ["delta.appendOnly", "delta.enableDeletionVectors"])
def test_a_delta_table_from_which_nothing_can_be_removed_is_refused(tmp_path, key):
    tables = DeltaTables(tmp_path)
    DeltaTable.create(tables.path, COLUMNS, configuration={key: "true"})
    with pytest.raises(ConfigurationError, match="appendOnly|deletion vectors"):
        Job(tables, 1)
