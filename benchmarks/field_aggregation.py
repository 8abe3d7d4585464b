"""A rolling `sum(1)` by key through one subtask, by columns and element by element, without Spark.

    python benchmarks/field_aggregation.py [--rounds N]

Record batches of 10,000 (word, number) pairs go through `OperatorChain.on_batch`; ten batches and a flush are an epoch.
*hot*: 1,000 keys. *cold*: 100,000 keys, each once to an epoch. *element* is a subclass of the same aggregation, which no
columns take over. Figures are processor time of the calling thread in the best epoch; the sides take turns.
"""

import argparse
import os
import platform
import random
import tempfile
import time

import pyarrow as pa

from pystate.api.aggregation import AccumulateType, FieldAggregation
from pystate.api.job_graph import OperatorKind
from pystate.common import Types
from pystate.plan.chain import Chain, OperatorSpec
from pystate.plan.output import OutputKind, OutputSpec
from pystate.plan.task import JobEnvironment, TaskInput, TaskSpec
from pystate.records.codec import KEY_GROUP_FIELD
from pystate.records.key_column import KeyColumn
from pystate.slot.operator_chain import OperatorChain
from pystate.state.base.keys import KeyCodec

BATCH = 10_000
BATCHES = 10
MAX_PARALLELISM = 128
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


class ElementAggregation(FieldAggregation):
    pass


class SlotSide:
    def __init__(self, backend, folder, function):
        task = TaskSpec(
            uid="sum",
            name="sum",
            vertex_id="c" * 32,
            parallelism=1,
            max_parallelism=MAX_PARALLELISM,
            inputs=[TaskInput(PAIR, KeyColumn("f0", Types.STRING()))],
            head=OperatorSpec("sum", "sum", OperatorKind.REDUCE, function(AccumulateType.SUM, 1), output_type=PAIR),
            chain=Chain(outputs=[OutputSpec(1, OutputKind.FRAME, "out", PAIR)]),
        )
        environment = JobEnvironment("b" * 32, "job", 0, {}, backend, 1 << 20, folder)
        self.chain = OperatorChain(task, 0, environment, lambda output, batch: None)
        self.chain.open()

    def epoch(self, batches):
        for batch in batches:
            self.chain.on_batch(batch)
        self.chain.flush_output()
        self.chain.finish_epoch()


def arrow_batches(words, codec):
    for start in range(0, len(words), BATCH):
        part = words[start : start + BATCH]
        groups = pa.array([codec.key_group(word, MAX_PARALLELISM) for word in part], pa.int32())
        numbers = pa.array(range(len(part)), pa.int64())
        yield pa.RecordBatch.from_arrays([pa.array(part), numbers, groups], names=["f0", "f1", KEY_GROUP_FIELD])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}")
    print("\n| keys | side | records/s | microseconds a record |")
    print("|---|---|---|---|")
    codec, count = KeyCodec(Types.STRING()), BATCH * BATCHES
    words = [f"word-{number:08d}" for number in range(count)]
    random.Random(1).shuffle(words)
    for heat, picked in (("hot", random.Random(2).choices(words[:1_000], k=count)), ("cold", words)):
        batches = list(arrow_batches(picked, codec))
        with tempfile.TemporaryDirectory() as folder:
            sides = {
                f"{backend}, {how}": SlotSide(backend, folder, function)
                for backend in ("hashmap", "rocksdb")
                for how, function in (("element", ElementAggregation), ("columns", FieldAggregation))
            }
            best = dict.fromkeys(sides, float("inf"))
            for number in range(arguments.rounds + 1):
                for name, side in sides.items():
                    started = time.thread_time()
                    side.epoch(batches)
                    if number:  # the first one fills the state
                        best[name] = min(best[name], time.thread_time() - started)
            for side in sides.values():
                side.chain.close()
        for name, seconds in best.items():
            print(f"| {heat} | {name} | {count / seconds:,.0f} | {seconds / count * 1e6:.2f} |", flush=True)


if __name__ == "__main__":
    main()
