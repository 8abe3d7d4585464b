"""Counts the lines of the access logs in a folder, per distinct line.

pystate run examples/access_log.py FOLDER
"""

import sys

from pystate.common import Types
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor


class Count(KeyedProcessFunction):
    """Emits (line, count so far)."""

    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, row, context):
        self.count.update((self.count.value() or 0) + 1)
        yield row.value, self.count.value()


env = StreamExecutionEnvironment.get_execution_environment()
env.from_data_frame(env.spark.readStream.text(sys.argv[1])).key_by("value").process(Count()).uid("count").print()
env.execute("access log")
