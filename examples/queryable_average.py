"""Queryable state: Flink's CountWindowAverage, whose state is read while the job runs.

    python examples/queryable_average.py [PORT]

Prints the averages of two numbers each, (1, 4) and (1, 5), and meanwhile what the state holds: the count and the sum of the
numbers without an average yet. Under `pystate run` the same is seen with `pystate query JOB query-name 1`.
"""

import sys
import time

from pystate.common import Configuration, Types
from pystate.datastream import StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.functions import FlatMapFunction, SourceFunction
from pystate.queryable import QueryableStateClient, UnknownKeyOrNamespaceError

NUMBERS = [(1, 3), (1, 5), (1, 7), (1, 4), (1, 2)]
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


class Numbers(SourceFunction):
    """Emits the numbers, and then keeps the job alive until it is cancelled."""

    def __init__(self, pause):
        self._pause = pause
        self._running = True

    def run(self, ctx):
        for number in NUMBERS:
            ctx.collect(number)
            time.sleep(self._pause)
        while self._running:
            time.sleep(0.05)

    def cancel(self):
        self._running = False


class CountWindowAverage(FlatMapFunction):
    """The average of each two numbers of a key."""

    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("average", PAIR)  # the count, and the sum
        descriptor.set_queryable("query-name")
        self._sum = runtime_context.get_state(descriptor)

    def flat_map(self, value):
        count, total = self._sum.value() or (0, 0)
        count, total = count + 1, total + value[1]
        if count < 2:
            self._sum.update((count, total))
        else:
            self._sum.clear()
            yield value[0], total // count


def averages(numbers):
    return numbers.key_by(lambda pair: pair[0], Types.LONG()).flat_map(CountWindowAverage(), PAIR).uid("averages")


def look(client, job_id, consistency):
    """Return the state of key 1, and its version."""
    try:
        found = client.get_kv_state(job_id, "query-name", 1, Types.LONG(), consistency=consistency).result()
    except UnknownKeyOrNamespaceError:
        return None, None
    return found.value(), found.version


def main(port=9069, pause=1.0):
    configuration = Configuration()
    configuration.set_string("queryable-state.enable", "true")
    configuration.set_string("queryable-state.proxy.ports", str(port))
    configuration.set_string("execution.checkpointing.interval", "1 s")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    averages(env.add_source(Numbers(pause), "numbers", PAIR).uid("numbers")).print()
    job = env.execute_async("queryable average")
    seen: list[tuple] = []
    with QueryableStateClient("127.0.0.1", port) as client:
        while (1, 2) not in seen:  # the last number has no pair yet
            value, version = look(client, job.get_job_id(), "live")
            if value is not None and value not in seen[-1:]:
                print(f"the state of key 1: {value}, of {version}")
                seen.append(value)
        while look(client, job.get_job_id(), "checkpointed")[0] != (1, 2):
            time.sleep(0.1)
        value, version = look(client, job.get_job_id(), "checkpointed")
        print(f"the state of key 1: {value}, of {version}")
    job.cancel().result()
    return seen


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
