"""The program as JSON in the format of Flink's execution plan, without running it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import (
    KeyByTransformation,
    PartitionTransformation,
    SinkTransformation,
    SourceTransformation,
    Transformation,
    TwoInputTransformation,
    VirtualTransformation,
    live_children,
)


def json_plan(graph: StreamGraph, parallelism: int, *, auto_uids: bool = True) -> dict[str, Any]:
    """Return `{"nodes": [...]}`, the sources first.

    A node has Flink's fields `id`, `type`, `pact`, `contents`, `parallelism` and `predecessors`, and `uid`, by which its
    state is found. Sources have the parallelism of the job: how many tasks read them in Spark depends on their partitions.

    Args:
        graph: The program.
        parallelism: That of all steps that have none of their own.
        auto_uids: Whether steps with state may go without a uid.

    Raises:
        JobGraphError: A uid is used twice, or missing.
    """
    uids = graph.assign_uids(auto=auto_uids)
    steps = [step for step in graph.transformations() if not isinstance(step, VirtualTransformation) and _is_live(step)]
    numbers = {id(step): number for number, step in enumerate(steps, 1)}
    nodes = []
    for step in steps:
        own = step.parallelism or parallelism
        node: dict[str, Any] = {
            "id": numbers[id(step)],
            "type": _title(step),
            "pact": _pact(step),
            "contents": step.description or _title(step),
            "parallelism": own,
            "uid": uids[id(step)],
        }
        inputs = [
            {
                "id": numbers[id(parent)],
                "ship_strategy": ship or ("FORWARD" if (parent.parallelism or parallelism) == own else "REBALANCE"),
                "side": side,
            }
            for parent, ship, side in _inputs(step)
        ]
        if inputs:
            node["predecessors"] = inputs
        nodes.append(node)
    return {"nodes": nodes}


def _is_live(step: Transformation) -> bool:
    return not isinstance(step, SourceTransformation) or bool(live_children(step))


def _title(step: Transformation) -> str:
    if isinstance(step, SourceTransformation):
        return f"Source: {step.name}"
    return f"Sink: {step.name}" if isinstance(step, SinkTransformation) else step.name


def _pact(step: Transformation) -> str:
    if isinstance(step, SourceTransformation):
        return "Data Source"
    return "Data Sink" if isinstance(step, SinkTransformation) else "Operator"


def _inputs(step: Transformation) -> Iterator[tuple[Transformation, str | None, str]]:
    """Yield each non-virtual input step, its partitioning (None: it follows from the parallelisms), and the side."""
    for index, parent in enumerate(step.parents):
        # Flink calls the only input the second one
        side = "first" if isinstance(step, TwoInputTransformation) and index == 0 else "second"
        for real, ship in _real(parent, None):
            yield real, ship, side


def _real(step: Transformation, ship: str | None) -> Iterator[tuple[Transformation, str | None]]:
    if not isinstance(step, VirtualTransformation):
        yield step, ship
        return
    if ship is None and isinstance(step, KeyByTransformation):
        ship = "HASH"
    elif ship is None and isinstance(step, PartitionTransformation):
        ship = step.partitioning.name
    for parent in step.parents:
        yield from _real(parent, ship)
