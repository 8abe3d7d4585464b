"""The kinds of operators."""

from __future__ import annotations

from enum import Enum


class OperatorKind(Enum):
    """The kind of an operator, which determines how its function is called."""

    MAP = "Map"
    FLAT_MAP = "FlatMap"
    FILTER = "Filter"
    PROCESS = "KeyedProcess"
    REDUCE = "Reduce"
    WINDOW = "Window"
    PLAIN_PROCESS = "Process"
    SINK = "Sink"
    ASSIGN_TIMESTAMPS = "TimestampsAndWatermarks"
    CO_MAP = "CoMap"
    CO_FLAT_MAP = "CoFlatMap"
    CO_PROCESS = "CoProcess"
    KEYED_CO_PROCESS = "KeyedCoProcess"
    INTERVAL_JOIN = "IntervalJoin"
    ASYNC_WAIT = "AsyncWait"
    BROADCAST_PROCESS = "BroadcastProcess"
    KEYED_BROADCAST_PROCESS = "KeyedBroadcastProcess"
    SOURCE = "Source"
