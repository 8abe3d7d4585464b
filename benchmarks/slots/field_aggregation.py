"""Rolling `sum(1)` and `max_by(1)` by key through one subtask, by columns and element by element, without Spark.

    python benchmarks/slots/field_aggregation.py [--rounds N]

Record batches of 10,000 (word, number) pairs go through `OperatorChain.on_batch`; ten batches and a flush are an epoch.
*hot*: 1,000 keys. *cold*: 100,000 keys, each once to an epoch. *element* is a subclass of the same aggregation, which no
columns take over. *mini-batch* gives one result per key and epoch. Figures are processor time of the calling thread in
the best epoch; the sides take turns.
"""

import pyarrow as pa
from slot_throughput import MAX_PARALLELISM, SlotSide, arrow_batches, compare

from pystate.common import Types
from pystate.core.api.aggregation import AccumulateType, FieldAggregation
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.records.codec import KEY_GROUP_FIELD
from pystate.core.records.key_column import KeyColumn
from pystate.runtime.plan.chain import Chain, OperatorSpec
from pystate.runtime.plan.task import JobEnvironment, TaskInput, TaskSpec
from pystate.runtime.plan.task_output import OutputKind, OutputSpec
from pystate.runtime.slot.chain.operator_chain import OperatorChain

MINI_BATCH = {"execution.mini-batch.enabled": "true"}
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


class ElementAggregation(FieldAggregation):
    pass


class AggregationSide(SlotSide):
    def __init__(self, backend, folder, function, kind=AccumulateType.SUM, configuration=None):
        task = TaskSpec(
            uid="sum",
            name="sum",
            vertex_id="c" * 32,
            parallelism=1,
            max_parallelism=MAX_PARALLELISM,
            inputs=[TaskInput(PAIR, KeyColumn("f0", Types.STRING()))],
            head=OperatorSpec("sum", "sum", OperatorKind.REDUCE, function(kind, 1), output_type=PAIR),
            chain=Chain(outputs=[OutputSpec(1, OutputKind.FRAME, "out", PAIR)]),
        )
        environment = JobEnvironment("b" * 32, "job", 0, configuration or {}, backend, 1 << 20, folder)
        self.chain = OperatorChain(task, 0, environment, lambda output, batch: None)
        self.chain.open()


def pair_batches(words, codec):
    for batch in arrow_batches(words, codec):
        word, groups = batch.columns
        numbers = pa.array(range(len(word)), pa.int64())
        yield pa.RecordBatch.from_arrays([word, numbers, groups], names=["f0", "f1", KEY_GROUP_FIELD])


def sides_of(folder):
    ways = (("element", ElementAggregation), ("columns", FieldAggregation))
    sides = {
        f"{backend}, {how}": AggregationSide(backend, folder, function)
        for backend in ("hashmap", "rocksdb")
        for how, function in ways
    }
    for how, function in ways:
        sides[f"hashmap, max_by, {how}"] = AggregationSide("hashmap", folder, function, AccumulateType.MAX_BY)
        sides[f"hashmap, mini-batch, {how}"] = AggregationSide("hashmap", folder, function, configuration=MINI_BATCH)
    return sides


if __name__ == "__main__":
    compare(__doc__, sides_of, pair_batches)
