"""A custom source: Flink's CounterSource, whose offset is operator state.

    pystate run examples/counter_source.py [END]

Kill a slot, or stop the job with a savepoint and resume it: each number is counted once.
"""

import sys

from pystate.common import Types
from pystate.datastream import CheckpointedFunction, ListStateDescriptor, StreamExecutionEnvironment
from pystate.datastream.functions import SourceFunction


class CounterSource(SourceFunction, CheckpointedFunction):
    """Counts from 0 up to `end`."""

    def __init__(self, end):
        self._end = end
        self._offset = 0
        self._running = True

    def run(self, ctx):
        while self._running and self._offset < self._end:
            with ctx.get_checkpoint_lock():  # the element and the offset move together
                ctx.collect(self._offset)
                self._offset += 1

    def cancel(self):
        self._running = False

    def initialize_state(self, context):
        descriptor = ListStateDescriptor("offset", Types.LONG())
        self._checkpointed = context.get_operator_state_store().get_list_state(descriptor)
        self._offset = next(iter(self._checkpointed.get()), 0)

    def snapshot_state(self, context):
        self._checkpointed.update([self._offset])


def main():
    end = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.add_source(CounterSource(end), "counter", Types.LONG()).uid("counter")
    pairs = numbers.map(lambda number: (number % 10, 1), Types.TUPLE([Types.LONG(), Types.LONG()]))
    pairs.key_by(lambda pair: pair[0], Types.LONG()).sum(1).uid("counts").print()
    env.execute("counter source")


if __name__ == "__main__":
    main()
