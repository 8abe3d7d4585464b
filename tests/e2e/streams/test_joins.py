"""On real Spark: an asynchronous lookup, an interval join of what comes of it, and a join in windows after that."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from pystate.common import Duration, Types, WatermarkStrategy
from pystate.common.time import Time
from pystate.common.watermark_strategy import TimestampAssigner
from pystate.datastream import AsyncDataStream, AsyncFunction, ProcessJoinFunction, StreamExecutionEnvironment
from pystate.datastream.window import TumblingEventTimeWindows
from tests.engines import on_both_engines
from tests.faults.workload import Sink

CLICK = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
PAIR = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
CLOSE_MS, WINDOW_MS = 50, 200


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Tenfold(AsyncFunction):
    async def async_invoke(self, value):
        await asyncio.sleep(0.001 * (value[2] % 4))
        return [(value[0], value[1], 10 * value[2])]


class Close(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left[0], left[2], right[2]


def key_of(value):
    return value[0]


def random_clicks(seed, count=150):
    chosen = random.Random(seed)
    return [(chosen.choice("abcde"), chosen.randrange(2_000), number) for number in range(count)]


@on_both_engines
@pytest.mark.slow
def test_joins_of_looked_up_elements_are_those_of_all_pairs(run_job):
    first, second, close, together = random_clicks(1), random_clicks(2), Sink(), Sink()

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2))
        timed = [
            env.from_collection(elements, CLICK).assign_timestamps_and_watermarks(
                strategy.with_timestamp_assigner(SecondField())
            )
            for elements in (first, second)
        ]
        looked_up = AsyncDataStream.unordered_wait(timed[0], Tenfold(), Time.seconds(60), 20, CLICK)
        left, right = (stream.key_by(key_of, Types.STRING()) for stream in (looked_up, timed[1]))
        interval = left.interval_join(right).between(Time.milliseconds(-CLOSE_MS), Time.milliseconds(CLOSE_MS))
        interval.upper_bound_exclusive().process(Close(), PAIR).for_each_batch(close)
        windows = looked_up.join(timed[1]).where(key_of, Types.STRING()).equal_to(key_of)
        windows = windows.window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
        windows.apply(lambda one, other: (one[0], one[2], other[2]), PAIR).for_each_batch(together)
        env.execute("joins")

    run_job(program, {"parallelism.default": "2"}).result()
    pairs = [(one, other) for one in first for other in second if one[0] == other[0]]
    assert close.rows == Counter(
        (one[0], 10 * one[2], other[2]) for one, other in pairs if -CLOSE_MS <= other[1] - one[1] < CLOSE_MS
    )
    assert together.rows == Counter(
        (one[0], 10 * one[2], other[2]) for one, other in pairs if one[1] // WINDOW_MS == other[1] // WINDOW_MS
    )
