"""Rows a second of sources in slots beside Spark's into the same job, and the processors' time of an idle job.

    python benchmarks/connectors/own_sources.py [ROWS] [PARALLELISM] [IDLE SECONDS]

The job adds the numbers up by their last digit, and ends after the last one. Rows a second are those between the first and
the last epoch's output, so that the start of slots doesn't count. The rows of the table:

- collection: `from_collection` of a range, which Spark reads in one partition;
- NumberSequenceSource, DataGeneratorSource: splits, read in the slots;
- SourceFunction: a function that emits each number under the checkpoint lock, in one subtask.

The same sources are then taken by one subtask alone, without Spark and without a second task (`slot` in the place of ROWS
does this only).

An idle job is one whose `SourceFunction` has nothing, one whose `DataGeneratorSource` makes an element each 10 s, beside one
that watches an empty folder with Spark. Counted is the time of this process, of Spark's and of the slots (`idle` in the
place of ROWS does this only; followed by IDLE SECONDS).
"""

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))  # where what several benchmarks use is

from keyed_count import machine
from processes import processors_s

from pystate.common import Types
from pystate.common.configuration import Configuration
from pystate.common.files.home import PystateHome
from pystate.connectors.source import SourceFunction
from pystate.core.api.executor import register_executor
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.data_generator import DataGeneratorSource, RateLimiterStrategy
from pystate.datastream.connectors.file_system import FileSource
from pystate.datastream.connectors.number_seq import NumberSequenceSource
from pystate.runtime.driver.embedded import LocalExecutor
from pystate.testing import SourceTestHarness

LONG = Types.LONG()
PAIR = Types.TUPLE([LONG, LONG])


class Numbers(SourceFunction):
    """Counts up to an end, or gives nothing until it is cancelled."""

    def __init__(self, end):
        self.end = end
        self.running = True

    def run(self, ctx):
        for number in range(self.end):
            with ctx.get_checkpoint_lock():
                ctx.collect(number)
        while self.end == 0 and self.running:
            time.sleep(0.2)

    def cancel(self):
        self.running = False


class Times:
    """When epochs with rows came out."""

    def __init__(self):
        self.at = []

    def __call__(self, frame, epoch):
        if not frame.isEmpty():
            self.at.append(time.monotonic())


SOURCES = {
    "collection": lambda env, rows: env.from_collection(range(rows), LONG),
    "NumberSequenceSource": lambda env, rows: env.from_source(NumberSequenceSource(0, rows - 1), None, "numbers"),
    "DataGeneratorSource": lambda env, rows: env.from_source(DataGeneratorSource(int, rows, None, LONG), None, "made"),
    "SourceFunction": lambda env, rows: env.add_source(Numbers(rows), "function", LONG),
}


def throughput(make, rows):
    env, times = StreamExecutionEnvironment.get_execution_environment(), Times()
    pairs = make(env, rows).map(lambda number: (number % 10, number), PAIR)
    pairs.key_by(lambda pair: pair[0], LONG).reduce(lambda a, b: (a[0], a[1] + b[1])).uid("sum").for_each_batch(times)
    started = time.monotonic()
    env.execute("own sources")
    return time.monotonic() - started, times.at[-1] - times.at[0] if len(times.at) > 1 else None, len(times.at)


def in_a_slot(make, rows):
    with SourceTestHarness(make, output_type=LONG) as harness:
        started, used = time.perf_counter(), time.process_time()
        assert len(harness.run_epoch(whole=True)) == rows
        return rows / (time.perf_counter() - started), rows / (time.process_time() - used)


def slot_table(rows):
    print(f"\n| one subtask, {rows:,} rows | rows/s | rows per processor's second |\n|---|---|---|")
    for name, make in {
        "NumberSequenceSource": lambda: NumberSequenceSource(0, rows - 1),
        "DataGeneratorSource": lambda: DataGeneratorSource(int, rows),
        "SourceFunction": lambda: Numbers(rows),
    }.items():
        wall, processor = in_a_slot(make, rows)
        print(f"| {name} | {wall:,.0f} | {processor:,.0f} |", flush=True)


def idle(make, seconds):
    env = StreamExecutionEnvironment.get_execution_environment()
    make(env).map(lambda one: one).print()
    client = env.execute_async("idle")
    time.sleep(15)  # its start
    before = processors_s()
    time.sleep(seconds)
    used = processors_s() - before
    client.cancel().result()
    return used / seconds


def idle_table(folder, seconds):
    print("\n| idle | processor, s in a minute |\n|---|---|")
    watched = FileSource(str(folder), monitor_interval_ms=1000)
    slowly = DataGeneratorSource(int, 10**6, RateLimiterStrategy.per_second(0.1), LONG)
    for name, make in {
        "SourceFunction": lambda env: env.add_source(Numbers(0), "function", LONG),
        "DataGeneratorSource, 0.1 rows/s": lambda env: env.from_source(slowly, None, "made"),
        "FileSource, each second": lambda env: env.from_source(watched, None, "files"),
    }.items():
        print(f"| {name} | {idle(make, seconds) * 60:.1f} |", flush=True)


def main():
    if sys.argv[1:] == ["slot"]:
        print(machine())
        slot_table(1_000_000)
        return
    only_idle = sys.argv[1:2] == ["idle"]
    if only_idle:
        sys.argv[1:] = ["0", "2", *sys.argv[2:]]
    rows, parallelism, seconds = (int(value) for value in (sys.argv[1:] + ["300000", "2", "20"][len(sys.argv) - 1 :]))
    root = Path(tempfile.mkdtemp(prefix="pystate-benchmark-"))
    (root / "in").mkdir()
    configuration = Configuration({"parallelism.default": str(parallelism), "restart-strategy.type": "none"})
    executor = LocalExecutor(configuration, PystateHome(root / "home"))
    register_executor(executor)
    print(machine())
    if only_idle:
        idle_table(root / "in", seconds)
        return
    print(f"{rows:,} rows, parallelism {parallelism}\n\n| | epochs | rows/s | whole run, s |\n|---|---|---|---|")
    for name, make in SOURCES.items():
        whole, between, epochs = throughput(make, rows)
        print(f"| {name} | {epochs} | {rows / between if between else rows / whole:,.0f} | {whole:.1f} |", flush=True)
    slot_table(1_000_000)
    idle_table(root / "in", seconds)


if __name__ == "__main__":
    main()
