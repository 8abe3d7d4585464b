"""Counts the requests to each API of a web server, per minute of the time in its access log.

    pystate run examples/requests_per_minute.py [FOLDER [--follow]]

Reads access logs in the combined format of nginx and Apache; without a folder, the one in `examples/data`. With
`--follow` the folder is watched for new files. An API is the first part of the path, `/orders/17?full=1` belongs to
`orders`. Requests may be in the log up to ten seconds late; later ones are not counted.
"""

import re
import sys
from datetime import datetime, timezone
from pathlib import Path

from pystate.common import Duration, Time, Types, WatermarkStrategy
from pystate.common.watermark_strategy import TimestampAssigner
from pystate.datastream import AggregateFunction, ProcessWindowFunction, StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource, StreamFormat
from pystate.datastream.window import TumblingEventTimeWindows

REQUEST = re.compile(r'^\S+ \S+ .*? \[(?P<time>[^]]+)\] "[A-Z]+ /(?P<api>[^/?\s]*)\S* [^"]*" (?P<status>\d{3}) ')
PER_MINUTE = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG()])


def requests(line):
    """Return [(API, time in ms)] from a line; nothing if it isn't a request."""
    found = REQUEST.match(line)
    if found is None:
        return []
    return [(found["api"], int(datetime.strptime(found["time"], "%d/%b/%Y:%H:%M:%S %z").timestamp() * 1000))]


class TimeOfRequest(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class WithMinute(ProcessWindowFunction):
    """Emits (minute, API, requests)."""

    def process(self, key, context, elements):
        minute = datetime.fromtimestamp(context.window().start / 1000, timezone.utc)
        yield f"{minute:%Y-%m-%d %H:%M}", key, next(iter(elements))


def count_per_minute(lines):
    """Return the stream of (minute, API, requests)."""
    in_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(10))
    return (
        lines.flat_map(requests, output_type=Types.TUPLE([Types.STRING(), Types.LONG()]))
        .assign_timestamps_and_watermarks(in_time.with_timestamp_assigner(TimeOfRequest()))
        .key_by(lambda request: request[0], key_type=Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.minutes(1)))
        .aggregate(Count(), WithMinute(), accumulator_type=Types.LONG(), output_type=PER_MINUTE)
        .name("requests per minute")
        .uid("requests-per-minute")
    )


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else str(Path(__file__).parent / "data" / "access.log")
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder)
    if "--follow" in sys.argv[2:]:
        source.monitor_continuously(Duration.of_seconds(1))
    env = StreamExecutionEnvironment.get_execution_environment()
    count_per_minute(env.from_source(source.build(), None, "access log")).print()
    env.execute("requests per minute")


if __name__ == "__main__":
    main()
