"""Programs as graphs, without an environment, and their plans."""

from __future__ import annotations

from pystate.common import Types
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import (
    KeyByTransformation,
    OneInputTransformation,
    PartitionTransformation,
    SinkKind,
    SinkTransformation,
    SourceTransformation,
    TwoInputTransformation,
    UnionTransformation,
)
from pystate.datastream import CoMapFunction, KeyedCoProcessFunction, KeyedProcessFunction
from pystate.runtime.plan.planner import JobPlanner

WORD = Types.ROW_NAMED(["word"], [Types.STRING()])
ROWS = Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.LONG()])


class Nothing(KeyedProcessFunction):
    def process_element(self, value, ctx):
        return None


class EitherMap(CoMapFunction):
    def map1(self, value):
        return value

    def map2(self, value):
        return value


class EitherProcess(KeyedCoProcessFunction):
    def process_element1(self, value, ctx):
        return None

    def process_element2(self, value, ctx):
        return None


def source(name="source", output_type=None, **options):
    return SourceTransformation(name, (), output_type, **options)


def mapped(parent, name="Map", uid=None, output_type=None, parallelism=None, function=str):
    return OneInputTransformation(
        name, (parent,), output_type, uid=uid, parallelism=parallelism, kind=OperatorKind.MAP, function=function
    )


def keyed(parent, **key):
    return KeyByTransformation("KeyBy", (parent,), parent.output_type, **key)


def process(parent, uid=None, name="KeyedProcess", output_type=None, parallelism=None, max_parallelism=None):
    return OneInputTransformation(
        name,
        (parent,),
        output_type,
        uid=uid,
        parallelism=parallelism,
        max_parallelism=max_parallelism,
        kind=OperatorKind.PROCESS,
        function=Nothing(),
        keyed=True,
    )


def united(*parents):
    return UnionTransformation("Union", parents)


def partitioned(parent, partitioning):
    return PartitionTransformation(partitioning.value, (parent,), parent.output_type, partitioning=partitioning)


def connected(first, second, uid=None, output_type=None):
    key = isinstance(first, KeyByTransformation)
    kind = OperatorKind.KEYED_CO_PROCESS if key else OperatorKind.CO_MAP
    function = EitherProcess() if key else EitherMap()
    return TwoInputTransformation(kind.value, (first, second), output_type, uid=uid, kind=kind, function=function, keyed=key)


def printed(parent, parallelism=None):
    return SinkTransformation("Print", (parent,), kind=SinkKind.PRINT, parallelism=parallelism)


def planned(roots, types=None, parallelism=2, max_parallelism=None):
    graph = StreamGraph(list(roots))
    types = [root.output_type or ROWS for root in roots] if types is None else types
    return JobPlanner(graph, graph.assign_uids(auto=True), parallelism, max_parallelism).plan(types)
