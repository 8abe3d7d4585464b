"""Timers and processing-time windows on real Spark: on a stream that stands still, over a killed slot and a restore."""

from __future__ import annotations

import os
import signal
from collections import Counter

import pytest

from pystate.common import Types
from pystate.common.errors import JobCancelledError
from pystate.common.time import Time
from pystate.datastream import KeyedProcessFunction, ProcessWindowFunction, StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource
from pystate.datastream.window import TumblingProcessingTimeWindows
from tests.e2e.time.test_event_time import Folder
from tests.engines import MICRO_BATCH, REAL_TIME
from tests.faults.workload import COUNTED, RECOVERING, Keeping, Sink, kept_in
from tests.spark_lines import lines_by_spark

WORD = Types.STRING()
PAIR = Types.TUPLE([WORD, Types.LONG()])
WINDOW_MS = 2_000


class Alarm(KeyedProcessFunction):
    """Emits each element, and sets a timer by the clock for it, which emits a row of another key."""

    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + 300)
        yield value, 1

    def on_timer(self, timestamp, ctx):
        assert ctx.timer_service().current_processing_time() >= timestamp
        yield f"alarm {ctx.get_current_key()}", timestamp


class Number(ProcessWindowFunction[str, tuple, str, object]):
    def process(self, key, context, elements):
        yield key, sum(1 for _ in elements)


def by_clock(folder, seen, counted, by_spark=False):
    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        source = FileSource(str(folder.path), monitor_interval_ms=300, max_files_per_epoch=1)
        lines = (
            lines_by_spark(env, folder.path, "words", 1) if by_spark else env.from_source(source, None, "words").uid("words")
        )
        words = lines.key_by(lambda word: word, WORD)
        words.process(Alarm(), PAIR).uid("alarms").for_each_batch(seen)
        windows = words.window(TumblingProcessingTimeWindows.of(Time.milliseconds(WINDOW_MS)))
        counts = windows.process(Number(), PAIR).uid("windows")
        counts.for_each_batch(counted)
        counts.map(lambda count: count, COUNTED).add_sink(Keeping()).uid("kept")
        env.execute("by the clock")

    return program


class FailsOnce:
    """Takes note of what it is given by the epoch's number, and fails after the first rows of a word."""

    def __init__(self, word):
        self.word = word
        self.given = []

    def __call__(self, frame, epoch):
        rows = sorted((row[0], row[1]) for row in frame.collect())
        again = any(self.word in dict(before) for _, before in self.given)
        self.given.append((epoch, rows))
        if self.word in dict(rows) and not again:
            message = "the sink fails after its first rows"
            raise RuntimeError(message)


def total(sink, words):
    found = Counter()
    for (word, count), times in sink.rows.items():
        found[word] += count * times
    return {word: found[word] for word in words}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "every_epoch"),
    [
        pytest.param(MICRO_BATCH, False, id="False"),
        pytest.param(MICRO_BATCH, True, id="True"),
        pytest.param(REAL_TIME, False, id="False-real-time"),
    ],
    indirect=["engine"],
)
def test_what_is_due_by_the_clock_comes_out_of_an_idle_stream_once_over_failures(run_job, tmp_path, every_epoch):
    folder, seen, counted = Folder(tmp_path), Sink(), Sink()
    options = dict(RECOVERING)
    if every_epoch:
        del options["execution.checkpointing.interval"]
        options["execution.checkpointing.every-epoch"] = "true"

    def out(words):
        return lambda: all(n >= folder.lines.count(word) for word, n in total(counted, words).items())

    def read(word):
        return lambda: seen.rows[(word, 1)] >= folder.lines.count(word)

    job = run_job(by_clock(folder, seen, counted, every_epoch), options)
    folder.add(["a", "b", "a"])
    job.wait_for(out(["a", "b"]))  # no row comes any more
    job.wait_for(lambda: {"alarm a", "alarm b"} <= {name for name, _ in seen.rows})
    folder.add(["c"] * 5)
    job.wait_for(read("c"))
    os.kill(next(iter(job.master.slot_pids.values())), signal.SIGKILL)
    job.wait_for(out(["c"]))
    assert job.status["attempt"] > 0
    folder.add(["d"] * 7)
    job.wait_for(read("d"))
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    resumed = run_job(by_clock(folder, seen, counted, every_epoch), {**options, "execution.state-recovery.path": path})
    resumed.wait_for(lambda: resumed.status["state"] == "RUNNING" and out(["d"])())  # and no row has come since
    saved = resumed.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        resumed.result()
    kept = Counter()
    for (word, count), times in Counter(kept_in(saved, "kept")).items():
        kept[word] += count * times
    assert kept == Counter(folder.lines), "lost 0, doubled 0"


@pytest.mark.slow
def test_rows_that_are_run_again_keep_their_number_though_timers_may_be_due(run_job, tmp_path):
    folder, sink = Folder(tmp_path), FailsOnce("b")
    options = dict(RECOVERING)
    del options["execution.checkpointing.interval"]
    options["execution.checkpointing.every-epoch"] = "true"

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        words = lines_by_spark(env, folder.path, "words", 1).key_by(lambda word: word, WORD)
        words.process(Alarm(), PAIR).uid("alarms").for_each_batch(sink)
        env.execute("run again")

    job = run_job(program, options)
    folder.add(["a"])
    job.wait_for(lambda: any(rows and rows[0][0] == "alarm a" for _, rows in sink.given))
    folder.add(["b", "b"])
    job.wait_for(lambda: any(rows and rows[0][0] == "alarm b" for _, rows in sink.given))
    job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    of_b = [(epoch, rows) for epoch, rows in sink.given if "b" in dict(rows)]
    assert len(of_b) == 2
    assert of_b[0] == of_b[1], "the same rows under the same number, so that a sink that knows it takes them once"
    of_number = [rows for epoch, rows in sink.given if epoch == of_b[0][0]]
    assert of_number == [rows for _, rows in of_b], "nothing else came under that number"
