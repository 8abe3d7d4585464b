"""Counts the words in a folder's files and prints each (word, count): `count_words.py FOLDER bounded|INTERVAL_MS`."""

import sys

from pystate.common import Types
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors.file_system import FileSource


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value, count


folder, interval_ms = sys.argv[1], None if sys.argv[2] == "bounded" else int(sys.argv[2])
env = StreamExecutionEnvironment.get_execution_environment()
source = FileSource(folder, monitor_interval_ms=interval_ms)
env.from_source(source, None, "words").key_by(lambda word: word).process(Count()).uid("count").print()
env.execute("word count")
