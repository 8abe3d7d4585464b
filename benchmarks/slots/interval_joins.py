"""Processor time of an element of an interval join, by how many elements of its key wait: one subtask, without Spark.

    python benchmarks/slots/interval_joins.py [--buffered N ...] [--epochs N] [--profile BUFFERED:BACKEND]

Pairs of a left and a right element of each of 10 keys come every 10 ms in order. A right one matches the left ones that are
older by the length of the buffer, less 10 ms: one or two, of all that wait. An epoch has 2,000 elements, then a watermark of
the last one's time and a flush. Figures are processor time of the calling thread, over all epochs after those that fill the
buffers.
"""

import argparse
import cProfile
import os
import platform
import pstats
import tempfile
import time

import pyarrow as pa

from pystate.common import Types
from pystate.core.api.interval_join_operation import IntervalJoinOperation
from pystate.core.api.join_functions import ProcessJoinFunction
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.records.codec import KEY_FIELD, KEY_GROUP_FIELD, TIMESTAMP_FIELD, RecordCodec
from pystate.core.records.key_column import KeyColumn
from pystate.core.state.keys.keys import KeyCodec
from pystate.runtime.plan.chain import Chain, OperatorSpec
from pystate.runtime.plan.task import JobEnvironment, TaskInput, TaskSpec
from pystate.runtime.plan.task_output import OutputKind, OutputSpec
from pystate.runtime.slot.chain.operator_chain import OperatorChain

KEYS, STEP_MS, EPOCH, MAX_PARALLELISM = 10, 10, 2_000, 128
TUPLE = Types.TUPLE([Types.STRING(), Types.LONG()])
ROW = Types.ROW_NAMED(["key", "ms"], [Types.STRING(), Types.LONG()])
TYPES = {"tuple": TUPLE, "row": ROW}
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


class Pair(ProcessJoinFunction):
    """Both times."""

    def process_element(self, left, right, ctx):
        yield left[1], right[1]


def batch_of(type_info, times):
    """Return an element for each key and time."""
    codec, keys = RecordCodec(type_info, "joins"), KeyCodec(Types.STRING())
    words = [f"key-{number}" for number in range(KEYS)]
    groups = {word: keys.key_group(word, MAX_PARALLELISM) for word in words}
    placed = [(word, at) for at in times for word in words]
    names = [*codec.schema.names, KEY_FIELD, KEY_GROUP_FIELD, TIMESTAMP_FIELD]
    of_rows = [pa.array([word for word, _ in placed]), pa.array([at for _, at in placed], pa.int64())]
    rest = [of_rows[0], pa.array([groups[word] for word, _ in placed], pa.int32()), of_rows[1]]
    columns = of_rows if len(codec.schema.names) > 1 else codec.encode(placed)
    return pa.RecordBatch.from_arrays([*columns, *rest], names=names)


def run(buffered, backend, type_info, epochs, profile=None):
    """Return the processor time of the epochs that count, how many elements they had, and how many results."""
    upper, results = buffered * STEP_MS, 0

    def count(_, batch):
        nonlocal results
        results += batch.num_rows

    operation = IntervalJoinOperation(upper - STEP_MS, upper, Pair())
    of_input = TaskInput(type_info, KeyColumn(KEY_FIELD, Types.STRING()), timestamped=True)
    head = OperatorSpec("join", "join", OperatorKind.INTERVAL_JOIN, operation)
    chain = Chain(outputs=[OutputSpec(0, OutputKind.FRAME, "out", PAIR)])
    task = TaskSpec("join", "join", "c" * 32, 1, MAX_PARALLELISM, [of_input, of_input], head, chain)
    steps = EPOCH // (2 * KEYS)
    filling = -(-buffered // steps)
    with tempfile.TemporaryDirectory() as folder:
        made = OperatorChain(task, 0, JobEnvironment("b" * 32, "job", 0, {}, backend, 1 << 20, folder), count)
        made.open()
        seconds = 0.0
        for epoch in range(filling + epochs):
            batch = batch_of(type_info, range(epoch * steps * STEP_MS, (epoch + 1) * steps * STEP_MS, STEP_MS))
            counts = epoch >= filling
            if counts and profile is not None:
                profile.enable()
            started = time.thread_time()
            for side in (0, 1):
                made.on_batch(batch, side)
            for side in (0, 1):
                made.on_watermark((epoch + 1) * steps * STEP_MS - 1, side)
            made.flush_output()
            made.finish_epoch()
            seconds += (time.thread_time() - started) * counts
            if profile is not None:
                profile.disable()
            results *= counts
        made.close()
    return seconds, epochs * EPOCH, results


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--buffered", nargs="+", type=int, default=[10, 100, 1_000])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--profile", metavar="BUFFERED:BACKEND", help="profile one run, such as 100:hashmap")
    options = parser.parse_args()
    if options.profile:
        buffered, backend = options.profile.split(":")
        profile = cProfile.Profile()
        run(int(buffered), backend, TUPLE, options.epochs, profile)
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)
        return
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}")
    print("\n| backend | elements | waiting a key | us an element | results an element |\n|---|---|---|---|---|")
    for backend in ("hashmap", "rocksdb"):
        for name, type_info in TYPES.items():
            for buffered in options.buffered:
                seconds, elements, results = run(buffered, backend, type_info, options.epochs)
                each = f"{seconds / elements * 1e6:.1f} | {results / elements:.2f}"
                print(f"| {backend} | {name} | {buffered:,} | {each} |", flush=True)


if __name__ == "__main__":
    main()
