"""A count by key that takes elements one by one beside one that takes batches, in a slot without Spark.

    python benchmarks/slots/process_batch.py [--rounds N]

As `slot_throughput.py`, whose inputs and sides these are: both functions give a rolling count for each element.
The batch's reads and writes the state once per key and batch, and numbers the elements of a key by columns. Figures are
processor time of the calling thread in the best epoch; the sides take turns.
"""

import numpy as np
import pyarrow as pa
from slot_throughput import Count, DictSide, SlotSide, compare

from pystate.common import Types
from pystate.datastream import KeyedBatchProcessFunction, ValueStateDescriptor


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


def sides_of(folder):
    sides = {"dict": DictSide(folder)}
    for backend in ("hashmap", "rocksdb"):
        for how, function in (("element", Count), ("batch", CountBatches)):
            sides[f"{backend}, {how}"] = SlotSide(backend, folder, function())
    return sides


if __name__ == "__main__":
    compare(__doc__, sides_of)
