"""Removes duplicate events: senders may repeat an event, with the same id, within some hours.

    pystate run examples/deduplication.py FOLDER [--follow]

The files have one event per line, `id,what happened`. An id is kept for a day (a TTL), so the state is bounded; a repetition
after that is a new event. With `--follow` the folder is watched for new files.
"""

import sys

from pystate.common import Duration, Time, Types
from pystate.datastream import (
    KeyedProcessFunction,
    RuntimeContext,
    StateTtlConfig,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from pystate.datastream.connectors.file_system import FileSource, StreamFormat


class FirstOfAll(KeyedProcessFunction):
    """Emits an event whose id has not been seen for a day."""

    def open(self, runtime_context: RuntimeContext):
        seen = ValueStateDescriptor("seen", Types.BOOLEAN())
        seen.enable_time_to_live(StateTtlConfig.new_builder(Time.days(1)).build())
        self.seen = runtime_context.get_state(seen)

    def process_element(self, value, ctx):
        if self.seen.value() is None:
            self.seen.update(True)
            yield value


def deduplicate(events):
    """Return the stream of events without repetitions."""
    by_id = events.key_by(lambda event: event.partition(",")[0], key_type=Types.STRING())
    return by_id.process(FirstOfAll(), output_type=Types.STRING()).name("first of all").uid("first-of-all")


def main():
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), sys.argv[1])
    if "--follow" in sys.argv[2:]:
        source.monitor_continuously(Duration.of_seconds(1))
    env = StreamExecutionEnvironment.get_execution_environment()
    deduplicate(env.from_source(source.build(), None, "events")).print()
    env.execute("deduplication")


if __name__ == "__main__":
    main()
