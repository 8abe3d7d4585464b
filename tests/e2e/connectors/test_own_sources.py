"""Sources that run as tasks in slots, on real Spark: their end, kills, savepoints, other parallelisms, beside Spark's."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter as Counts

import pytest

from pystate.common import Types
from pystate.common.configuration.groups.execution_options import RuntimeExecutionMode
from pystate.common.errors import JobExecutionError, JobGraphError, UserFunctionError
from pystate.connectors.source import SourceFunction
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.data_generator import DataGeneratorSource, RateLimiterStrategy
from pystate.datastream.connectors.file_system import FileSource
from pystate.datastream.connectors.number_seq import NumberSequenceSource
from tests.connectors.own_sources import Counter, Raising
from tests.e2e.time.test_event_time import Folder
from tests.engines import MICRO_BATCH, REAL_TIME, on_both_engines, on_micro_batch, slowly_on_real_time
from tests.faults.workload import COUNTED, RECOVERING, Keeping, kept_in
from tests.waiting import LONGEST_S

LONG = Types.LONG()


class Collected:
    """What `for_each_batch` has brought."""

    def __init__(self):
        self.rows = Counts()

    def __call__(self, frame, epoch):
        self.rows.update(tuple(row) for row in frame.collect())


def named(stream, name):
    return stream.map(lambda number: (name, number), COUNTED)


@pytest.mark.parametrize(
    ("engine", "mode"),
    [
        pytest.param(MICRO_BATCH, "streaming", id="streaming"),
        pytest.param(MICRO_BATCH, "batch", id="batch"),
        pytest.param(REAL_TIME, "streaming", id="streaming-real-time", marks=pytest.mark.slow),
    ],
    indirect=["engine"],
)
def test_a_job_of_own_sources_ends_at_their_last_element(run_job, mode):
    seen = Collected()

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        numbers = named(env.from_source(NumberSequenceSource(1, 10_000), None, "numbers").uid("numbers"), "sum")
        if mode == "streaming":
            count = named(env.add_source(Counter(5000), "count", LONG).uid("count"), "counter")
            numbers = numbers.union(count)
        else:
            env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        totals = numbers.key_by(lambda row: row[0], Types.STRING()).reduce(lambda a, b: (a[0], a[1] + b[1])).uid("total")
        totals.for_each_batch(seen)
        env.execute("own sources")

    job = run_job(program)
    job.result()
    assert job.status["state"] == "FINISHED"
    best = {name: max(total for other, total in seen.rows if other == name) for name, _ in seen.rows}
    if mode == "batch":
        assert seen.rows == {("sum", 50_005_000): 1}
        return
    assert best == {"sum": 50_005_000, "counter": sum(range(5000))}
    progress = job.master.engine.progress()["records"]
    assert (progress["numbers"]["write-records"], progress["count"]["write-records"]) == (10_000, 5000)
    metrics = {store.name: store.parallelism for store in job.master.metrics().tasks}
    assert (metrics["Source: numbers"], metrics["Source: count"]) == (2, 1)


class Paced(Counter):
    """Counts about 2000 a second."""

    def run(self, ctx):
        while self.running and self.offset < self.end:
            with ctx.get_checkpoint_lock():
                ctx.collect(self.offset)
                self.offset += 1
            if self.offset % 20 == 0:
                time.sleep(0.01)


def slowly(number):
    time.sleep(0.0005)
    return "numbers", number


@on_both_engines
@pytest.mark.slow
def test_golden_run_over_a_killed_slot_and_a_savepoint_at_other_parallelisms_beside_a_source_of_sparks(run_job, tmp_path):
    folder, ends = Folder(tmp_path), 10_000

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        numbers = env.from_source(NumberSequenceSource(0, ends - 1), None, "numbers").uid("numbers").map(slowly, COUNTED)
        count = named(env.add_source(Paced(1 << 40), "count", LONG).uid("count"), "count")
        rate = RateLimiterStrategy.per_second(1000)
        made = env.from_source(DataGeneratorSource(lambda n: n, None, rate, LONG), None, "made").uid("made")
        files = env.from_source(FileSource(str(folder.path), monitor_interval_ms=300), None, "files").uid("files")
        lines = files.map(lambda line: ("lines", int(line)), COUNTED)
        numbers.union(count, named(made, "made"), lines).rebalance().add_sink(Keeping()).uid("kept")
        env.execute("golden run")

    def check(path):
        kept = Counts(kept_in(path))
        assert set(kept.values()) == {1}, "doubled 0"
        for name in ("numbers", "count", "lines"):
            found = sorted(number for other, number in kept if other == name)
            if name != "numbers" or len(found) == ends:
                assert found == list(range(len(found))), "lost 0"
        return Counts(name for name, _ in kept)

    folder.add([str(number) for number in range(50)])
    job = run_job(program, {**RECOVERING, "parallelism.default": "1"})

    def completed(job, more):
        before = job.master.coordinator.latest_snapshot()
        before = 0 if before is None else before.metadata.checkpoint_id

        def has():
            latest = job.master.coordinator.latest_snapshot()
            return latest is not None and latest.metadata.checkpoint_id >= before + more

        return has

    job.wait_for(completed(job, 2))
    os.kill(next(iter(job.master.slot_pids.values())), signal.SIGKILL)
    job.wait_for(lambda: job.status["attempt"] > 0 and job.status["state"] == "RUNNING")
    folder.add([str(number) for number in range(50, 80)])
    job.wait_for(completed(job, 2))
    path = job.savepoint(tmp_path / "savepoints", stop=True)
    job.result()
    first = check(path)
    assert 0 < first["numbers"] < ends
    resumed = run_job(program, {**RECOVERING, "parallelism.default": "3", "execution.state-recovery.path": path})
    resumed.wait_for(lambda: resumed.status["state"] == "RUNNING")
    folder.add([str(number) for number in range(80, 100)])
    done = Counts()
    while done["numbers"] < ends or done["lines"] < 100:
        resumed.wait_for(completed(resumed, 1))
        path = resumed.savepoint(tmp_path / "savepoints")
        done = check(path)
    assert done["count"] > first["count"]
    assert done["made"] > first["made"]


@slowly_on_real_time
def test_what_run_raises_fails_the_job_with_its_trace(run_job):
    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        env.add_source(Raising(), "broken").uid("broken").print()
        env.execute("raises")

    job = run_job(program, {"restart-strategy.type": "none"})
    with pytest.raises((UserFunctionError, JobExecutionError), match="ConnectionError: the broker is gone"):
        job.result()
    assert "own_sources.py" in str(job.status)


@pytest.mark.slow
@on_both_engines
def test_a_job_whose_checkpoints_complete_may_fail_at_one_line_as_often_as_its_strategy_allows(run_job, tmp_path):
    """And keeps no connection of the attempts before, though Spark keeps their processes."""
    sign = tmp_path / "sign"

    def fails(number):
        if sign.exists():
            sign.unlink()
            raise ConnectionError
        return number

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        made = DataGeneratorSource(lambda n: n, None, RateLimiterStrategy.per_second(500), LONG)
        env.from_source(made, None, "made").uid("made").map(fails, LONG).filter(lambda n: n < 0).print()
        env.execute("fails often")

    job = run_job(program, {**RECOVERING, "parallelism.default": "2"})
    connections = []
    for failures in range(1, 6):
        before = job.master.coordinator.statistics()["counts"]["completed"]
        job.wait_for(lambda before=before: job.master.coordinator.statistics()["counts"]["completed"] > before)
        sign.touch()
        job.wait_for(lambda failures=failures: job.status["attempt"] == failures and job.status["state"] == "RUNNING")
        connections.append([thread.name for thread in threading.enumerate()].count("control"))
    job.cancel()
    assert connections[-1] < connections[0] + 4, connections


class Waits(SourceFunction):
    """Gives an element when a file appears."""

    def __init__(self, path):
        self.path = path
        self.running = True

    def run(self, ctx):
        while self.running:
            if os.path.exists(self.path):
                os.remove(self.path)
                ctx.collect("came")
            time.sleep(0.01)

    def cancel(self):
        self.running = False


@on_micro_batch
@pytest.mark.slow
def test_an_idle_source_runs_no_epochs_and_wakes_the_job_and_is_drained(run_job, tmp_path):
    seen, sign = Collected(), tmp_path / "sign"

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        texts = env.add_source(Waits(str(sign)), "waits").uid("waits")
        texts.map(lambda text: (text,), Types.TUPLE([Types.STRING()])).for_each_batch(seen)
        env.execute("waits")

    job = run_job(program)
    job.wait_for(lambda: job.master.engine.progress()["epoch"] == 0)  # which found nothing
    before = job.master.engine.progress()["epoch"]
    for number in range(1, 3):
        sign.touch()
        job.wait_for(lambda number=number: seen.rows[("came",)] == number)
    assert job.master.engine.progress()["epoch"] - before <= 4  # none but those that it woke
    assert job.master.engine.progress()["epochs"]  # though Spark has no query that tells of them
    job.master.savepoint(str(tmp_path / "savepoints"), stop=True, cancel=False, drain=True).result(LONGEST_S)
    job.result()
    assert job.status["state"] == "FINISHED"


@on_micro_batch
def test_epochs_that_are_run_again_are_refused_with_sources_in_slots(run_job):
    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_source(NumberSequenceSource(1, 2), None, "numbers").print()
        env.execute("every epoch")

    job = run_job(program, {"execution.checkpointing.every-epoch": "true"})
    with pytest.raises(JobGraphError, match="'Source: numbers' runs in slots.*every-epoch") as refused:
        job.result()
    assert "set execution.checkpointing.interval instead: sinks that commit are exactly-once with it" in refused.value.hint
