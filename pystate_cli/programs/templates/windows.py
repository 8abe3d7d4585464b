"""Windows of event time: averages of sensors, minute by minute."""

from __future__ import annotations

from pystate.connectors.project_template import ProjectTemplate

_JOB = '''
"""Averages of sensors, minute by minute of the time at which they were read.

    pystate run {module}.py                 watch the folder input, until the job is stopped or cancelled
    pystate run {module}.py input --once    read what is there, and end

A line of the files is a time, a sensor, and what it has read: 2026-03-01T12:00:05Z kitchen 20.5. Lines may be in the files
up to ten seconds late; what comes later than that is printed with "late> " in front.
"""

import argparse
from datetime import datetime, timezone

from pystate.common import Duration, Time, Types, WatermarkStrategy
from pystate.common.watermark_strategy import TimestampAssigner
from pystate.datastream import AggregateFunction, OutputTag, ProcessWindowFunction, StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource, StreamFormat
from pystate.datastream.window import TumblingEventTimeWindows

READING = Types.TUPLE([Types.LONG(), Types.STRING(), Types.DOUBLE()])
LATE = OutputTag("late", READING)


def reading(line):
    """Return (time in ms since 1970, sensor, value) of a line."""
    time, sensor, value = line.split()
    return int(datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp() * 1000), sensor, float(value)


class TimeOfReading(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[0]


class Average(AggregateFunction):
    """Keeps the sum and the number of a window's values, not the values."""

    def create_accumulator(self):
        return 0.0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value[2], accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class WithMinute(ProcessWindowFunction):
    """Emits (minute, sensor, average)."""

    def process(self, key, context, elements):
        minute = datetime.fromtimestamp(context.window().start / 1000, timezone.utc)
        yield f"{minute:%H:%M}", key, round(next(iter(elements)), 2)


def averages(lines):
    """Return the averages of a stream of lines, and the readings that came too late."""
    times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(10))
    windows = (
        lines.filter(str.strip)
        .map(reading, output_type=READING)
        .assign_timestamps_and_watermarks(times.with_timestamp_assigner(TimeOfReading()))
        .key_by(lambda value: value[1], key_type=Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.minutes(1)))
        .side_output_late_data(LATE)
        .aggregate(
            Average(),
            WithMinute(),
            accumulator_type=Types.TUPLE([Types.DOUBLE(), Types.LONG()]),
            output_type=Types.TUPLE([Types.STRING(), Types.STRING(), Types.DOUBLE()]),
        )
        .name("average per minute")
        .uid("averages")  # the state is found by it in the next version of the program: keep it
    )
    return windows, windows.get_side_output(LATE)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", default="input")
    parser.add_argument("--once", action="store_true", help="end when everything is read")
    arguments = parser.parse_args()

    env = StreamExecutionEnvironment.get_execution_environment()
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), arguments.folder)
    if not arguments.once:
        files = files.monitor_continuously(Duration.of_seconds(1))
    on_time, late = averages(env.from_source(files.build(), None, "readings").uid("readings"))
    on_time.print()
    late.print("late")
    env.execute("{name}")


if __name__ == "__main__":
    main()
'''

_TEST = '''
"""Tests of the job's window, without Spark: python -m pytest"""

from pystate.common import Time, Types
from pystate.datastream.window import TumblingEventTimeWindows
from pystate.testing import WindowOperatorTestHarness

from {module} import LATE, Average, WithMinute, reading

LINES = ["2026-03-01T12:00:05Z kitchen 20", "2026-03-01T12:00:40Z kitchen 22", "2026-03-01T12:01:00Z kitchen 30"]


def harness():
    windows = WindowOperatorTestHarness(
        TumblingEventTimeWindows.of(Time.minutes(1)),
        lambda value: value[1],
        Types.STRING(),
        aggregate_function=Average(),
        window_function=WithMinute(),
        late_tag=LATE,
    )
    windows.open()
    return windows


def test_a_window_fires_when_the_watermark_reaches_its_end():
    windows, readings = harness(), [reading(line) for line in LINES]
    windows.process_elements(readings, [time for time, _, _ in readings])
    assert windows.extract_output() == []

    windows.process_watermark(readings[2][0])

    assert windows.extract_output() == [("12:00", "kitchen", 21.0)]


def test_what_comes_after_its_window_is_late():
    windows, readings = harness(), [reading(line) for line in LINES]
    windows.process_watermark(readings[2][0])
    windows.end_epoch()

    windows.process_element(readings[0], readings[0][0])

    assert windows.extract_output() == []
    assert windows.get_side_output(LATE) == [readings[0]]
'''

_INPUT_0 = """
2026-03-01T12:00:05Z kitchen 20.0
2026-03-01T12:00:20Z cellar 11.0
2026-03-01T12:00:40Z kitchen 22.0
2026-03-01T12:01:10Z kitchen 23.5
2026-03-01T12:00:55Z cellar 13.0
2026-03-01T12:02:30Z cellar 12.5
"""

TEMPLATE = ProjectTemplate(
    about="gives the average of each sensor of `input`, minute by minute",
    job=_JOB,
    test=_TEST,
    files={"input/readings.txt": _INPUT_0},
    commands=(
        ("pystate run {module}.py input --once", "read what is there, and end"),
        ("pystate run -d {module}.py", "watch the folder"),
    ),
    first_run="pystate run {module}.py input --once",
)
