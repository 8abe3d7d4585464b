"""The types that type checkers tell of state. mypy and pyright read it; nothing runs it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from typing_extensions import assert_type

from pystate.common import Instant, Row, TypeInformation, Types
from pystate.datastream import (
    AggregatingState,
    AggregatingStateDescriptor,
    BroadcastState,
    FunctionInitializationContext,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReadOnlyBroadcastState,
    ReducingState,
    ReducingStateDescriptor,
    RuntimeContext,
    ValueState,
    ValueStateDescriptor,
)

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class States(KeyedProcessFunction):
    count: ValueState[int]

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.STRING(), Types.INT()))
        self.words = runtime_context.get_list_state(ListStateDescriptor("words", Types.STRING()))
        self.least = runtime_context.get_reducing_state(ReducingStateDescriptor("least", min, Types.DOUBLE()))
        self.pair = runtime_context.get_state(ValueStateDescriptor("pair", Types.TUPLE([Types.LONG(), Types.STRING()])))
        self.fixed: ValueState[tuple[int, str]] = self.pair
        self.untyped = runtime_context.get_state(ValueStateDescriptor("untyped"))
        self.chosen: ValueState[dt.timedelta] = runtime_context.get_state(ValueStateDescriptor("chosen"))
        self.pickled: ValueState[bytearray] = runtime_context.get_state(
            ValueStateDescriptor("pickled", Types.PICKLED_BYTE_ARRAY())
        )
        self.mean = runtime_context.get_aggregating_state(AggregatingStateDescriptor[int, float]("mean", object()))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
        assert_type(self.seen, MapState[str, int])
        assert_type(self.words, ListState[str])
        assert_type(self.least, ReducingState[float])
        assert_type(self.pair, ValueState[tuple[Any, ...]])
        assert_type(self.untyped, ValueState[Any])
        assert_type(self.mean, AggregatingState[int, float])
        assert_type(self.count.value(), int | None)
        assert_type(self.seen[value], int | None)
        assert_type(list(self.seen.items()), list[tuple[str, int | None]])
        assert_type(self.words.get(), list[str])
        assert_type(self.least.get(), float | None)
        assert_type(self.mean.get(), float | None)
        self.words.add(value)
        self.mean.add(1)
        yield (self.count.value() or 0) + 1


class Rules(KeyedBroadcastProcessFunction):
    def process_element(self, value: str, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterable[str]:
        assert_type(ctx.get_broadcast_state(RULES), ReadOnlyBroadcastState[str, int])
        return []

    def process_broadcast_element(self, value: str, ctx: KeyedBroadcastProcessFunction.Context) -> Iterable[str]:
        assert_type(ctx.get_broadcast_state(RULES), BroadcastState[str, int])
        return []


def operator_state(context: FunctionInitializationContext) -> None:
    store = context.get_operator_state_store()
    assert_type(store.get_list_state(ListStateDescriptor("offsets", Types.LONG())), ListState[int])
    assert_type(store.get_union_list_state(ListStateDescriptor("all", Types.BOOLEAN())), ListState[bool])
    assert_type(store.get_broadcast_state(RULES), BroadcastState[str, int])


def types() -> None:
    assert_type(Types.CHAR(), TypeInformation[str])
    assert_type(Types.BIG_DEC(), TypeInformation[Decimal])
    assert_type(Types.SQL_DATE(), TypeInformation[dt.date])
    assert_type(Types.SQL_TIME(), TypeInformation[dt.time])
    assert_type(Types.SQL_TIMESTAMP(), TypeInformation[dt.datetime])
    assert_type(Types.INSTANT(), TypeInformation[Instant])
    assert_type(Types.ROW_NAMED(["word"], [Types.STRING()]), TypeInformation[Row])
    assert_type(Types.LIST(Types.MAP(Types.STRING(), Types.FLOAT())), TypeInformation[list[dict[str, float]]])
    assert_type(Types.OBJECT_ARRAY(Types.ROW([Types.LONG()])), TypeInformation[list[Row]])


class Wrong(KeyedProcessFunction):
    """Every line that is marked is an error; a mark without an error is one, too."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.STRING(), Types.LONG()))
        self.text: ValueState[str] = runtime_context.get_state(ValueStateDescriptor("text", Types.LONG()))  # error
        runtime_context.get_state(MapStateDescriptor("seen", Types.STRING(), Types.LONG()))  # error

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
        self.count.update(value)  # error
        self.seen.put(1, 1)  # error
        self.seen[value] = value  # error
        self.count.add(1)  # error
        yield self.count.value() + 1  # error
