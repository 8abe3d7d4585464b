"""Where a row's time goes in a chain of Python steps, by processor time, on both engines.

    python benchmarks/real_time/python_steps.py [--rows 1000000] [--keys 100000] [--rounds 1] [--engine ENGINE ...]
        [--steps STEPS ...] [--bytewax PYTHON] [--py-spy PROGRAM] [--flame FOLDER]

A text file is read in slots, each line is split, made a tuple, keyed by a lambda, counted in a `KeyedProcessFunction` and
handed to a sink that drops it. STEPS are the same program up to a step, so that the difference of two lines is a step:

    source   lines to the sink
    map      and split into tuples
    count    and keyed and counted: the whole program
    rows     the same with named rows in place of tuples
    typed    the same with the types declared

Counted is the processor time of the JVM's threads, of Spark's Python workers with the slots, and of the driver, which holds
beside other work; and the same functions in a bare loop over the lines. With `--bytewax` (a Python that has it) its time for
the whole program. With `--py-spy` the last run's slots are sampled. Linux only.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))  # where what several benchmarks use is

from keyed_count import machine
from row_hops import Sampler, Slots, stacks, write_rows

from pystate.common import Row, Types
from pystate.common.configuration import Configuration
from pystate.common.files.home import PystateHome
from pystate.common.watermark_strategy import WatermarkStrategy
from pystate.connectors.sink import Sink, SinkWriter
from pystate.core.api.executor import register_executor
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors.file_system import FileSource, StreamFormat
from pystate.runtime.driver.embedded import LocalExecutor

PAIR = Types.TUPLE([Types.STRING(), Types.DOUBLE()])
COUNTED = Types.TUPLE([Types.STRING(), Types.LONG(), Types.DOUBLE()])
ROW = Types.ROW_NAMED(["word", "number"], [Types.STRING(), Types.DOUBLE()])
COUNTED_ROW = Types.ROW_NAMED(["word", "count", "sum"], [Types.STRING(), Types.LONG(), Types.DOUBLE()])
STATE = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
STEPS = ["source", "map", "count", "rows", "typed"]
ENGINES = ["micro-batch", "real-time"]

BYTEWAX = """
import sys, time, resource
import bytewax.operators as op
from bytewax.connectors.files import FileSource
from bytewax.dataflow import Dataflow
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import cluster_main

class Drop(StatelessSinkPartition):
    def write_batch(self, items):
        pass

class DropSink(DynamicSink):
    def build(self, step_id, worker_index, worker_count):
        return Drop()

def pair(line):
    word, number = line.split(",")
    return word, float(number)

def count(state, number):
    counted, total = state or (0, 0.0)
    state = (counted + 1, total + number)
    return state, state

flow = Dataflow("steps")
lines = op.input("lines", flow, FileSource(sys.argv[1]))
pairs = op.map("pair", lines, pair)
counted = op.stateful_map("count", pairs, count)
op.output("drop", counted, DropSink())
began = time.perf_counter()
cluster_main(flow, [], 0, worker_count_per_proc=int(sys.argv[2]))
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, time.perf_counter() - began)
"""


def pair(line):
    word, number = line.split(",")
    return word, float(number)


def row(line):
    word, number = line.split(",")
    return Row(word=word, number=float(number))


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.totals = runtime_context.get_state(ValueStateDescriptor("totals", STATE))

    def process_element(self, value, ctx):
        count, total = self.totals.value() or (0, 0.0)
        count, total = count + 1, total + value[1]
        self.totals.update((count, total))
        yield value[0], count, total


class CountRows(Count):
    def process_element(self, value, ctx):
        for word, count, total in super().process_element((value.word, value.number), ctx):
            yield Row(word=word, count=count, sum=total)


class _Dropping(SinkWriter):
    def write(self, element, context):
        pass

    def flush(self, end_of_input):
        pass


class Drop(Sink):
    """A sink that drops what it gets."""

    def create_writer(self, context):
        return _Dropping()


def run(folder, engine, steps, parallelism, backend):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism)
    env.configure(Configuration({"execution.engine": engine, "state.backend.type": backend}))
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder)).build()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").uid("lines")
    if steps == "map":
        stream = stream.map(pair)
    elif steps == "count":
        stream = stream.map(pair).key_by(lambda value: value[0]).process(Count()).uid("count")
    elif steps == "rows":
        stream = stream.map(row, ROW).key_by(lambda value: value.word).process(CountRows(), COUNTED_ROW).uid("count")
    elif steps == "typed":
        keyed = stream.map(pair, PAIR).key_by(lambda value: value[0], Types.STRING())
        stream = keyed.process(Count(), COUNTED).uid("count")
    stream.sink_to(Drop()).uid("drop")
    env.execute("python steps")


def bare_loop(folder):
    """Return the processor seconds of the same functions in a loop."""
    state, began = {}, time.process_time()
    for path in sorted(folder.iterdir()):
        with path.open() as lines:
            for line in lines:
                word, number = pair(line)
                count, total = state.get(word) or (0, 0.0)
                state[word] = (count + 1, total + number)
    return time.process_time() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--backend", default="hashmap")
    parser.add_argument("--engine", nargs="*", choices=ENGINES, default=ENGINES)
    parser.add_argument("--steps", nargs="*", choices=STEPS, default=STEPS)
    parser.add_argument("--bytewax", type=Path, metavar="PYTHON")
    parser.add_argument("--py-spy")
    parser.add_argument("--flame")
    asked = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="pystate-benchmark-"))
    configuration = Configuration({"parallelism.default": str(asked.parallelism)})
    executor = LocalExecutor(configuration, PystateHome(root / "home"))
    register_executor(executor)
    spark = executor.spark_session(configuration)
    write_rows(root / "small", 4000, 100, 4, "txt")
    write_rows(root / "all", asked.rows, asked.keys, 16, "txt")
    sides = [(engine, steps) for engine in asked.engine for steps in asked.steps]
    for engine in asked.engine:
        run(root / "small", engine, "count", asked.parallelism, asked.backend)
    taken = {side: [] for side in sides}
    for _ in range(asked.rounds):
        for side in sides:
            began = time.perf_counter()
            one = Slots(lambda side=side: run(root / "all", *side, asked.parallelism, asked.backend)).measure()
            one["Python"] = one.pop("slots") + one.pop("workers")  # who was a slot is not known later
            taken[side].append((one, time.perf_counter() - began))
    print(f"{machine()}, load {os.getloadavg()[0]:.1f}")
    print(f"{asked.rows:,} rows, {asked.keys:,} keys, parallelism {asked.parallelism}, {asked.backend}\n")
    kinds = sorted({kind for rounds in taken.values() for one, _ in rounds for kind in one})
    print(f"| processor us/row | {' | '.join(kinds)} | all | rows/s |\n{'|---' * (len(kinds) + 3)}|")
    for side, rounds in taken.items():
        cells = [statistics.median(one.get(kind, 0) for one, _ in rounds) / asked.rows * 1e6 for kind in kinds]
        rate = asked.rows / statistics.median(seconds for _, seconds in rounds)
        print(f"| {': '.join(side)} | {' | '.join(f'{value:.2f}' for value in cells)} | {sum(cells):.2f} | {rate:,.0f} |")
    print(f"\na bare loop: {bare_loop(root / 'all') / asked.rows * 1e6:.2f} us/row")
    if asked.bytewax:
        text = "".join(path.read_text() for path in sorted((root / "all").iterdir()))
        (root / "all.txt").write_text(text)
        (root / "steps.py").write_text(BYTEWAX)
        command = [asked.bytewax, root / "steps.py", root / "all.txt", str(asked.parallelism)]
        used, wall = map(float, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
        print(f"bytewax: {used / asked.rows * 1e6:.2f} us/row, {asked.rows / wall:,.0f} rows/s")
    if asked.py_spy:
        sampler = Sampler(asked.py_spy, root)
        sampling = threading.Thread(target=sampler.run)
        sampling.start()
        run(root / "all", *sides[-1], asked.parallelism, asked.backend)
        sampler.ended.set()
        sampling.join()
        found = stacks(root, "slot")
        target = Path(asked.flame or root, "slot.collapsed")
        target.write_text("\n".join(f"{frames} {count}" for frames, count in found.items()))
        print(f"{sum(found.values())} samples of slots: {target}")
    spark.stop()


if __name__ == "__main__":
    main()
