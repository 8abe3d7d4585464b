"""Records a second of a keyed sum over rows of three fields through one subtask, without Spark, sockets or checkpoints.

    python benchmarks/slot_rows.py [--rounds N]

As `slot_throughput.py`, with elements that are rows of a word, a LONG and a DOUBLE, a `ValueState` of a tuple of two
numbers, and rows of three fields as output. *hot*: 1,000 keys. *cold*: 100,000 keys, each once to an epoch. The floor is the
same function body over a dict, between the same conversions, without rows. Figures are processor time of the calling thread
in the best epoch; the sides take turns. As in a slot, the garbage collector passes over what was loaded before.
"""

import argparse
import gc
import os
import platform
import random
import tempfile
import time

import pyarrow as pa
from slot_throughput import BATCH, BATCHES, MAX_PARALLELISM, arrow_batches

from pystate.api.job_graph import OperatorKind
from pystate.common import Row, Types
from pystate.datastream import KeyedProcessFunction, ValueStateDescriptor
from pystate.plan.chain import Chain, OperatorSpec
from pystate.plan.output import OutputKind, OutputSpec
from pystate.plan.task import JobEnvironment, TaskInput, TaskSpec
from pystate.records.codec import KEY_GROUP_FIELD, RecordCodec
from pystate.records.key_column import KeyColumn
from pystate.slot.operator_chain import OperatorChain
from pystate.state.base.keys import KeyCodec

WORD = Types.STRING()
READ = Types.ROW_NAMED(["word", "amount", "price"], [WORD, Types.LONG(), Types.DOUBLE()])
WRITTEN = Types.ROW_NAMED(["word", "amount", "paid"], [WORD, Types.LONG(), Types.DOUBLE()])
SUMS = Types.TUPLE([Types.LONG(), Types.DOUBLE()])


class Total(KeyedProcessFunction):
    def open(self, runtime_context):
        self.sums = runtime_context.get_state(ValueStateDescriptor("sums", SUMS))

    def process_element(self, value, ctx):
        amount, paid = self.sums.value() or (0, 0.0)
        amount, paid = amount + value.amount, paid + value.amount * value.price
        self.sums.update((amount, paid))
        yield Row(value.word, amount, paid)


class SlotSide:
    def __init__(self, backend, folder):
        self.name = backend
        task = TaskSpec(
            uid="total",
            name="total",
            vertex_id="c" * 32,
            parallelism=1,
            max_parallelism=MAX_PARALLELISM,
            inputs=[TaskInput(READ, KeyColumn("word", WORD))],
            head=OperatorSpec("total", "total", OperatorKind.PROCESS, Total(), output_type=WRITTEN),
            chain=Chain(outputs=[OutputSpec(1, OutputKind.FRAME, "out", WRITTEN)]),
        )
        environment = JobEnvironment("b" * 32, "job", 0, {}, backend, 1 << 20, folder)
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

    def __init__(self):
        self.sums = {}
        self.written = RecordCodec(WRITTEN, "written")

    def epoch(self, batches):
        sums = self.sums
        for batch in batches:
            results = []
            for word, amount, price in zip(*(batch.column(index).to_pylist() for index in range(3)), strict=True):
                count, paid = sums.get(word, (0, 0.0))
                sums[word] = result = count + amount, paid + amount * price
                results.append((word, *result))
            self.written.encode(results)

    def close(self):
        pass


def row_batches(words, codec):
    for batch in arrow_batches(words, codec):
        amounts = pa.array(range(batch.num_rows), pa.int64())
        arrays = [batch.column(0), amounts, amounts.cast(pa.float64()), batch.column(1)]
        yield pa.RecordBatch.from_arrays(arrays, names=["word", "amount", "price", KEY_GROUP_FIELD])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}")
    print("\n| keys | side | records/s | microseconds a record |")
    print("|---|---|---|---|")
    codec, count = KeyCodec(WORD), BATCH * BATCHES
    words = [f"word-{number:08d}" for number in range(count)]
    random.Random(1).shuffle(words)
    for heat, picked in (("hot", random.Random(2).choices(words[:1_000], k=count)), ("cold", words)):
        batches = list(row_batches(picked, codec))
        with tempfile.TemporaryDirectory() as folder:
            sides = [DictSide(), SlotSide("hashmap", folder), SlotSide("rocksdb", folder)]
            gc.collect()
            gc.freeze()
            best = dict.fromkeys((side.name for side in sides), float("inf"))
            for number in range(arguments.rounds + 1):
                for side in sides:
                    started = time.thread_time()
                    side.epoch(batches)
                    if number:  # the first one fills the state
                        best[side.name] = min(best[side.name], time.thread_time() - started)
            for side in sides:
                side.close()
        for name, seconds in best.items():
            print(f"| {heat} | {name} | {count / seconds:,.0f} | {seconds / count * 1e6:.2f} |", flush=True)


if __name__ == "__main__":
    main()
