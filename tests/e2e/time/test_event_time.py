"""Event time in jobs on real Spark: windows after windows, over a killed slot, a restore and another parallelism."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from pathlib import Path

import pytest

from pystate.common import Duration, Types, WatermarkStrategy
from pystate.common.errors import CheckpointFailedError, JobCancelledError, PystateError
from pystate.common.time import Time
from pystate.common.watermark_strategy import TimestampAssigner
from pystate.datastream import KeyedProcessFunction, ProcessWindowFunction, StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource
from pystate.datastream.window import ContinuousEventTimeTrigger, GlobalWindows, PurgingTrigger, TumblingEventTimeWindows
from tests.engines import REAL_TIME, on_micro_batch, slowly_on_real_time
from tests.faults.workload import COUNTED as KEPT
from tests.faults.workload import RECOVERING, Keeping, Sink, kept_in
from tests.spark_lines import lines_by_spark
from tests.waiting import LONGEST_S

WORD = Types.STRING()
COUNTED = Types.TUPLE([WORD, Types.LONG(), Types.LONG()])
SMALL, LARGE = 2_000, 6_000
BOUND = 3_000
END = 1 << 40
EPOCH_2026 = 1_767_225_600


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return int(value.partition(",")[2])


class Count(ProcessWindowFunction[str, tuple, str, object]):
    def process(self, key, context, elements):
        yield key, context.window().start, sum(1 for _ in elements)


class Total(ProcessWindowFunction[tuple, tuple, str, object]):
    def process(self, key, context, elements):
        yield key, context.window().start, sum(element[2] for element in elements)


class Number(ProcessWindowFunction[str, tuple, str, object]):
    def process(self, key, context, elements):
        yield key, 0, sum(1 for _ in elements)


class Latest(KeyedProcessFunction):
    """Emits each time that it has seen by a timer for it, with what the service says of event time."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(ctx.timestamp())

    def on_timer(self, timestamp, ctx):
        assert ctx.timer_service().current_watermark() >= timestamp
        yield ctx.get_current_key(), timestamp, 1


def windows(lines, first, second, strategy=True, kept=False):
    """Count words in windows, and all of them in larger ones after those."""
    if strategy:
        bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND))
        lines = lines.assign_timestamps_and_watermarks(bounded.with_timestamp_assigner(Second()))
    small = lines.key_by(lambda line: line.partition(",")[0], WORD).window(
        TumblingEventTimeWindows.of(Time.milliseconds(SMALL))
    )
    counts = small.process(Count(), COUNTED).uid("small")
    large = counts.key_by(lambda count: "all", WORD).window(TumblingEventTimeWindows.of(Time.milliseconds(LARGE)))
    totals = large.process(Total(), COUNTED).uid("large")
    counts.for_each_batch(first)
    totals.for_each_batch(second)
    if kept:  # in state, so that a failure neither loses nor doubles any
        for stream, uid in ((counts, "kept small"), (totals, "kept large")):
            stream.map(lambda count: (f"{count[0]} {count[1]}", count[2]), KEPT).add_sink(Keeping()).uid(uid)


def expected(lines, below=END):
    """What both windows give, of those that end before a time."""
    pairs = [(word, int(time)) for word, _, time in (line.partition(",") for line in lines)]
    small = Counter((word, time // SMALL * SMALL) for word, time in pairs)
    large = Counter(time // LARGE * LARGE for _, time in pairs)
    return (
        Counter({(word, start, count): 1 for (word, start), count in small.items() if start + SMALL <= below}),
        Counter({("all", start, count): 1 for start, count in large.items() if start + LARGE <= below}),
    )


def kept(path):
    """What both windows have given, each as often as it was, as a savepoint holds it."""
    found = [Counter(kept_in(path, uid)) for uid in ("kept small", "kept large")]
    return tuple(Counter({(*unmarked(mark), count): times for (mark, count), times in rows.items()}) for rows in found)


def unmarked(mark):
    word, start = mark.split()
    return word, int(start)


def random_lines(seed, count, start=0, span=20_000):
    chosen = random.Random(seed)
    return [f"w{chosen.randrange(5)},{start + chosen.randrange(span)}" for _ in range(count)]


@slowly_on_real_time
@pytest.mark.parametrize("parallelism", [pytest.param("1", marks=pytest.mark.slow), "2"])
def test_windows_of_a_bounded_collection_are_those_of_an_offline_count(run_job, engine, parallelism):
    lines, first, second, timers, whole = random_lines(1, 400), Sink(), Sink(), Sink(), Sink()

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        words = env.from_collection(lines, WORD)
        windows(words, first, second)
        timed = words.assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
        )
        keyed = timed.key_by(lambda line: line.partition(",")[0], WORD)
        keyed.process(Latest(), COUNTED).for_each_batch(timers)
        trigger = PurgingTrigger.of(ContinuousEventTimeTrigger.of(Time.seconds(1)))
        keyed.window(GlobalWindows.create()).trigger(trigger).process(Number(), COUNTED).for_each_batch(whole)
        env.execute("bounded windows")

    options = {"parallelism.default": parallelism}
    if engine == REAL_TIME:  # or what reads slowly finds lines late that are out of order by more than the bound
        options["pipeline.auto-watermark-interval"] = "1 h"
    run_job(program, options).result()
    assert (first.rows, second.rows) == expected(lines)
    times = {(word, int(time), 1) for word, _, time in (line.partition(",") for line in lines)}
    assert timers.rows == Counter(times)
    numbers = Counter()
    for (word, _, number), times_emitted in whole.rows.items():
        numbers[word] += number * times_emitted
    assert numbers == Counter(line.partition(",")[0] for line in lines)


class Folder:
    """Files of lines, each later than those of the file before by no more than windows wait for."""

    def __init__(self, root: Path) -> None:
        self.path = root / "lines"
        self.path.mkdir(parents=True)
        self.lines: list[str] = []
        self.files = 0

    def add(self, lines: list[str]) -> None:
        self.lines += lines
        part = self.path.with_name("part")
        part.write_text("\n".join(lines))
        os.utime(part, (EPOCH_2026 + self.files,) * 2)  # Spark reads files in the order of their times
        part.rename(self.path / f"{self.files:04}.txt")
        self.files += 1


def counting(folder, first, second, *, interval=500, kept=True):
    """The program over a folder; to its end where there is no interval.

    It has one reader: event time of a reader stands still while others get the files, and which one gets one is chance.
    """

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND))
        source = FileSource(str(folder.path), monitor_interval_ms=interval, max_files_per_epoch=1)
        lines = env.from_source(source, strategy.with_timestamp_assigner(Second()), "lines").uid("lines")
        windows(lines.set_parallelism(1), first, second, strategy=False, kept=kept)
        env.execute("windows of files")

    return program


@pytest.mark.slow
@on_micro_batch
@pytest.mark.timeout(600)
def test_golden_run_of_windows_over_a_killed_slot_a_restore_another_backend_and_other_parallelisms(run_job, tmp_path):
    """Parallelism 2 with checkpoints and a killed slot, then 3 on the other backend, gives what 1 gives in one go."""
    folder, first, second = Folder(tmp_path), Sink(), Sink()

    def out(below):
        """Whether all windows that end before a time are out, in both levels."""
        small, large = expected(folder.lines, below)
        return lambda: set(small) <= set(first.rows) and set(large) <= set(second.rows)

    options = {**RECOVERING, "state.backend.type": "rocksdb"}
    for number in range(3):
        folder.add(random_lines(number, 60, number * 2_000, 2_500))
    folder.add(["w0,7000"])  # the watermark is 3,999: in the middle of windows
    job = run_job(counting(folder, first, second), options)
    job.wait_for(out(2_000))
    os.kill(next(iter(job.master.slot_pids.values())), signal.SIGKILL)
    folder.add([f"w{number},{12_000 + number}" for number in range(5)])
    job.wait_for(out(8_000))
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    assert job.status["attempt"] > 0
    assert kept(path) == expected(folder.lines, 9_003), "the larger window is not full yet"
    folder.add(["w1,9001", "w9,9500"])  # in windows that are open, one of them after the watermark of the savepoint
    resumed_options = {"execution.state-recovery.path": path, "parallelism.default": "3", "state.backend.type": "hashmap"}
    resumed = run_job(counting(folder, first, second), resumed_options)
    folder.add(["w0,40000"])
    resumed.wait_for(out(36_000))
    saved = resumed.master.savepoint(str(tmp_path / "drained"), stop=True, cancel=False, drain=True).result(LONGEST_S)
    resumed.result()
    assert kept(saved.path) == expected(folder.lines), "draining lets all windows fire, each once"
    golden = Sink(), Sink()
    run_job(counting(folder, *golden, interval=None, kept=False), {"parallelism.default": "1"}).result()
    assert (golden[0].rows, golden[1].rows) == kept(saved.path)


class PerEpoch:
    """A sink that tells epochs apart by their numbers, as an idempotent one does."""

    def __init__(self):
        self.epochs = {}

    def __call__(self, frame, epoch):
        self.epochs[epoch] = Counter(tuple(row) for row in frame.collect())

    @property
    def rows(self):
        return sum(self.epochs.values(), Counter())


@pytest.mark.slow
@on_micro_batch
def test_two_sources_are_drained_with_a_barrier_on_every_epoch_though_a_drain_before_failed(run_job, tmp_path):
    left, right, first, second = Folder(tmp_path / "l"), Folder(tmp_path / "r"), PerEpoch(), PerEpoch()

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND)).with_timestamp_assigner(
            Second()
        )
        streams = [
            lines_by_spark(env, folder.path, name).assign_timestamps_and_watermarks(strategy)
            for name, folder in (("left", left), ("right", right))
        ]
        windows(streams[0].union(streams[1]), first, second, strategy=False)
        env.execute("two sources")

    left.add(random_lines(1, 80, 0, 9_000) + ["w0,30000"])
    right.add(random_lines(2, 80, 0, 9_000) + ["w1,13000"])  # the slower one: the watermark is 9,999
    job = run_job(program, {"execution.checkpointing.every-epoch": "true", "parallelism.default": "2"})
    job.wait_for(lambda: set(expected(left.lines + right.lines, 9_999)[0]) <= set(first.rows))
    blocked = tmp_path / "a file"
    blocked.touch()
    with pytest.raises(PystateError):
        job.master.savepoint(str(blocked / "in it"), stop=True, cancel=False, drain=True).result(LONGEST_S)
    right.add(random_lines(3, 40, 11_000, 9_000) + ["w1,23000"])
    job.wait_for(lambda: set(expected(left.lines + right.lines, 18_000)[0]) <= set(first.rows))
    assert job.status["attempt"] == 0, "the job has gone on as if nobody had asked"
    saved = job.master.savepoint(str(tmp_path / "drained"), stop=True, cancel=False, drain=True)
    with pytest.raises(CheckpointFailedError, match="being drained already"):
        job.master.savepoint(None, stop=True, cancel=False, drain=True)
    assert saved.result(LONGEST_S).path.startswith((tmp_path / "drained").as_uri().replace("file://", "file:"))
    job.result()
    assert (first.rows, second.rows) == expected(left.lines + right.lines)
