"""Counts lines of watched files and elements of a collection, slowly: `count_lines.py FOLDER PIDS ELEMENTS`.

Each subtask that counts leaves its process in a folder.
"""

import os
import sys
import time
from pathlib import Path

from pystate.common import Duration, Types
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors.file_system import FileSource, StreamFormat


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        (Path(sys_pids) / str(os.getpid())).touch()

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value, count


def slowly(value):
    time.sleep(0.002)
    return value


folder, sys_pids, elements = sys.argv[1], sys.argv[2], int(sys.argv[3])
env = StreamExecutionEnvironment.get_execution_environment()
files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder).monitor_continuously(
    Duration.of_millis(200)
)
lines = env.from_source(files.set_max_files_per_epoch(1).build(), None, "lines").uid("lines")
collection = env.from_collection([f"element-{number}" for number in range(elements)], Types.STRING()).uid("elements")
both = lines.union(collection).map(slowly, Types.STRING())
both.key_by(lambda line: line, Types.STRING()).process(Count()).uid("count").print()
env.execute("line count")
