"""Tables of Delta and Iceberg at the end of a job on Spark, read from outside: each row once, whatever dies."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from pystate.common import Row, Types
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource
from pystate.testing import SinkTestHarness
from tests.connectors.lakehouse.conftest import FORMATS
from tests.engines import on_both_engines
from tests.faults.injection import Action, Faults, Step
from tests.faults.processes import kill, needs_proc
from tests.faults.workload import COUNTED, RECOVERING, Count, Watched

pytestmark = [needs_proc, pytest.mark.timeout(600)]

OPTIONS = {
    **RECOVERING,
    "restart-strategy.fixed-delay.attempts": "1000",
    "restart-strategy.fixed-delay.delay": "0 ms",
}
PAIR = Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.LONG()])


def counting(watched, sink, faults):
    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        source = FileSource(str(watched.folder), monitor_interval_ms=1000, max_files_per_epoch=2)
        words = env.from_source(source, None, "words").uid("words").key_by(lambda word: word, key_type=Types.STRING())
        counts = words.process(Count(faults=faults), COUNTED).uid("count")
        counts.map(tuple, PAIR).sink_to(sink).uid("table")
        env.execute("counting")

    return program


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_slots_die_and_each_row_is_in_the_table_once(run_job, tmp_path, name):
    tables, order = FORMATS[name](tmp_path), random.Random(1)
    watched, faults = Watched(tmp_path), Faults(tmp_path / "faults")
    sink = tables.sink(lambda builder: builder.with_row_type(PAIR))

    def found():
        read = Counter(tables.rows())
        assert set(read.values()) <= {1}, "doubled"
        assert read <= Counter(watched.pairs), "a row that never was"
        return read

    job = run_job(counting(watched, sink, faults), OPTIONS)
    job.wait_running()
    watched.add(1)
    job.wait_for(lambda: job.master.coordinator.latest_snapshot() is not None)
    for step in (Step.NOTIFY, Step.FROZEN, None):
        if step is None:
            kill(order.choice(sorted(job.master.slot_pids.values())))
            watched.add(1)
        else:
            faults.arm(step, Action.KILL)
            watched.add(1)
            job.wait_for(lambda step=step: faults.struck(step))
        job.wait_for(lambda: found() == Counter(watched.pairs))
    path = job.savepoint(tmp_path / "savepoints", stop=True)
    job.result()
    watched.add(1)
    job = run_job(counting(watched, sink, faults), {**OPTIONS, "execution.state-recovery.path": path})
    job.wait_for(lambda: found() == Counter(watched.pairs))
    job.savepoint(tmp_path / "savepoints", cancel=True)
    faults.disarm()


def following(source, sink):
    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        rows = env.from_source(source, None, "table").uid("table")
        keyed = rows.key_by(lambda row: row.word, key_type=Types.STRING())
        totals = keyed.reduce(lambda one, other: Row(word=one.word, n=one.n + other.n)).uid("totals")
        totals.map(tuple, PAIR).sink_to(sink).uid("totals of it")
        env.execute("following a table")

    return program


@pytest.mark.slow
@on_both_engines
@pytest.mark.parametrize("name", FORMATS)
def test_a_table_is_followed_into_another_over_a_killed_slot_and_a_savepoint(run_job, tmp_path, name):
    (tmp_path / "from").mkdir()
    (tmp_path / "to").mkdir()
    read, made = FORMATS[name](tmp_path / "from"), FORMATS[name](tmp_path / "to")
    with SinkTestHarness(read.sink()) as sink:
        sink.open()  # makes the table
    program = following(read.following(), made.sink(lambda builder: builder.with_row_type(PAIR)))
    added = Counter()

    def add(*words):
        read.write_beside([{"word": word, "n": 1} for word in words])
        added.update(words)

    def is_done():
        found = Counter(made.rows())
        assert set(found.values()) <= {1}, "doubled"
        return found == Counter((word, n) for word, count in added.items() for n in range(1, count + 1))

    add(*"abca")
    job = run_job(program, OPTIONS)
    job.wait_running()
    job.wait_for(is_done)
    add(*"bd")
    kill(sorted(job.master.slot_pids.values())[0])
    add(*"ca")
    job.wait_for(is_done)
    path = job.savepoint(tmp_path / "savepoints", stop=True)
    job.result()
    read.rewrite()
    add(*"de")
    job = run_job(program, {**OPTIONS, "execution.state-recovery.path": path, "parallelism.default": "3"})
    job.wait_for(is_done)
    job.savepoint(tmp_path / "savepoints", cancel=True)


@pytest.mark.slow
@on_both_engines
@pytest.mark.parametrize("name", FORMATS)
def test_slots_die_and_each_word_has_its_last_count(run_job, tmp_path, name):
    tables = FORMATS[name](tmp_path)
    watched, faults = Watched(tmp_path), Faults(tmp_path / "faults")
    sink = tables.sink(lambda builder: builder.with_row_type(PAIR).with_upsert_by("word"))

    def found():
        rows = tables.rows()
        last = dict(rows)
        assert len(last) == len(rows), "a word twice"
        return last

    def wanted():
        best = {}
        for word, count in watched.pairs:
            best[word] = max(count, best.get(word, 0))
        return best

    job = run_job(counting(watched, sink, faults), OPTIONS)
    job.wait_running()
    watched.add(1)
    job.wait_for(lambda: found() == wanted())
    faults.arm(Step.NOTIFY, Action.KILL)
    watched.add(1)
    job.wait_for(lambda: faults.struck(Step.NOTIFY))
    job.wait_for(lambda: found() == wanted())
    watched.add(1)
    kill(sorted(job.master.slot_pids.values())[0])
    job.wait_for(lambda: found() == wanted())
    path = job.savepoint(tmp_path / "savepoints", stop=True)
    job.result()
    watched.add(1)
    job = run_job(
        counting(watched, sink, faults), {**OPTIONS, "execution.state-recovery.path": path, "parallelism.default": "3"}
    )
    job.wait_for(lambda: found() == wanted())
    job.savepoint(tmp_path / "savepoints", cancel=True)
    faults.disarm()
