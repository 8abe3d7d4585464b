"""A sink that writes ten elements at a time: Flink's BufferingSink, an example of operator list state.

    pystate run examples/buffering_sink.py OUTPUT_FILE [COUNT]

A checkpoint contains the buffered elements, which are restored after a failure, at any parallelism. Lines since the latest
    checkpoint may be written again: at-least-once.
"""

import os
import sys
from pathlib import Path

from pystate.common import Types
from pystate.datastream import CheckpointedFunction, ListStateDescriptor, SinkFunction, StreamExecutionEnvironment

THRESHOLD = 10


class BufferingSink(SinkFunction, CheckpointedFunction):
    """Collects `threshold` elements, then passes them to `send` in one list."""

    def __init__(self, send, threshold=THRESHOLD):
        self._send = send
        self._threshold = threshold
        self._buffered = []

    def invoke(self, value, context):
        self._buffered.append(value)
        if len(self._buffered) >= self._threshold:
            self._send(self._buffered)
            self._buffered = []

    def snapshot_state(self, context):
        self._checkpointed.update(self._buffered)

    def initialize_state(self, context):
        descriptor = ListStateDescriptor("buffered-elements", Types.LONG())
        self._checkpointed = context.get_operator_state_store().get_list_state(descriptor)
        if context.is_restored():
            self._buffered.extend(self._checkpointed.get())


def append_line(path):
    """Return a function that appends a list to a file, as one line in one write: all subtasks share the file."""

    def send(values):
        line = f"{' '.join(map(str, values))}\n".encode()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    return send


def main():
    path = Path(sys.argv[1]).resolve()
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_collection(list(range(count)), type_info=Types.LONG())
    numbers.add_sink(BufferingSink(append_line(str(path)))).name("buffering sink").uid("buffering-sink")
    env.execute("buffering sink")


if __name__ == "__main__":
    main()
