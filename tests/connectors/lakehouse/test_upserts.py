"""Rows that replace those of their keys: once, whatever fails, beside other writers, and rows that delete."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from pystate.common.errors import CommitError, ConfigurationError, JobGraphError, RecordError
from pystate.common.row import Row, RowKind
from pystate.common.type_info import Types
from pystate.connectors.delta.delta_sink import DeltaSink
from pystate.testing import SinkTestHarness, SourceTestHarness
from tests.connectors.lakehouse.tables import Killed, SinkJob, killed_at

WIDE = Types.ROW_NAMED(["word", "more"], [Types.STRING(), Types.INT()])


class Upserts:
    """Tables of which the sink replaces rows by their word."""

    def __init__(self, tables: Any, change: Any = lambda builder: builder) -> None:
        self._tables, self._change = tables, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tables, name)

    def sink(self) -> Any:
        return self._tables.sink(lambda builder: self._change(builder.with_upsert_by("word")))

    def read(self) -> str:
        return " ".join(f"{word}{n}" for word, n in self._tables.rows())


class Job(SinkJob):
    """All subtasks of a sink, in one attempt; a word goes to the subtask of its letter."""

    def __init__(self, tables: Any, parallelism: int, attempt: int = 0, restored: Any = None) -> None:
        subtasks = [
            SinkTestHarness(tables.sink(), parallelism=parallelism, subtask_index=index, attempt=attempt)
            for index in range(parallelism)
        ]
        super().__init__(subtasks, restored)

    def write(self, text: str, kind: RowKind = RowKind.INSERT) -> None:
        for pair in text.split():
            row = Row(word=pair[0], n=int(pair[1:]))
            row.set_row_kind(kind)
            self.subtasks[ord(pair[0]) % len(self.subtasks)].process_element(row)

    def commit(self, checkpoint: int) -> None:
        self.snapshot(checkpoint)
        self.complete(checkpoint)


@pytest.fixture
def upserts(tables: Any) -> Upserts:
    return Upserts(tables)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_the_last_row_of_a_key_replaces_the_one_before_it_in_one_commit(upserts, parallelism, tmp_path):
    job = Job(upserts, parallelism)
    job.write("a1 b1 a2")
    job.commit(1)
    assert upserts.read() == "a2 b1"
    job.write("a3 c1")
    job.snapshot(2)
    job.write("a4 d1")
    assert upserts.read() == "a2 b1"
    job.snapshot(3)
    job.complete(3)  # nobody was told of 2
    assert upserts.read() == "a4 b1 c1 d1"
    assert list(tmp_path.rglob("*.upserts")) == []


def test_a_row_that_deletes_leaves_none_of_its_key(upserts):
    job = Job(upserts, 2)
    job.write("a1 b1 c1")
    job.commit(1)
    job.write("a1", RowKind.DELETE)
    job.write("b1", RowKind.UPDATE_BEFORE)
    job.write("b2", RowKind.UPDATE_AFTER)
    job.write("z9", RowKind.DELETE)
    job.commit(2)
    assert upserts.read() == "b2 c1"
    for checkpoint, text in enumerate(["z9", "c1"], 3):  # the first finds nothing to delete, and is done all the same
        job.write(text, RowKind.DELETE)
        job.commit(checkpoint)
    assert upserts.read() == "b2"


@pytest.mark.parametrize("kind", [RowKind.DELETE, RowKind.UPDATE_BEFORE])
@pytest.mark.parametrize("overwrites", [False, True])
def test_a_row_that_takes_one_away_is_not_added_where_rows_have_no_keys(tables, kind, overwrites):
    sink = tables.sink(lambda builder: builder.with_overwrite() if overwrites else builder)
    row = Row(word="a", n=1)
    with SinkTestHarness(sink) as harness:
        harness.open()
        harness.process_element(row)
        row.set_row_kind(RowKind.UPDATE_AFTER)
        harness.process_element(row)
        row.set_row_kind(kind)
        with pytest.raises(RecordError, match=f"kind {kind.name} takes one away.*only adds rows"):
            harness.process_element(row)


def test_elements_that_a_predicate_names_delete(tables):
    upserts = Upserts(tables, lambda builder: builder.with_delete_when(lambda row: row.n < 0))
    job = Job(upserts, 1)
    job.write("a1 b1")
    job.commit(1)
    job.write("a-1 b2")
    job.commit(2)
    assert upserts.read() == "b2"


@pytest.mark.parametrize("step", ["begin", "look", "committed", "drop"])
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_a_crash_at_any_step_and_a_later_change_of_the_row_is_not_undone(upserts, step, before, after):
    job = Job(upserts, before)
    job.write("a1 b1")
    job.commit(1)
    job.write("a2 c1")
    taken = job.snapshot(2)
    with killed_at(step):
        try:
            job.complete(2)
        except Killed:
            pass
    zombie = job
    job = Job(upserts, after, 1, taken)
    assert upserts.read() == "a2 b1 c1"
    job.write("a3")
    job.write("b1", RowKind.DELETE)
    job.commit(3)
    assert upserts.read() == "a3 c1"
    zombie.complete(2)  # an upsert that came again would undo what was written meanwhile
    assert upserts.read() == "a3 c1"


def test_another_writer_that_was_first_is_kept(upserts):
    job = Job(upserts, 2)
    job.write("a1")
    job.commit(1)
    job.write("a2 b1")
    job.snapshot(2)
    left = ["x", "y"]

    def write_beside(step: str) -> None:
        if step == "look" and left:
            upserts.write_beside([{"word": left.pop(0), "n": 7}])

    with killed_at(None):
        type(job.subtasks[0]._operator._committer).step = staticmethod(write_beside)
        job.complete(2)
    assert upserts.read().startswith("a2 b1 x7")
    assert upserts.versions() <= 7


def test_the_same_commit_twice_at_once_is_done_once(upserts):
    job = Job(upserts, 2)
    job.write("a1")
    taken = job.snapshot(1)
    done: list[int] = []

    def overtake(step: str) -> None:
        if step == "look" and not done:
            done.append(1)
            other = Job(upserts, 1, 1, taken)  # commits what was restored
            other.write("a2")
            other.commit(2)

    with killed_at(None):
        type(job.subtasks[0]._operator._committer).step = staticmethod(overtake)
        job.complete(1)
    assert upserts.read() == "a2"


def test_a_column_that_the_table_gets_after_rows_were_staged_is_null_in_them(upserts):
    job = Job(upserts, 2)
    job.write("a1")
    job.snapshot(1)
    upserts.add_column()
    job.complete(1)
    source = upserts.source(lambda builder: builder.with_row_type(WIDE))
    with SourceTestHarness(lambda: source, output_type=WIDE) as one:
        assert sorted((row.word, row.more) for row in one.run_to_end()) == [("a", None), ("wide", 7)]


def test_rows_whose_file_is_gone_are_said(upserts, tmp_path):
    job = Job(upserts, 1)
    job.write("a1")
    job.snapshot(1)
    next(tmp_path.rglob("*.upserts")).unlink()
    with pytest.raises(CommitError, match="that the checkpoint has to commit is gone"):
        job.complete(1)


def test_keys_that_do_not_do_are_refused(tables):
    with pytest.raises(ConfigurationError, match="have no nope"):
        SinkTestHarness(tables.sink(lambda builder: builder.with_upsert_by("nope"))).open()
    fractions = Types.ROW_NAMED(["x"], [Types.DOUBLE()])
    with pytest.raises(ConfigurationError, match="by which rows can't be told apart"):
        SinkTestHarness(tables.sink(lambda builder: builder.with_row_type(fractions).with_upsert_by("x"))).open()
    with pytest.raises(JobGraphError, match="by their key only"):
        tables.sink(lambda builder: builder.with_delete_when(bool))
    with pytest.raises(JobGraphError, match="aren't sorted"):
        tables.sink(lambda builder: builder.with_upsert_by("word").with_sort_by("n"))
    with pytest.raises(JobGraphError, match="takes the columns"):
        tables.sink(lambda builder: builder.with_upsert_by())


def test_a_job_without_checkpoints_replaces_rows_at_its_end(upserts):
    for attempt, text in enumerate(["a1 b1 c1", "a2 d1"]):
        job = Job(upserts, 2, attempt)
        job.write(text)
        for one in job.subtasks:
            one.end_input()
            one.commit_rest()
    assert upserts.read() == "a2 b1 c1 d1"


def test_rows_of_a_delta_table_that_takes_appended_ones_only_are_not_replaced(tmp_path):
    def sink(change):
        builder = DeltaSink.for_table(str(tmp_path / "t")).with_row_type(WIDE)
        return change(builder.with_table_properties({"delta.appendOnly": "true"})).build()

    with SinkTestHarness(sink(lambda builder: builder)) as one:
        one.open()
    with pytest.raises(ConfigurationError, match=r"has delta\.appendOnly"):
        SinkTestHarness(sink(lambda builder: builder.with_upsert_by("word"))).open()


def test_a_key_that_is_null_is_refused(upserts):
    with SinkTestHarness(upserts.sink()) as one:
        one.open()
        one.process_element(Row(word=None, n=1))
        with pytest.raises(RecordError, match="A row has no word"):
            one.snapshot(1)


def test_keys_of_several_columns_with_odd_names(tables):
    row_type = Types.ROW_NAMED(["a b", "Day", 'say "n"'], [Types.STRING(), Types.SQL_DATE(), Types.LONG()])
    sink = tables.sink(lambda builder: builder.with_row_type(row_type).with_upsert_by("a b", "Day"))
    days = [dt.date(2024, 5, day) for day in (1, 2)]
    with SinkTestHarness(sink) as one:
        one.open()
        for checkpoint, number in enumerate((1, 2), 1):
            for day in days[: 3 - checkpoint]:
                one.process_element(Row(**{"a b": "x", "Day": day, 'say "n"': number}))
            one.snapshot(checkpoint)
            one.notify_of_completed_checkpoint(checkpoint)
    source = tables.source(lambda builder: builder.with_row_type(row_type))
    with SourceTestHarness(lambda: source, output_type=row_type) as one:
        assert sorted(tuple(row) for row in one.run_to_end()) == [("x", days[0], 2), ("x", days[1], 1)]


def test_a_key_that_a_table_has_twice_is_told_or_is_there_once_afterwards(upserts, caplog):
    with SinkTestHarness(upserts.sink()) as one:
        one.open()  # makes the table
    upserts.write_beside([{"word": "a", "n": 1}, {"word": "a", "n": 2}])
    job = Job(upserts, 1)
    job.write("a3 b1")
    job.commit(1)
    assert upserts.read() in ("a3 b1", "a3 a3 b1")
    assert ("several rows of one word" in caplog.text) is (upserts.read() == "a3 a3 b1")
    caplog.clear()
    job.write("b2 c1")
    job.commit(2)
    assert "several rows" not in caplog.text
