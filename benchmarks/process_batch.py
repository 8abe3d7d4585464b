"""A count by key that takes elements one by one beside one that takes batches, in a slot without Spark.

    python benchmarks/process_batch.py [--rounds N]

As `benchmarks/slot_throughput.py`, whose inputs and sides these are: both functions give a rolling count for each element.
The batch's reads and writes the state once per key and batch, and numbers the elements of a key by columns. Figures are
processor time of the calling thread in the best epoch; the sides take turns.
"""

import argparse
import os
import platform
import random
import tempfile
import time

import numpy as np
import pyarrow as pa
from slot_throughput import BATCH, BATCHES, Count, DictSide, SlotSide, arrow_batches

from pystate.common import Types
from pystate.datastream import KeyedBatchProcessFunction, ValueStateDescriptor
from pystate.state.base.keys import KeyCodec


class CountBatches(KeyedBatchProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_batch(self, batch, ctx):
        before = np.array([count or 0 for count in batch.get(self.count)])
        index = batch.key_index.to_numpy()
        order = np.argsort(index, kind="stable")
        totals = np.bincount(index, minlength=len(before))
        first = np.concatenate(([0], np.cumsum(totals)[:-1]))
        rank = np.empty_like(index)
        rank[order] = np.arange(len(index)) - np.repeat(first, totals)
        batch.update(self.count, (before + totals).tolist())
        return pa.record_batch({"f0": batch.data.column("value"), "f1": before[index] + rank + 1})


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
            sides = {"dict": DictSide(folder)}
            for backend in ("hashmap", "rocksdb"):
                for how, function in (("element", Count), ("batch", CountBatches)):
                    sides[f"{backend}, {how}"] = SlotSide(backend, folder, function())
            best = dict.fromkeys(sides, float("inf"))
            for number in range(arguments.rounds + 1):
                for name, side in sides.items():
                    started = time.thread_time()
                    side.epoch(batches)
                    if number:  # the first one fills the state
                        best[name] = min(best[name], time.thread_time() - started)
            for side in sides.values():
                side.close()
        for name, seconds in best.items():
            print(f"| {heat} | {name} | {count / seconds:,.0f} | {seconds / count * 1e6:.2f} |", flush=True)


if __name__ == "__main__":
    main()
