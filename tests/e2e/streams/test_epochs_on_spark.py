"""The epoch transaction under what user code does with the DataFrame of for_each_batch(), and under odd epochs."""

from __future__ import annotations

import os
import threading
from collections import Counter

import pytest

from pystate.common import Types
from pystate.common.errors import JobCancelledError
from pystate.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors.file_system import FileSource
from tests.faults.workload import COUNTED, Watched, counting, state_in


class Uses:
    """A sink that uses its frame in every way at once, and remembers what each way saw."""

    def __init__(self):
        self.seen = {name: Counter() for name in ("first", "second", "union", "coalesced", "thread")}
        self.counts = []

    def __call__(self, frame, epoch):
        self.keep("first", frame)
        self.keep("second", frame.filter("true"))
        self.keep("union", frame.union(frame))
        self.keep("coalesced", frame.coalesce(1))
        in_thread = threading.Thread(target=self.keep, args=("thread", frame))
        in_thread.start()
        in_thread.join()
        self.counts.append(frame.count())

    def keep(self, name, frame):
        self.seen[name].update(tuple(row) for row in frame.collect())


def cancel_with_savepoint(job, tmp_path):
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    return path


def test_an_epoch_counts_once_whatever_is_done_with_its_frame(run_job, tmp_path):
    watched, sink = Watched(tmp_path), Uses()
    watched.add(6)
    job = run_job(counting(watched, sink))
    job.wait_for(lambda: sum(sink.counts) == 240)
    expected = Counter(watched.pairs)
    for name in ("first", "second", "coalesced", "thread"):
        assert sink.seen[name] == expected, name
    assert sink.seen["union"] == expected + expected
    assert state_in(cancel_with_savepoint(job, tmp_path)) == dict(watched.words)


class CountEpochs:
    """A sink that notes how many rows each epoch had."""

    def __init__(self):
        self.sizes = []
        self.rows = Counter()

    def __call__(self, frame, epoch):
        rows = [tuple(row) for row in frame.collect()]
        self.rows.update(rows)
        self.sizes.append(len(rows))

    @property
    def with_rows(self):
        """The sizes of those that had any: a file may wait an epoch for its reader."""
        return [size for size in self.sizes if size]


def test_an_empty_epoch_and_an_epoch_of_one_row_reach_every_subtask(run_job, tmp_path):
    watched, sink = Watched(tmp_path), CountEpochs()
    job = run_job(counting(watched, sink, files_per_epoch=1), {"parallelism.default": "3"})
    job.wait_running()
    (watched.folder / "0-empty.txt").write_text("")
    job.wait_for(lambda: sink.sizes)
    (watched.folder / "1-one.txt").write_text("alone")
    job.wait_for(lambda: sink.with_rows == [1])
    assert sink.sizes[0] == 0
    # a savepoint is complete only when every subtask has taken its part, those that never saw a row too
    path = job.savepoint(tmp_path / "savepoints")
    details = job.master.coordinator.statistics()["latest"]["savepoint"]
    assert (details["num_subtasks"], details["num_acknowledged_subtasks"]) == (6, 6), "those of the source, too"
    assert state_in(path) == {"alone": 1}
    (watched.folder / "2-two.txt").write_text("alone\nother")
    job.wait_for(lambda: sink.with_rows == [1, 2])
    assert state_in(cancel_with_savepoint(job, tmp_path)) == {"alone": 2, "other": 1}


def test_barriers_ride_on_epochs_whose_rows_reach_one_subtask_only(run_job, tmp_path):
    watched, sink = Watched(tmp_path), CountEpochs()
    options = {"parallelism.default": "3", "execution.checkpointing.interval": "10 ms"}
    job = run_job(counting(watched, sink, files_per_epoch=1), options)
    for number in range(5):
        (watched.folder / f"{number}.txt").write_text("alone\n" * 10)
    job.wait_for(lambda: sum(sink.sizes) == 50)
    statistics = job.master.coordinator.statistics()
    assert statistics["counts"]["completed"] > 0
    assert statistics["counts"]["failed"] == 0
    assert sink.rows == Counter(("alone", n) for n in range(1, 51))
    assert state_in(cancel_with_savepoint(job, tmp_path)) == {"alone": 50}


class Sum(KeyedProcessFunction):
    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        total = (self.sum.value() or 0) + 1
        self.sum.update(total)
        yield ctx.get_current_key(), total


@pytest.mark.slow  # a million rows
def test_an_epoch_of_a_million_rows_is_one_transaction(run_job, spark, tmp_path):
    folder = tmp_path / "million"
    spark.range(0, 1_000_000, 1, 2).selectExpr("concat('w', id % 1000)").write.text(str(folder))
    sizes = []

    def run():
        env = StreamExecutionEnvironment.get_execution_environment()
        words = env.from_source(FileSource(str(folder), monitor_interval_ms=1000), None, "words")
        counts = words.key_by(lambda word: word, key_type=Types.STRING()).process(Sum(), COUNTED).uid("count")
        counts.for_each_batch(lambda frame, epoch: sizes.append(frame.count()))
        env.execute("a million")

    job = run_job(run, {"pystate.output.memory-size": "1 mb"})
    job.wait_for(lambda: sizes)
    assert sizes[0] == 1_000_000
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    assert state_in(path) == {f"w{n}": 1000 for n in range(1000)}


class Client(MapFunction):
    """Writes down, by process, what becomes of it."""

    def __init__(self, notes):
        self.notes = notes

    def note(self, event):
        with (self.notes / str(os.getpid())).open("a") as file:
            file.write(f"{event}\n")

    def open(self, runtime_context):
        self.attempt = runtime_context.get_attempt_number()
        self.note(f"open {self.attempt}")

    def map(self, value):
        self.note(f"map {self.attempt}")
        return value

    def close(self):
        self.note(f"close {self.attempt}")


def test_functions_before_the_first_shuffle_are_opened_once_per_worker(run_job, tmp_path):
    watched, sink, notes = Watched(tmp_path), CountEpochs(), tmp_path / "notes"
    notes.mkdir()

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        source = FileSource(str(watched.folder), monitor_interval_ms=1000, max_files_per_epoch=1)
        words = env.from_source(source).map(Client(notes), Types.STRING())
        words.key_by(lambda word: word, Types.STRING()).process(Sum(), COUNTED).uid("sum").for_each_batch(sink)
        env.execute("clients")

    watched.add(6)
    job = run_job(program)
    job.wait_for(lambda: sum(sink.sizes) == 240)
    job.cancel()
    assert len(sink.sizes) >= 6
    life = [Counter(file.read_text().splitlines()) for file in notes.iterdir()]
    assert sum(events["map 0"] for events in life) == 240
    assert {events["open 0"] for events in life} == {1}, "one for each epoch, or partition"
