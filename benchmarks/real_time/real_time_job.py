"""The job of `benchmarks/real_time/real_time.py`, for both systems: numbers -> key_by -> count in state -> how old is each.

python real_time_job.py FOLDER ROWS_PER_SECOND SECONDS PARALLELISM [REST_PORT]

With REST_PORT it runs in PyFlink, else in pystate. ROWS_PER_SECOND 0: as many as go.
"""

import json
import sys
import time
import uuid
from pathlib import Path

IN_FLINK = len(sys.argv) > 5
if IN_FLINK:
    from pyflink.common import Configuration, Types, WatermarkStrategy
    from pyflink.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment
    from pyflink.datastream.connectors.number_seq import NumberSequenceSource
    from pyflink.datastream.state import ValueStateDescriptor
else:
    from pystate.common import Configuration, Types, WatermarkStrategy
    from pystate.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment
    from pystate.datastream.connectors.number_seq import NumberSequenceSource
    from pystate.datastream.state import ValueStateDescriptor

KEYS = 1000
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
BUCKETS = 2000


class Paced(MapFunction):
    """Gives each number the time at which it is there, and waits where there are too many."""

    def __init__(self, per_second):
        self.per_second = per_second
        self.began = None

    def map(self, value):
        now = time.time()
        if self.per_second:
            if self.began is None:
                self.began, self.count = now, 0
            self.count += 1
            ahead = self.began + self.count / self.per_second - now
            if ahead > 0.001:
                time.sleep(ahead)
                now = time.time()
        return value, int(now * 1e6)


class CountAges(KeyedProcessFunction):
    """Counts by key, and writes each second how many elements of which age, in ms, there were."""

    def __init__(self, folder):
        self.folder = folder

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.name = uuid.uuid4().hex  # PyFlink 2.3 can't tell the number of a subtask in thread mode
        self.second, self.ages = 0, [0] * (BUCKETS + 1)

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        now = time.time()
        self.ages[min(BUCKETS, int(now * 1e3 - value[1] / 1e3))] += 1
        if int(now) != self.second:
            self.write(int(now))
        return ()

    def write(self, second):
        if self.second:
            path = Path(self.folder) / f"{self.second}-{self.name}.json"
            path.write_text(json.dumps({age: count for age, count in enumerate(self.ages) if count}))
        self.second, self.ages = second, [0] * (BUCKETS + 1)


def key_of(value):
    return value[0] % KEYS


def main():
    folder, per_second, seconds, parallelism = sys.argv[1], *map(int, sys.argv[2:5])
    configuration = Configuration()
    settings = {"parallelism.default": str(parallelism)}
    if IN_FLINK:
        settings |= {
            "python.executable": sys.executable,
            "python.client.executable": sys.executable,
            "python.execution-mode": "thread",
            "rest.port": sys.argv[5],
            "restart-strategy.type": "none",  # failures are reported, not retried
            "execution.checkpointing.interval": "1 s",
            "execution.checkpointing.dir": f"file://{folder}/checkpoints",
            "taskmanager.numberOfTaskSlots": str(parallelism),
        }
    for key, value in settings.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    last = per_second * seconds if per_second else 1 << 40
    numbers = env.from_source(NumberSequenceSource(1, last), WatermarkStrategy.no_watermarks(), "numbers")
    ages = numbers.map(Paced(per_second // parallelism), PAIR).key_by(key_of, Types.LONG()).process(CountAges(folder), PAIR)
    ages.print()
    env.execute("ages")


if __name__ == "__main__":
    main()
