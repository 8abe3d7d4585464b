"""A job's plan in Flink's JSON format: nodes and edges."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator
from typing import Any

from pystate.runtime.plan.chain import Chain, ChainNode
from pystate.runtime.plan.job_plan import JobPlan, SourcePlan, vertex_id
from pystate.runtime.plan.task import TaskSpec
from pystate.runtime.plan.task_output import OutputKind, OutputSpec, Routing

_EXCHANGE = "pipelined_bounded"
_SHIP_STRATEGIES = {
    Routing.KEY: "HASH",
    Routing.FORWARD: "FORWARD",
    Routing.REBALANCE: "REBALANCE",
    Routing.SHUFFLE: "SHUFFLE",
    Routing.GLOBAL: "GLOBAL",
    Routing.BROADCAST: "BROADCAST",
    Routing.CUSTOM: "CUSTOM",
}


def plan_nodes(plan: JobPlan) -> list[dict[str, Any]]:
    """Return the nodes of a plan, the last ones first, as Flink lists them.

    A node is a task, or a source with its stateless chain. A source has the parallelism of the job: how many tasks Spark
    reads it with depends on its partitions.
    """
    edges: list[tuple[str, OutputSpec]] = []
    nodes = []
    for source in plan.sources:
        edges += [(source.uid, output) for output in _source_edges(source, plan)]
        nodes.append(_node(source.uid, f"Source: {source.step.name}", plan.parallelism, source.chain or Chain()))
    for task in plan.tasks:
        edges += [(task.uid, output) for output in task.outputs if output.kind is OutputKind.EDGE]
        nodes.append(_node(task.uid, task.name, task.parallelism, task.chain, headless=task.head is None))
    for node in nodes:
        inputs = _inputs(node["uid"], edges)
        if inputs:
            node["inputs"] = inputs
    return nodes[::-1]


def _source_edges(source: SourcePlan, plan: JobPlan) -> list[OutputSpec]:
    if source.chain is not None:
        return [output for output in source.chain.all_outputs() if output.kind is OutputKind.EDGE]
    first: TaskSpec = plan.levels[0][0]
    routing = plan.direct_routing or Routing.FORWARD
    return [OutputSpec(0, OutputKind.EDGE, f"to {first.name}", target=first.uid, routing=routing)]


def _inputs(uid: str, edges: Iterable[tuple[str, OutputSpec]]) -> list[dict[str, Any]]:
    found = [(output.input_index, origin, output) for origin, output in edges if output.target == uid]
    return [
        {
            "id": vertex_id(origin),
            "num": number,
            "exchange": _EXCHANGE,
            "ship_strategy": _SHIP_STRATEGIES[output.routing],
        }
        for number, (_, origin, output) in enumerate(sorted(found, key=lambda edge: edge[0]))
    ]


def _node(uid: str, name: str, parallelism: int, chain: Chain, *, headless: bool = False) -> dict[str, Any]:
    lines = [line for word, node in _items(chain) for line in (word, *_tree(node))] if headless else [name, *_tree(chain)]
    return {
        "id": vertex_id(uid),
        "operator": "",
        "parallelism": parallelism,
        "operator_strategy": "",
        "description": "".join(f"{html.escape(line, quote=False)}<br/>" for line in lines or [name]),
        "optimizer_properties": {},
        "uid": uid,
    }


def _tree(place: Chain | ChainNode | None) -> Iterator[str]:
    """Yield a line for each operator chained after a place, with the branches drawn as in Flink."""
    items = _items(place)
    for number, (word, node) in enumerate(items, 1):
        is_last = number == len(items)
        yield f"{'+' if is_last else ':'}- {word}"
        for line in _tree(node):
            yield f"{' ' if is_last else ':'}  {line}"


def _items(place: Chain | ChainNode | None) -> list[tuple[str, ChainNode | None]]:
    if place is None:
        return []
    sinks: list[tuple[str, ChainNode | None]] = [
        (f"Sink: {output.name}", None) for output in place.outputs if output.kind is not OutputKind.EDGE
    ]
    side = [item for chain in place.side_outputs.values() for item in _items(chain)]
    return [*((child.operator.name, child) for child in place.children), *sinks, *side]
