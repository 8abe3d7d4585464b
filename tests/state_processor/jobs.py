"""Operators with every kind of state, and what puts their snapshots into a savepoint's directory without Spark."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from pystate import __version__
from pystate.api.checkpointed import CheckpointedFunction
from pystate.api.functions import AggregateFunction, KeyedBroadcastProcessFunction, KeyedProcessFunction, RuntimeContext
from pystate.api.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from pystate.checkpoint.handles import ByteStreamStateHandle
from pystate.checkpoint.metadata import (
    CheckpointMetadata,
    CheckpointType,
    OperatorState,
    OperatorSubtaskState,
    SavepointFormatType,
    SourcePosition,
    write_metadata,
)
from pystate.checkpoint.storage import SnapshotLocation
from pystate.common.row import Row
from pystate.common.time import Time
from pystate.common.type_info import TypeInformation, Types
from pystate.state.base.keys import KEY_ENCODING
from pystate.testing import BroadcastOperatorTestHarness, KeyedOneInputOperatorTestHarness, OperatorTestHarness

MAX_PARALLELISM = 16
ITEM = Types.ROW_NAMED(["name", "price"], [Types.STRING(), Types.BIG_DEC()])


class Mean(AggregateFunction):
    """The mean of numbers, of an accumulator (sum, count)."""

    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


VALUE = ValueStateDescriptor("value", ITEM)
UNTYPED = ValueStateDescriptor("untyped")
LIST = ListStateDescriptor("list", Types.STRING())
MAP = MapStateDescriptor("map", Types.STRING(), Types.DOUBLE())
UNTYPED_MAP = MapStateDescriptor("untyped map")
REDUCING = ReducingStateDescriptor("reducing", lambda a, b: a + b, Types.LONG())
AGGREGATING = AggregatingStateDescriptor("aggregating", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()]))
TTL = ValueStateDescriptor("ttl", Types.LONG())
TTL_LIST = ListStateDescriptor("ttl list", Types.LONG())
TTL_MAP = MapStateDescriptor("ttl map", Types.LONG(), Types.STRING())
for _descriptor in (TTL, TTL_LIST, TTL_MAP):
    _descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.days(36_500)).build())
SPLIT = ListStateDescriptor("split", Types.LONG())
UNION = ListStateDescriptor("union", Types.STRING())
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LIST(Types.INT()))


class AllKinds(KeyedProcessFunction, CheckpointedFunction):
    """Takes (key, number); keeps all kinds of state, and writes raw state."""

    def __init__(self, with_raw: bool = True) -> None:
        self.with_raw = with_raw
        self.seen: list[int] = []
        self.raw: dict[int, bytes] = {}
        self.partitions: list[bytes] = []

    def initialize_state(self, context) -> None:
        store = context.get_operator_state_store()
        self.split, self.union = store.get_list_state(SPLIT), store.get_union_list_state(UNION)
        self.seen = list(self.split.get())
        self.raw = {group: stream.read() for group, stream in context.get_raw_keyed_state_inputs()}
        self.partitions = [stream.read() for stream in context.get_raw_operator_state_inputs()]

    def open(self, runtime_context: RuntimeContext) -> None:
        self.index = runtime_context.get_index_of_this_subtask()
        self.value = runtime_context.get_state(VALUE)
        self.untyped = runtime_context.get_state(UNTYPED)
        self.list = runtime_context.get_list_state(LIST)
        self.map = runtime_context.get_map_state(MAP)
        self.untyped_map = runtime_context.get_map_state(UNTYPED_MAP)
        self.reducing = runtime_context.get_reducing_state(REDUCING)
        self.aggregating = runtime_context.get_aggregating_state(AGGREGATING)
        self.ttl = runtime_context.get_state(TTL)
        self.ttl_list = runtime_context.get_list_state(TTL_LIST)
        self.ttl_map = runtime_context.get_map_state(TTL_MAP)

    def process_element(self, value, ctx):
        key, number = value
        if number < 0:  # only asks
            yield key, self.contents()
            return
        self.seen.append(number)
        self.value.update(Row(name=f"{key}", price=Decimal(number) / 4))
        self.untyped.update({"number": number, "pair": (number, None)})
        self.list.add(f"#{number}")
        self.map.put("abc"[number % 3], number / 2)
        self.untyped_map.put((number % 2, "x"), None if number % 5 == 0 else [number])
        self.reducing.add(number)
        self.aggregating.add(number)
        self.ttl.update(number)
        self.ttl_list.add(number)
        self.ttl_map.put(number % 2, str(number))

    def contents(self) -> dict[str, Any]:
        """Return what the states of the current key hold."""
        return {
            "value": self.value.value(),
            "untyped": self.untyped.value(),
            "list": list(self.list.get()),
            "map": dict(self.map.items()),
            "untyped map": dict(self.untyped_map.items()),
            "reducing": self.reducing.get(),
            "aggregating": self.aggregating.get(),
            "ttl": self.ttl.value(),
            "ttl list": list(self.ttl_list.get()),
            "ttl map": dict(self.ttl_map.items()),
        }

    def snapshot_state(self, context) -> None:
        self.split.update(self.seen)
        self.union.update([f"subtask {self.index}"])
        if not self.with_raw:
            return
        output = context.get_raw_operator_state_output()
        for part in ("a", "b"):
            output.start_new_partition().write(f"{part} of {self.index}".encode())
        keyed = context.get_raw_keyed_state_output()
        for group in range(self.index * 8, self.index * 8 + 8, 4):
            keyed.start_new_key_group(group).write(b"group %d" % group)


class Rules(KeyedBroadcastProcessFunction):
    """Counts numbers that fulfil a rule: the rule's name -> its numbers."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        rules = ctx.get_broadcast_state(RULES)
        if any(value in (rules.get(name) or []) for name in rules.keys()):
            self.count.update((self.count.value() or 0) + 1)
        yield value, self.count.value(), dict(rules.items())

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)


def expected(numbers: Iterable[int], key: Any) -> dict[str, Any]:
    """What `AllKinds` holds for a key that got some numbers."""
    numbers = list(numbers)
    last = numbers[-1]
    return {
        "value": Row(name=f"{key}", price=Decimal(last) / 4),
        "untyped": {"number": last, "pair": (last, None)},
        "list": [f"#{number}" for number in numbers],
        "map": {"abc"[number % 3]: number / 2 for number in numbers},
        "untyped map": {(number % 2, "x"): None if number % 5 == 0 else [number] for number in numbers},
        "reducing": sum(numbers),
        "aggregating": sum(numbers) / len(numbers),
        "ttl": last,
        "ttl list": numbers,
        "ttl map": {number % 2: str(number) for number in numbers},
    }


def numbers_of(keys: Iterable[Any], count: int = 3) -> list[tuple[Any, int]]:
    """Return what the operators are fed with: `count` numbers for each key."""
    return [(key, index * count + number) for number in range(count) for index, key in enumerate(keys)]


def by_key(data: Iterable[tuple[Any, int]]) -> dict[Any, list[int]]:
    """Return the numbers of each key."""
    found: dict[Any, list[int]] = {}
    for key, number in data:
        found.setdefault(key, []).append(number)
    return found


def all_kinds_operator(
    uid: str,
    data: list[tuple[Any, int]],
    key_type: TypeInformation | None,
    backend: str,
    *,
    with_raw: bool = True,
    parallelism: int = 2,
) -> OperatorState:
    """Run `AllKinds` over data; return its state, inline."""
    subtasks = {}
    for index in range(parallelism):
        with KeyedOneInputOperatorTestHarness(
            AllKinds(with_raw),
            lambda element: element[0],
            key_type,
            parallelism=parallelism,
            subtask_index=index,
            max_parallelism=MAX_PARALLELISM,
            state_backend=backend,
        ) as harness:
            harness.set_processing_time(1_000_000)
            harness.open()
            harness.process_elements([element for element in data if harness.owns_key(element[0])])
            subtasks[index] = _written(harness)
    plain = None if key_type is None else key_type.to_plain()
    return OperatorState(uid, f"All kinds of {uid}", parallelism, MAX_PARALLELISM, plain, KEY_ENCODING, subtasks)


def rules_operator(uid: str, backend: str, *, parallelism: int = 2) -> OperatorState:
    """Run `Rules`; return its state, inline."""
    subtasks = {}
    for index in range(parallelism):
        with BroadcastOperatorTestHarness(
            Rules(),
            [RULES],
            lambda number: number,
            Types.LONG(),
            parallelism=parallelism,
            subtask_index=index,
            max_parallelism=MAX_PARALLELISM,
            state_backend=backend,
        ) as harness:
            harness.open()
            harness.process_broadcast_element(("small", [1, 2, 3]))
            harness.process_broadcast_element(("round", [10, 20]))
            harness.process_broadcast_element(("none", None))
            harness.process_elements([number for number in (1, 2, 10, 11, 1) if harness.owns_key(number)])
            subtasks[index] = _written(harness)
    plain = Types.LONG().to_plain()
    return OperatorState(uid, "Rules", parallelism, MAX_PARALLELISM, plain, KEY_ENCODING, subtasks)


def _written(harness: OperatorTestHarness) -> OperatorSubtaskState:
    written = harness.snapshot(7, 1_000_000).written
    assert written is not None
    return written


def write_savepoint(directory: Path, operators: list[OperatorState], *, inline_threshold: int = 0) -> str:
    """Put operators into a savepoint's directory; return its path."""
    location = SnapshotLocation(str(directory))
    location.create()

    def moved(handle: Any, name: str) -> Any:
        state = handle.handle
        assert isinstance(state, ByteStreamStateHandle)
        stored = location.write_state(name, lambda sink: sink.write(state.data), inline_threshold)
        return replace(handle, handle=stored)

    stored = []
    for operator in operators:
        subtasks = {
            index: OperatorSubtaskState(
                *(
                    [moved(handle, f"{operator.uid}-{index}-{kind}") for handle in handles]
                    for kind, handles in (
                        ("keyed", state.keyed_state),
                        ("operator", state.operator_state),
                        ("raw-keyed", state.raw_keyed_state),
                        ("raw-operator", state.raw_operator_state),
                    )
                )
            )
            for index, state in operator.subtasks.items()
        }
        stored.append(replace(operator, subtasks=subtasks))
    logs = location.write_state("spark-logs", lambda sink: sink.write(io.BytesIO(b"no logs").getvalue()), inline_threshold)
    metadata = CheckpointMetadata(
        checkpoint_id=7,
        checkpoint_type=CheckpointType.SAVEPOINT,
        format=SavepointFormatType.CANONICAL,
        timestamp_ms=1_795_232_042_719,
        job_id="83f146a87b5572d7c71730b6a8b1dbae",
        job_name="all kinds",
        epoch=41,
        parallelism=2,
        max_parallelism=MAX_PARALLELISM,
        operators=stored,
        source_position=SourcePosition("query", 41, [{"index": 0, "uid": "source", "offset": "{}"}], logs),
        pystate_version=__version__,
        spark_version="4.3.0",
    )
    location.write_metadata(write_metadata(metadata))
    return location.uri.removeprefix("file:")
