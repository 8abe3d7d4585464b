"""Records a second through one subtask that counts by key, without Spark, sockets or checkpoints.

    python benchmarks/slots/slot_throughput.py [--rounds N]

Record batches of 10,000 words go through `OperatorChain.on_batch`: Arrow to Python, the key, a `KeyedProcessFunction`
with one `ValueState`, Python to Arrow; ten batches and a flush are an epoch. *hot*: 1,000 keys. *cold*: 100,000 keys, each
once to an epoch. The floor is the same function body over a dict, between the same conversions. Figures are processor time
of the calling thread in the best epoch; the sides take turns.
"""

import argparse
import os
import platform
import random
import tempfile
import time

import pyarrow as pa
from pystate.runtime.slot.garbage_collector import leave_to_stay

from pystate.common import Types
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.records.codec import KEY_GROUP_FIELD, RecordCodec
from pystate.core.records.key_column import KeyColumn
from pystate.core.state.keys.keys import KeyCodec
from pystate.datastream import KeyedProcessFunction, ValueStateDescriptor
from pystate.runtime.plan.chain import Chain, OperatorSpec
from pystate.runtime.plan.task import JobEnvironment, TaskInput, TaskSpec
from pystate.runtime.plan.task_output import OutputKind, OutputSpec
from pystate.runtime.slot.chain.operator_chain import OperatorChain

BATCH = 10_000
BATCHES = 10
MAX_PARALLELISM = 128
COUNTED = Types.TUPLE([Types.STRING(), Types.LONG()])


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value, count


class SlotSide:
    def __init__(self, backend, folder, function=None, options=None):
        self.name = backend
        task = TaskSpec(
            uid="count",
            name="count",
            vertex_id="c" * 32,
            parallelism=1,
            max_parallelism=MAX_PARALLELISM,
            inputs=[TaskInput(Types.STRING(), KeyColumn("value", Types.STRING()))],
            head=OperatorSpec("count", "count", OperatorKind.PROCESS, function or Count(), output_type=COUNTED),
            chain=Chain(outputs=[OutputSpec(1, OutputKind.FRAME, "out", COUNTED)]),
        )
        environment = JobEnvironment("b" * 32, "job", 0, options or {}, backend, 1 << 20, folder)
        self.chain = OperatorChain(task, 0, environment, lambda output, batch: None)
        self.chain.open()

    def epoch(self, batches):
        for batch in batches:
            self.chain.on_batch(batch)
        self.chain.flush_output()
        self.chain.finish_epoch()

    def close(self):
        self.chain.close()


class DictSide:
    name = "dict"

    def __init__(self, folder):
        self.counts = {}
        self.words = RecordCodec(Types.STRING(), "words")
        self.counted = RecordCodec(COUNTED, "counted")

    def epoch(self, batches):
        counts = self.counts
        for batch in batches:
            results = []
            for word in self.words.decode(batch):
                count = counts.get(word, 0) + 1
                counts[word] = count
                results.append((word, count))
            self.counted.encode(results)

    def close(self):
        pass


def arrow_batches(words, codec):
    for start in range(0, len(words), BATCH):
        part = words[start : start + BATCH]
        groups = pa.array([codec.key_group(word, MAX_PARALLELISM) for word in part], pa.int32())
        yield pa.RecordBatch.from_arrays([pa.array(part, pa.string()), groups], names=["value", KEY_GROUP_FIELD])


def best_epochs(sides, batches, rounds):
    """Return the processor time of each side's best epoch, in seconds by name; the sides take turns."""
    best = dict.fromkeys(sides, float("inf"))
    for number in range(rounds + 1):
        for name, side in sides.items():
            started = time.thread_time()
            side.epoch(batches)
            if number:  # the first one fills the state
                best[name] = min(best[name], time.thread_time() - started)
    for side in sides.values():
        side.close()
    return best


def compare(about, make_sides, make_batches=arrow_batches):
    """Print a table: hot and cold keys, for all sides.

    Args:
        about: The script's docstring.
        make_sides: Returns the sides by name, of a folder.
        make_batches: Returns an epoch's batches, of words and the codec of keys.
    """
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}")
    print("\n| keys | side | records/s | microseconds a record |")
    print("|---|---|---|---|")
    codec, count = KeyCodec(Types.STRING()), BATCH * BATCHES
    words = [f"word-{number:08d}" for number in range(count)]
    random.Random(1).shuffle(words)
    for heat, picked in (("hot", random.Random(2).choices(words[:1_000], k=count)), ("cold", words)):
        batches = list(make_batches(picked, codec))
        with tempfile.TemporaryDirectory() as folder:
            best = best_epochs(make_sides(folder), batches, arguments.rounds)
        for name, seconds in best.items():
            print(f"| {heat} | {name} | {count / seconds:,.0f} | {seconds / count * 1e6:.2f} |", flush=True)


def sides_of(folder):
    sides = [DictSide(folder), SlotSide("hashmap", folder), SlotSide("rocksdb", folder)]
    leave_to_stay()  # as a slot does once it is deployed
    return {side.name: side for side in sides}


if __name__ == "__main__":
    compare(__doc__, sides_of)
