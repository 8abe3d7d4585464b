"""Records a second of a keyed sum over rows of three fields through one subtask, without Spark, sockets or checkpoints.

    python benchmarks/slots/slot_rows.py [--rounds N]

As `slot_throughput.py`, with elements that are rows of a word, a LONG and a DOUBLE, a `ValueState` of a tuple of two
numbers, and rows of three fields as output. *hot*: 1,000 keys. *cold*: 100,000 keys, each once to an epoch. The floor is the
same function body over a dict, between the same conversions, without rows. Figures are processor time of the calling thread
in the best epoch; the sides take turns. As in a slot, the garbage collector passes over what was loaded before.
"""

import pyarrow as pa
from pystate.runtime.slot.garbage_collector import leave_to_stay
from slot_throughput import MAX_PARALLELISM, SlotSide, arrow_batches, compare

from pystate.common import Row, Types
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.records.codec import KEY_GROUP_FIELD, RecordCodec
from pystate.core.records.key_column import KeyColumn
from pystate.datastream import KeyedProcessFunction, ValueStateDescriptor
from pystate.runtime.plan.chain import Chain, OperatorSpec
from pystate.runtime.plan.task import JobEnvironment, TaskInput, TaskSpec
from pystate.runtime.plan.task_output import OutputKind, OutputSpec
from pystate.runtime.slot.chain.operator_chain import OperatorChain

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


class RowSide(SlotSide):
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


class DictSide:
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


def sides_of(folder):
    sides = {"dict": DictSide(), "hashmap": RowSide("hashmap", folder), "rocksdb": RowSide("rocksdb", folder)}
    leave_to_stay()  # as a slot does once it is deployed
    return sides


if __name__ == "__main__":
    compare(__doc__, sides_of, row_batches)
