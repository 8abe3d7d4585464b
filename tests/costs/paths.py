"""What is measured: each path is made once, and run on the same input again and again."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from pystate.common import Row, TypeInformation, Types
from pystate.common.key_groups import KeyGroupRange
from pystate.core.api.aggregation import AccumulateType, FieldAggregation
from pystate.core.api.functions import KeyedProcessFunction
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from pystate.core.records.codec import KEY_FIELD, KEY_GROUP_FIELD, RecordCodec
from pystate.core.records.key_column import KeyColumn
from pystate.core.snapshot.reading.state_rows import PartDecoders
from pystate.core.state.base.loader import create_state_backend
from pystate.core.state.files.canonical import CanonicalReader
from pystate.core.state.keys.keys import KeyCodec
from pystate.runtime.plan.chain import Chain, OperatorSpec
from pystate.runtime.plan.task import JobEnvironment, TaskInput, TaskSpec
from pystate.runtime.plan.task_output import OutputKind, OutputSpec
from pystate.runtime.slot.chain.operator_chain import OperatorChain
from pystate.state_processor.entry_arrays import batches_of_entries
from pystate.state_processor.state_frames import StateColumn, _Encoding, _Stage
from tests.costs.measured import RECORDS, Measured
from tests.costs.real_time import real_time
from tests.costs.timed import HOT, KEY, PAIR, OneByOne, timed, words_of

GROUPS = 8
ROW = Types.ROW_NAMED(["word", "price"], [Types.STRING(), Types.DOUBLE()])
COUNT = ValueStateDescriptor("count", Types.LONG())


class _Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value[0], count


class _Prices(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield Row(word=value.word, price=value.price * 2)


class _Maps(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.map.put("a", (self.map.get("a") or 0) + 1)


class _Lists(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.list.update([value[1], *self.list.get()][:3])


def batch_of(keys: list[str], elements: list[Any], type_info: TypeInformation) -> pa.RecordBatch:
    codec, keyed = RecordCodec(type_info, "costs"), KeyCodec(KEY)
    prepared = elements if codec.prepare is None else list(map(codec.prepare, elements))
    groups = pa.array([keyed.key_group(key, GROUPS) for key in keys], pa.int32())
    arrays = [*codec.encode(prepared), pa.array(keys), groups]
    return pa.RecordBatch.from_arrays(arrays, names=[*codec.schema.names, KEY_FIELD, KEY_GROUP_FIELD])


def chain_of(function: Any, kind: OperatorKind, type_info: TypeInformation, backend: str, folder: Path) -> OperatorChain:
    head = OperatorSpec("head", "head", kind, function, output_type=type_info)
    chain = Chain(outputs=[OutputSpec(0, OutputKind.FRAME, "out", type_info)])
    task = TaskSpec("head", "head", "c" * 32, 1, GROUPS, [TaskInput(type_info, KeyColumn(KEY_FIELD, KEY))], head, chain)
    made = OperatorChain(task, 0, JobEnvironment("b" * 32, "job", 0, {}, backend, 1 << 20, str(folder)), lambda *_: None)
    made.open()
    return made


def epochs(name: str, function: Any, kind: OperatorKind, keys: int, backend: str, folder: Path) -> Measured:
    type_info = ROW if isinstance(function, _Prices) else PAIR
    words = words_of(keys)
    elements = [Row(word=word, price=0.5) if type_info is ROW else (word, place) for place, word in enumerate(words)]
    chain, batch = chain_of(function, kind, type_info, backend, folder), batch_of(words, elements, type_info)

    def run() -> None:
        chain.on_batch(batch)
        chain.flush_output()
        chain.finish_epoch()

    return Measured(name, RECORDS, run, chain.close)


def filled(backend: str, folder: Path) -> OperatorChain:
    made = chain_of(_Count(), OperatorKind.PROCESS, PAIR, backend, folder)
    words = words_of(RECORDS)
    made.on_batch(batch_of(words, [(word, 1) for word in words], PAIR))
    made.flush_output()
    made.finish_epoch()
    return made


def snapshot_of(chain: OperatorChain) -> io.BytesIO:
    backend = chain.backend
    assert backend is not None
    file = io.BytesIO()
    snapshot = backend.snapshot()
    snapshot.write_canonical(file)
    snapshot.release()
    return file


def snapshots(backend: str, folder: Path) -> Iterator[Measured]:
    written = filled(backend, folder)
    file = snapshot_of(written)

    def restore() -> None:
        made = create_state_backend(
            backend,
            key_codec=KeyCodec(KEY),
            key_group_range=KeyGroupRange(0, GROUPS - 1),
            max_parallelism=GROUPS,
            working_directory=str(folder),
        )
        made.restore([file])
        made.close()

    yield Measured(f"snapshot written, {backend}", RECORDS, lambda: snapshot_of(written), written.close)
    yield Measured(f"snapshot restored, {backend}", RECORDS, restore)


def state_processor(folder: Path) -> Iterator[Measured]:
    chain = filled("hashmap", folder)
    reader = CanonicalReader(snapshot_of(chain))
    chain.close()
    decoders = PartDecoders(reader.parts("count"), KEY)

    def read() -> None:
        assert (
            sum(map(len, batches_of_entries(reader, "count", decoders, range(GROUPS), None, per_entry=False, where="")))
            == RECORDS
        )

    words = words_of(RECORDS)
    columns = pa.RecordBatch.from_arrays([pa.array(words), pa.array(range(RECORDS))], names=["key", "value"])
    stage = _Stage("key", KEY, False, {"key": KEY, "value": Types.LONG()}, [(COUNT, StateColumn("value"))])
    encoding = _Encoding(stage, GROUPS, "here")
    yield Measured("state processor, read", RECORDS, read)
    yield Measured("state processor, written", RECORDS, lambda: list(encoding([columns])))


def paths(folder: Path) -> Iterator[Measured]:
    """Make all paths; their files are below a folder."""
    process, reduce = OperatorKind.PROCESS, OperatorKind.REDUCE
    maximum = FieldAggregation(AccumulateType.MAX_BY, 1)
    total, alone = FieldAggregation(AccumulateType.SUM, 1), OneByOne(AccumulateType.SUM, 1)
    for backend in ("hashmap", "rocksdb"):
        yield epochs(f"records, {backend}", _Count(), process, HOT, backend, folder)
        yield epochs(f"records, first of their epoch, {backend}", _Count(), process, RECORDS, backend, folder)
        yield epochs(f"map state, {backend}", _Maps(), process, HOT, backend, folder)
        yield epochs(f"list state, {backend}", _Lists(), process, HOT, backend, folder)
        yield epochs(f"sum by columns, {backend}", total, reduce, HOT, backend, folder)
        yield from snapshots(backend, folder)
    yield epochs("rows", _Prices(), process, HOT, "hashmap", folder)
    yield epochs("sum, one by one", alone, reduce, HOT, "hashmap", folder)
    yield epochs("max_by by columns", maximum, reduce, HOT, "hashmap", folder)
    yield from state_processor(folder)
    yield from real_time(folder)
    yield from timed()
