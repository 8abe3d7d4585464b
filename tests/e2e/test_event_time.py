"""Event time in jobs on real Spark: windows behind windows, over a killed slot, a restore and another parallelism."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from pathlib import Path

import pytest

from pystate.common import Duration, Types, WatermarkStrategy
from pystate.common.errors import JobCancelledError
from pystate.common.time import Time
from pystate.common.watermark_strategy import TimestampAssigner
from pystate.datastream import KeyedProcessFunction, ProcessWindowFunction, StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource
from pystate.datastream.window import ContinuousEventTimeTrigger, GlobalWindows, PurgingTrigger, TumblingEventTimeWindows
from tests.faults.workload import RECOVERING, Sink

WORD = Types.STRING()
COUNTED = Types.TUPLE([WORD, Types.LONG(), Types.LONG()])
SMALL, LARGE = 2_000, 6_000
BOUND = 3_000
END = 1 << 40


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


def windows(lines, first, second, strategy=True):
    """Count words in windows, and all of them in larger ones behind those."""
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


def expected(lines, below=END):
    """What both windows give, of those that end in front of a time."""
    pairs = [(word, int(time)) for word, _, time in (line.partition(",") for line in lines)]
    small = Counter((word, time // SMALL * SMALL) for word, time in pairs)
    large = Counter(time // LARGE * LARGE for _, time in pairs)
    return (
        Counter({(word, start, count): 1 for (word, start), count in small.items() if start + SMALL <= below}),
        Counter({("all", start, count): 1 for start, count in large.items() if start + LARGE <= below}),
    )


def random_lines(seed, count, start=0, span=20_000):
    chosen = random.Random(seed)
    return [f"w{chosen.randrange(5)},{start + chosen.randrange(span)}" for _ in range(count)]


@pytest.mark.parametrize("parallelism", ["1", "2"])
def test_windows_of_a_bounded_collection_are_those_of_an_offline_count(run_job, parallelism):
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

    run_job(program, {"parallelism.default": parallelism}).result()
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
        self.path.mkdir()
        self.lines: list[str] = []
        self.files = 0

    def add(self, lines: list[str]) -> None:
        self.lines += lines
        part = self.path.with_name("part")
        part.write_text("\n".join(lines))
        part.rename(self.path / f"{self.files:04}.txt")
        self.files += 1


@pytest.mark.slow
def test_windows_of_files_are_whole_over_a_killed_slot_a_restore_and_another_parallelism(run_job, tmp_path):
    folder, first, second = Folder(tmp_path), Sink(), Sink()

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND)).with_timestamp_assigner(
            Second()
        )
        lines = env.from_source(FileSource(str(folder.path), monitor_interval_ms=500), strategy, "lines").uid("lines")
        windows(lines, first, second, strategy=False)
        env.execute("windows of files")

    def out(below):
        """Whether all windows that end in front of a time are out, in both levels."""
        small, large = expected(folder.lines, below)
        return lambda: set(small) <= set(first.rows) and set(large) <= set(second.rows)

    options = {**RECOVERING, "state.backend.type": "rocksdb"}
    for number in range(3):
        folder.add(random_lines(number, 60, number * 2_000, 2_500))
    folder.add(["w0,7000"])  # the watermark is 3,999: in the middle of windows
    job = run_job(program, options)
    job.wait_for(out(2_000))
    os.kill(next(iter(job.master.slot_pids.values())), signal.SIGKILL)
    folder.add([f"w{number},{12_000 + number}" for number in range(5)])
    job.wait_for(out(8_000))
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    assert not [row for row in second.rows if row[1] == LARGE], "the larger window is not full yet"
    folder.add(["w1,9001", "w9,9500"])  # above the watermark that the savepoint holds
    resumed = run_job(program, {"execution.state-recovery.path": path, "parallelism.default": "3"})
    folder.add(["w0,40000"])
    resumed.wait_for(out(36_000))
    small, large = expected(folder.lines, 36_000)
    assert (set(first.rows), set(second.rows)) == (set(small), set(large))
    resumed.master.savepoint(str(tmp_path / "drained"), stop=True, cancel=False, drain=True).result(60)
    resumed.result()
    small, large = expected(folder.lines)
    assert (set(first.rows), set(second.rows)) == (set(small), set(large)), "draining lets all windows fire"
