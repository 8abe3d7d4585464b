"""A program with calls under way and all kinds of joins for the real-time engine, and what it has to give."""

from __future__ import annotations

import asyncio
import zlib
from collections import Counter

from pystate.common import Duration, Encoder, Types, WatermarkStrategy
from pystate.common.time import Time
from pystate.common.watermark_strategy import TimestampAssigner
from pystate.connectors.generated.data_generator_source import DataGeneratorSource, RateLimiterStrategy
from pystate.datastream import AsyncDataStream, AsyncFunction, CoGroupFunction, ProcessJoinFunction
from pystate.datastream.async_retry_predicates import has_exception_predicate
from pystate.datastream.async_retry_strategies import FixedDelayRetryStrategy
from pystate.datastream.connectors.file_system import FileSink, RollingPolicy
from pystate.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows

CLICK = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
TEXT = Types.STRING()
LATENESS_MS, BELOW_MS, ABOVE_MS, TUMBLE_MS, SIZE_MS, SLIDE_MS = 300, 30, 20, 100, 400, 200
RETRY = FixedDelayRetryStrategy(3, 20, None, has_exception_predicate)


def click(side, number):
    mixed = zlib.crc32(f"{side} {number}".encode())
    return f"k{mixed % 7}", number * 2 + mixed // 7 % LATENESS_MS, number


def left(number):
    return click("left", number)


def right(number):
    return click("right", number)


def times_out(number):
    return number % 50 == 7


class Tenfold(AsyncFunction):
    """Some calls take long, some fail at first, and some never answer."""

    def open(self, runtime_context):
        self.tried = set()

    async def async_invoke(self, value):
        number = value[2]
        await asyncio.sleep(3600 if times_out(number) else number % 5 * 0.002)
        if number % 10 == 3 and number not in self.tried:
            self.tried.add(number)
            raise ValueError(number)
        return [asked(value)]

    def timeout(self, value):
        return [asked(value)]


def asked(value):
    return value[0], value[1], 10 * value[2] + times_out(value[2])


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Close(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield f"close {left[2]} {right[2]} {ctx.get_timestamp()}"


class Groups(CoGroupFunction):
    def co_group(self, first, second):
        yield grouped(first, second)


def grouped(first, second):
    return f"group {sorted(value[2] for value in first)}|{sorted(value[2] for value in second)}"


def both(one, other):
    return f"both {one[2]} {other[2]}"


def key_of(value):
    return value[0]


def joins(folder, count, per_second):
    """Return the program: clicks that are looked up, joined with others in three ways, into files."""

    def program(environment):
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(LATENESS_MS))
        strategy = strategy.with_timestamp_assigner(SecondField())

        def clicks(side):
            source = DataGeneratorSource(side, count, RateLimiterStrategy.per_second(per_second), CLICK)
            return environment.from_source(source, strategy, side.__name__).uid(side.__name__)

        first, second = clicks(left), clicks(right)
        first = AsyncDataStream.unordered_wait_with_retry(first, Tenfold(), Time.milliseconds(500), RETRY, 50, CLICK)
        first = first.uid("asked")
        close = first.key_by(key_of, TEXT).interval_join(second.key_by(key_of, TEXT))
        close = close.between(Time.milliseconds(-BELOW_MS), Time.milliseconds(ABOVE_MS)).lower_bound_exclusive()
        tumbling = TumblingEventTimeWindows.of(Time.milliseconds(TUMBLE_MS))
        sliding = SlidingEventTimeWindows.of(Time.milliseconds(SIZE_MS), Time.milliseconds(SLIDE_MS))
        found = close.process(Close(), TEXT).uid("close")
        pairs = first.join(second).where(key_of, TEXT).equal_to(key_of).window(tumbling).apply(both, TEXT).uid("both")
        groups = first.co_group(second).where(key_of, TEXT).equal_to(key_of).window(sliding).apply(Groups(), TEXT)
        sink = FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
        sink = sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
        found.union(pairs, groups.uid("groups")).sink_to(sink).uid("files")

    return program


def expected(lefts, rights):
    """Return the lines that come of some numbers of both sides."""
    lines = Counter()
    windows = {}
    for side, values in enumerate(([asked(left(number)) for number in lefts], [right(number) for number in rights])):
        for value in values:
            start = value[1] // SLIDE_MS * SLIDE_MS
            for begin in range(start - SIZE_MS + SLIDE_MS, start + 1, SLIDE_MS):
                windows.setdefault((value[0], begin), ([], []))[side].append(value)
    lines.update(grouped(*window) for window in windows.values())
    seconds = [right(number) for number in rights]
    for one in (asked(left(number)) for number in lefts):
        for other in seconds:
            if one[0] == other[0]:
                if -BELOW_MS < other[1] - one[1] <= ABOVE_MS:
                    lines[f"close {one[2]} {other[2]} {max(one[1], other[1])}"] += 1
                if one[1] // TUMBLE_MS == other[1] // TUMBLE_MS:
                    lines[both(one, other)] += 1
    return lines


def written(folder):
    """Return the lines of finished files."""
    lines = Counter()
    for path in folder.rglob("*"):
        if path.is_file() and not path.name.startswith((".", "_")):
            lines.update(path.read_text("utf-8").splitlines())
    return lines


def numbers_in(lines):
    """Return which numbers of both sides have come: each is in a group."""
    groups = [line.removeprefix("group ").split("|") for line in lines if line.startswith("group ")]
    sides = [[int(text) for group in groups for text in group[side].strip("[]").split(", ") if text] for side in (0, 1)]
    return {number // 10 for number in sides[0]}, set(sides[1])
