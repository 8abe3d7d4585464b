"""The kinds of operators, and what planner and slots know of each.

A kind is described here only. The class that runs it in slots is found by `runtime/slot/operators/operator_registry.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from pystate.core.api.async_function import AsyncFunctionDescriptor
from pystate.core.api.functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    SinkFunction,
)
from pystate.core.api.interval_join_operation import IntervalJoinOperation
from pystate.core.api.window.window_operation import WindowOperation

_ELEMENTS_OF_BOTH = ("process_element1", "process_element2")
_ELEMENTS_AND_BROADCAST = ("process_element", "process_broadcast_element")


@dataclass(frozen=True)
class OperatorTraits:
    """What is known of an operator by its kind.

    Attributes:
        function: The class of its functions; None if no class belongs to this kind alone.
        methods: The methods of its function that are called with elements, one for each input. A kind with one of them takes
            plain functions, too. Empty if the operator calls the function in a way of its own.
        has_context: Whether its function gets a context: it may read timestamps and watermarks, and emit to side outputs.
        needs_slot: Whether it runs in a slot even if its input has no key.
        keeps_state: Whether it keeps results in state of its own, even with a plain function.
        keeps_type: Whether its results have the type of its elements.
        one_for_one: Whether it emits one result for each element.
        asynchronous: Whether results leave it later than their elements come, while other keys are the current one.
    """

    function: type[Any] | None = None
    methods: tuple[str, ...] = ()
    has_context: bool = False
    needs_slot: bool = False
    keeps_state: bool = False
    keeps_type: bool = False
    one_for_one: bool = False
    asynchronous: bool = False


class OperatorKind(Enum):
    """The kind of an operator, which determines how its function is called.

    Attributes:
        traits: What is known of such operators.
    """

    _value_: str
    traits: OperatorTraits

    MAP = "Map", OperatorTraits(MapFunction, ("map",), one_for_one=True)
    FLAT_MAP = "FlatMap", OperatorTraits(FlatMapFunction, ("flat_map",))
    FILTER = "Filter", OperatorTraits(FilterFunction, ("filter",), keeps_type=True)
    PROCESS = "KeyedProcess", OperatorTraits(KeyedProcessFunction, ("process_element",), has_context=True)
    REDUCE = (
        "Reduce",
        OperatorTraits(ReduceFunction, ("reduce",), keeps_state=True, keeps_type=True, one_for_one=True),
    )
    WINDOW = "Window", OperatorTraits(WindowOperation, has_context=True)
    PLAIN_PROCESS = "Process", OperatorTraits(ProcessFunction, ("process_element",), has_context=True)
    SINK = "Sink", OperatorTraits(SinkFunction, ("invoke",), needs_slot=True)
    ASSIGN_TIMESTAMPS = "TimestampsAndWatermarks", OperatorTraits(one_for_one=True)
    CO_MAP = "CoMap", OperatorTraits(CoMapFunction, ("map1", "map2"), needs_slot=True)
    CO_FLAT_MAP = "CoFlatMap", OperatorTraits(CoFlatMapFunction, ("flat_map1", "flat_map2"), needs_slot=True)
    CO_PROCESS = (
        "CoProcess",
        OperatorTraits(CoProcessFunction, _ELEMENTS_OF_BOTH, has_context=True, needs_slot=True),
    )
    KEYED_CO_PROCESS = (
        "KeyedCoProcess",
        OperatorTraits(KeyedCoProcessFunction, _ELEMENTS_OF_BOTH, has_context=True, needs_slot=True),
    )
    INTERVAL_JOIN = "IntervalJoin", OperatorTraits(IntervalJoinOperation, has_context=True)
    ASYNC_WAIT = "AsyncWait", OperatorTraits(AsyncFunctionDescriptor, needs_slot=True, asynchronous=True)
    BROADCAST_PROCESS = (
        "BroadcastProcess",
        OperatorTraits(BroadcastProcessFunction, _ELEMENTS_AND_BROADCAST, has_context=True, needs_slot=True),
    )
    KEYED_BROADCAST_PROCESS = (
        "KeyedBroadcastProcess",
        OperatorTraits(
            KeyedBroadcastProcessFunction,
            ("process_element", "process_broadcast_element"),
            has_context=True,
            needs_slot=True,
        ),
    )
    SOURCE = "Source", OperatorTraits()

    def __new__(cls, value: str, traits: OperatorTraits) -> OperatorKind:
        """Return a member whose value is its name alone."""
        member = object.__new__(cls)
        member._value_ = value
        member.traits = traits
        return member
