"""A job in BATCH mode on Spark, its results taken by the program: one result per key, in the order of time."""

from __future__ import annotations

from collections import Counter

import pytest

from pystate.common import Types, WatermarkStrategy
from pystate.common.errors import CheckpointFailedError, JobGraphError
from pystate.common.time import Time
from pystate.common.watermark_strategy import TimestampAssigner
from pystate.datastream import (
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from pystate.datastream.connectors.file_system import FileSource
from pystate.datastream.window import TumblingEventTimeWindows, TumblingProcessingTimeWindows
from tests.faults.workload import Sink

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
PAIRS = [(f"k{number % 7}", (number * 37) % 100) for number in range(100)]
KEYS = sorted({key for key, _ in PAIRS})


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class InOrder(KeyedProcessFunction):
    """Emits the numbers of a key with its last timer."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def process_element(self, value, ctx):
        self.seen.add(ctx.timestamp())
        ctx.timer_service().register_event_time_timer(1)
        ctx.timer_service().register_processing_time_timer(1 << 50)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), ctx.time_domain().name, list(self.seen.get())


class Alternating(KeyedCoProcessFunction):
    def process_element1(self, value, ctx):
        yield value[0], ctx.timestamp() * 2

    def process_element2(self, value, ctx):
        yield value[0], ctx.timestamp() * 2 + 1


def by_key(value):
    return value[0]


def added(first, second):
    return first[0], first[1] + second[1]


def test_each_key_has_its_final_results_in_the_order_of_time(run_job):
    summed, levels, clocked, windows = Sink(), Sink(), Sink(), Sink()
    collected, in_order = [], []

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)
        pairs = env.from_collection(PAIRS, PAIR).uid("pairs")
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
        timed = pairs.assign_timestamps_and_watermarks(strategy)
        keyed = timed.key_by(by_key, Types.STRING())
        total = pairs.key_by(by_key, Types.STRING()).reduce(added).uid("reduced")
        total.for_each_batch(summed)
        total.map(lambda pair: ("all", pair[1]), PAIR).key_by(by_key, Types.STRING()).sum(1).uid("all").for_each_batch(
            levels
        )
        keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(10))).reduce(added).uid("windows").for_each_batch(windows)
        by_clock = pairs.key_by(by_key, Types.STRING()).window(TumblingProcessingTimeWindows.of(Time.days(1)))
        by_clock.reduce(added).uid("by the clock").for_each_batch(clocked)
        keyed.process(InOrder()).uid("in order").for_each_batch(lambda frame, _: in_order.extend(frame.collect()))
        both = keyed.connect(timed.key_by(by_key, Types.STRING())).process(Alternating(), PAIR).uid("both")
        collected.extend(both.execute_and_collect("batch"))

    job = run_job(program)
    job.result()

    sums = Counter()
    for key, number in PAIRS:
        sums[key] += number
    by_window = Counter()
    for key, number in PAIRS:
        by_window[key, number // 10] += number
    assert summed.rows == clocked.rows == Counter(sums.items())
    assert levels.rows == Counter([("all", sum(sums.values()))])
    assert windows.rows == Counter((key, total) for (key, _), total in by_window.items())
    assert [sink.epochs for sink in (summed, levels, windows)] == [[0]] * 3
    assert len(in_order) == 2 * len(KEYS)
    for key in KEYS:
        numbers = sorted(number for other, number in PAIRS if other == key)
        assert [number for other, number in collected if other == key] == sorted(
            [*(2 * number for number in numbers), *(2 * number + 1 for number in numbers)]
        )
    assert job.status["checkpoint_config"]["interval"] in (None, -1, 0x7FFFFFFFFFFFFFFF)
    with pytest.raises(CheckpointFailedError, match="is not a streaming job"):
        job.master.savepoint(None, stop=False, cancel=False)


@pytest.mark.parametrize("monitored", [False, True])
def test_bounds_of_what_an_epoch_reads_don_t_bound_batch_mode(run_job, tmp_path, monitored):
    """Many files, of which an epoch would have one: each key has one result still."""
    folder, counted = tmp_path / "files", Sink()
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.txt").write_text("\n".join(key for key, _ in PAIRS))

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        source = FileSource(str(folder), monitor_interval_ms=100 if monitored else None, max_files_per_epoch=1)
        keys = env.from_source(source, None, "files").map(lambda key: (key, 1), PAIR)
        keys.key_by(by_key, Types.STRING()).reduce(added).uid("counted").for_each_batch(counted)
        env.execute("files in batch mode")

    job = run_job(program, {"pystate.source.max-bytes-per-epoch": "1 b"})
    if monitored:
        with pytest.raises(JobGraphError):
            job.result()
        return
    job.result()
    assert counted.rows == Counter((key, 5 * count) for key, count in Counter(key for key, _ in PAIRS).items())
    assert counted.epochs == [0]
