"""Elements a second through the windows of one subtask, without Spark, sockets or checkpoints.

    python benchmarks/slots/slot_windows.py [--rounds N] [--elements N] [--snapshots] [--windows KIND ...]
        [--profile KIND:BACKEND:HEAT]

Words with times in order go through `OperatorChain.on_batch` in batches of 10,000 and are counted, by `aggregate`, per
word in windows of 10 s (tumbling) and of 10 s every 2 s (sliding). An epoch is 15 s of the stream: its elements, a
watermark, a flush. *hot*: 1,000 words, so that a window has tens of elements; *cold*: 100,000 words, so that almost each
element makes a window of its own. *own*: an `AggregateFunction` of the program's; *known*: `count()`, which goes by
columns. With `--snapshots` each epoch ends with a canonical snapshot, of which the part that stops the stream counts: it
has windows written that else stay in memory. Figures are processor time of the calling thread in the best of some whole
runs of a minute of the stream, the last watermark included.
"""

import argparse
import cProfile
import os
import platform
import pstats
import random
import tempfile
import time

import pyarrow as pa

from pystate.common import Types
from pystate.core.api.aggregation import ElementCount
from pystate.core.api.functions import AggregateFunction
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.window.assigners import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from pystate.core.api.window.triggers import EventTimeTrigger
from pystate.core.api.window.window_operation import WindowOperation
from pystate.core.records.codec import KEY_GROUP_FIELD, TIMESTAMP_FIELD
from pystate.core.records.key_column import KeyColumn
from pystate.core.state.keys.keys import KeyCodec
from pystate.runtime.plan.chain import Chain, OperatorSpec
from pystate.runtime.plan.task import JobEnvironment, TaskInput, TaskSpec
from pystate.runtime.plan.task_output import OutputKind, OutputSpec
from pystate.runtime.slot.chain.operator_chain import OperatorChain

BATCH = 10_000
MAX_PARALLELISM = 128
SPAN_MS, EPOCH_MS = 60_000, 15_000


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


ASSIGNERS = {
    "tumbling": TumblingEventTimeWindows(10_000),
    "sliding": SlidingEventTimeWindows(10_000, 2_000),
    "session": EventTimeSessionWindows(10_000),
}


def run(kind, backend, epochs, function, *, snapshots=False):
    """Return the processor time of a run, and how many results it had."""
    operation = WindowOperation(
        ASSIGNERS[kind], EventTimeTrigger(), aggregate_function=function, accumulator_type=Types.LONG()
    )
    results = 0

    def count(_, batch):
        nonlocal results
        results += batch.num_rows

    with tempfile.TemporaryDirectory() as folder:
        task = TaskSpec(
            uid="count",
            name="count",
            vertex_id="c" * 32,
            parallelism=1,
            max_parallelism=MAX_PARALLELISM,
            inputs=[TaskInput(Types.STRING(), KeyColumn("value", Types.STRING()), timestamped=True)],
            head=OperatorSpec("count", "count", OperatorKind.WINDOW, operation),
            chain=Chain(outputs=[OutputSpec(1, OutputKind.FRAME, "out", Types.LONG())]),
        )
        chain = OperatorChain(task, 0, JobEnvironment("b" * 32, "job", 0, {}, backend, 1 << 20, folder), count)
        chain.open()
        started = time.thread_time()
        for batches, watermark in epochs:
            for batch in batches:
                chain.on_batch(batch)
            chain.on_watermark(watermark)
            chain.flush_output()
            chain.finish_epoch()
            if snapshots:
                chain.backend.snapshot().release()
        seconds = time.thread_time() - started
        left = chain.backend.entry_count()
        assert not left, f"{left} entries are left"
        chain.close()
    return seconds, results


def arrow_epochs(words, codec):
    """Return (batches, watermark) per epoch: the words spread evenly over the span."""
    step = SPAN_MS / len(words)
    rows = [(word, int(number * step)) for number, word in enumerate(words)]
    epochs = []
    for start in range(0, SPAN_MS, EPOCH_MS):
        end = start + EPOCH_MS
        mine = [row for row in rows if start <= row[1] < end]
        batches = []
        for first in range(0, len(mine), BATCH):
            part = mine[first : first + BATCH]
            groups = pa.array([codec.key_group(word, MAX_PARALLELISM) for word, _ in part], pa.int32())
            arrays = [pa.array([word for word, _ in part]), groups, pa.array([at for _, at in part], pa.int64())]
            batches.append(pa.RecordBatch.from_arrays(arrays, names=["value", KEY_GROUP_FIELD, TIMESTAMP_FIELD]))
        epochs.append((batches, end - 1 if end < SPAN_MS else (1 << 63) - 1))
    return epochs


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--elements", type=int, default=100_000)
    parser.add_argument("--windows", nargs="+", choices=ASSIGNERS, default=list(ASSIGNERS))
    parser.add_argument("--snapshots", action="store_true")
    parser.add_argument("--profile", metavar="KIND:BACKEND:HEAT", help="profile one run, such as sliding:hashmap:cold")
    options = parser.parse_args()
    codec, count = KeyCodec(Types.STRING()), options.elements
    words = [f"word-{number:08d}" for number in range(100_000)]
    heats = {
        "hot": arrow_epochs(random.Random(2).choices(words[:1_000], k=count), codec),
        "cold": arrow_epochs([words[number * 7919 % len(words)] for number in range(count)], codec),
    }
    if options.profile:
        kind, backend, heat = options.profile.split(":")
        profile = cProfile.Profile()
        profile.runcall(run, kind, backend, heats[heat], Count(), snapshots=options.snapshots)
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)
        return
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}")
    print("\n| windows | words | backend | own, us an element | known, us an element | results |\n|---|---|---|---|---|---|")
    functions = {"own": Count(), "known": ElementCount()}
    for kind in options.windows:
        for heat, epochs in heats.items():
            runs = {(backend, name): [] for backend in ("hashmap", "rocksdb") for name in functions}
            for _ in range(options.rounds):
                for (backend, name), done in runs.items():
                    done.append(run(kind, backend, epochs, functions[name], snapshots=options.snapshots))
            for backend in ("hashmap", "rocksdb"):
                best = [min(runs[backend, name]) for name in functions]
                each = " | ".join(f"{seconds / count * 1e6:.2f}" for seconds, _ in best)
                print(f"| {kind} | {heat} | {backend} | {each} | {best[0][1]:,} |", flush=True)


if __name__ == "__main__":
    main()
