"""The plan of a program as Flink's JSON."""

from __future__ import annotations

import pytest

from pystate.common.errors import JobGraphError
from pystate.core.api.json_plan import json_plan
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import (
    KeyByTransformation,
    OneInputTransformation,
    Partitioning,
    PartitionTransformation,
    SinkTransformation,
    SourceTransformation,
    TwoInputTransformation,
    UnionTransformation,
)


def edges(graph: StreamGraph, parallelism: int = 2) -> dict[str, list[tuple[str, str, str]]]:
    nodes = json_plan(graph, parallelism)["nodes"]
    names = {node["id"]: node["contents"] for node in nodes}
    return {
        node["contents"]: [(names[one["id"]], one["ship_strategy"], one["side"]) for one in node.get("predecessors", [])]
        for node in nodes
    }


def test_virtual_steps_become_ship_strategies():
    source = SourceTransformation("words")
    keyed = KeyByTransformation("key", (source,))
    count = OneInputTransformation("count", (keyed,), keyed=True, kind=OperatorKind.PROCESS)
    spread = PartitionTransformation("spread", (count,), partitioning=Partitioning.BROADCAST)
    SinkTransformation("out", (spread,))

    assert edges(StreamGraph([source])) == {
        "Source: words": [],
        "count": [("Source: words", "HASH", "second")],
        "Sink: out": [("count", "BROADCAST", "second")],
    }


def test_unions_and_two_inputs():
    first, second, third = (SourceTransformation(name) for name in "abc")
    both = UnionTransformation("union", (first, second))
    joined = TwoInputTransformation("join", (both, third), parallelism=5)
    SinkTransformation("out", (joined,))

    assert edges(StreamGraph([first, second, third]))["join"] == [
        ("Source: a", "REBALANCE", "first"),
        ("Source: b", "REBALANCE", "first"),
        ("Source: c", "REBALANCE", "second"),
    ]


def test_parallelism_and_uids():
    source = SourceTransformation("a")
    OneInputTransformation("map", (source,), parallelism=3, uid="m")
    unread = SourceTransformation("nobody reads it")

    nodes = json_plan(StreamGraph([source, unread]), 2)["nodes"]

    assert [(node["contents"], node["parallelism"], node["pact"]) for node in nodes] == [
        ("Source: a", 2, "Data Source"),
        ("map", 3, "Operator"),
    ]
    assert nodes[1]["uid"] == "m"


def test_a_uid_that_is_missing_where_uids_must_be_set():
    source = SourceTransformation("a")
    OneInputTransformation("count", (source,), keyed=True)

    with pytest.raises(JobGraphError, match="keeps state and has no uid"):
        json_plan(StreamGraph([source]), 2, auto_uids=False)
