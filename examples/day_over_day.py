"""Compares the daily sales of shops with those of the previous day.

    pystate run examples/day_over_day.py FOLDER [--follow]

The files have one sale per line, `shop,time,amount`, with the time in UTC as in `2026-03-01T09:30:00`. A day's sum is
emitted when sales of the next day arrive, with an hour of tolerance for late ones; the previous day's sum is kept in state.
With `--follow` the folder is watched for new files.
"""

import sys
from datetime import datetime, timezone

from pystate.common import Duration, Time, Types, WatermarkStrategy
from pystate.common.watermark_strategy import TimestampAssigner
from pystate.datastream import (
    KeyedProcessFunction,
    ProcessWindowFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from pystate.datastream.connectors.file_system import FileSource, StreamFormat
from pystate.datastream.window import TumblingEventTimeWindows

SALE = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
DAY = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
COMPARED = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG()])
MS_PER_DAY = 86_400_000


def sale(line):
    """Return (shop, time in ms, amount) from a line."""
    shop, time, amount = line.split(",")
    return shop, int(datetime.fromisoformat(time).replace(tzinfo=timezone.utc).timestamp() * 1000), int(amount)


class TimeOfSale(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class WithDay(ProcessWindowFunction):
    """Emits (shop, begin of the day in ms, sum)."""

    def process(self, key, context, elements):
        yield key, context.window().start, next(iter(elements))[2]


class AgainstYesterday(KeyedProcessFunction):
    """Emits (shop, day, sum, how much more than the day before); a day without one before it is not compared."""

    def open(self, runtime_context: RuntimeContext):
        day = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.yesterday = runtime_context.get_state(ValueStateDescriptor("yesterday", day))

    def process_element(self, value, ctx):
        shop, day, total = value
        yesterday = self.yesterday.value()
        self.yesterday.update((day, total))
        if yesterday is not None and yesterday[0] == day - MS_PER_DAY:
            date = datetime.fromtimestamp(day / 1000, timezone.utc)
            yield shop, f"{date:%Y-%m-%d}", total, total - yesterday[1]


def compare_days(lines):
    """Return the stream of (shop, day, sum, how much more than the day before)."""
    in_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_hours(1))
    days = (
        lines.map(sale, output_type=SALE)
        .assign_timestamps_and_watermarks(in_time.with_timestamp_assigner(TimeOfSale()))
        .key_by(lambda one: one[0], key_type=Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.days(1)))
        .reduce(lambda a, b: (a[0], a[1], a[2] + b[2]), WithDay(), output_type=DAY)
        .name("sum of a day")
        .uid("sum-of-a-day")
    )
    by_shop = days.key_by(lambda day: day[0], key_type=Types.STRING())
    return by_shop.process(AgainstYesterday(), output_type=COMPARED).name("against yesterday").uid("against-yesterday")


def main():
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), sys.argv[1])
    if "--follow" in sys.argv[2:]:
        source.monitor_continuously(Duration.of_seconds(1))
    env = StreamExecutionEnvironment.get_execution_environment()
    compare_days(env.from_source(source.build(), None, "sales")).print()
    env.execute("day over day")


if __name__ == "__main__":
    main()
