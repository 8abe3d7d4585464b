"""Placement of steps: the stream edges of a program, and the steps that run in stateless source stages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import (
    KeyByTransformation,
    OneInputTransformation,
    Partitioning,
    PartitionTransformation,
    SideOutputTransformation,
    TimestampsTransformation,
    Transformation,
    TwoInputTransformation,
    UnionTransformation,
    VirtualTransformation,
    is_read_by_spark,
    live_children,
)
from pystate.runtime.plan.chain import needs_slot


@dataclass(frozen=True)
class StreamEdge:
    """An edge of the program's graph: a step reads the elements of another one (Flink's StreamEdge).

    Attributes:
        producer: The step that produces them, never a virtual one.
        declared: The step that declares the partitioning; None if there is none.
        tag: The tag of the side output that is read; None for the main output.
    """

    producer: Transformation
    declared: PartitionTransformation | None = None
    tag: str | None = None

    @property
    def partitioning(self) -> Partitioning | None:
        """The partitioning declared by the program; None if there is none."""
        return None if self.declared is None else self.declared.partitioning


def edges_into(step: Transformation, declared: PartitionTransformation | None = None) -> Iterator[StreamEdge]:
    """Yield the edges to a reader of `step`: through unions and partitionings, from the steps that produce the elements.

    Of several partitionings in a row the last one counts.
    """
    if isinstance(step, KeyByTransformation) or (isinstance(step, TimestampsTransformation) and not step.is_read):
        yield from edges_into(step.parent, declared)
    elif isinstance(step, PartitionTransformation):
        yield from edges_into(step.parent, declared or step)
    elif isinstance(step, UnionTransformation):
        for parent in step.parents:
            yield from edges_into(parent, declared)
    elif isinstance(step, SideOutputTransformation):
        yield StreamEdge(step.parent, declared, step.tag)
    else:
        yield StreamEdge(step, declared)


class SourceStages:
    """The steps that run in the stateless stages of the sources, upstream of the first shuffle.

    Such a step keeps no state, has the job's parallelism, reads only sources and other such steps, and leads to a shuffle.
    After a union of several sources it runs in the stage of each. A step that doesn't lead to a shuffle runs in a slot,
    where the sinks are, which saves rows one Python process.

    Args:
        graph: The program.
        parallelism: The job's.
    """

    def __init__(self, graph: StreamGraph, parallelism: int) -> None:
        self._parallelism = parallelism
        self._stateless: set[int] = set()
        self._leading: dict[int, bool] = {}
        for step in graph.transformations():
            if is_read_by_spark(step) or self._is_stateless(step):
                self._stateless.add(id(step))

    def __contains__(self, step: Transformation) -> bool:
        """Return whether the step is a source or runs in sources' stages."""
        return is_read_by_spark(step) or (id(step) in self._stateless and self._leads_to_shuffle(step))

    def _is_stateless(self, step: Transformation) -> bool:
        return (
            isinstance(step, OneInputTransformation)
            and not isinstance(step.parent, KeyByTransformation)
            and not needs_slot(step.function)
            and step.parallelism in (None, self._parallelism)
            and all(id(edge.producer) in self._stateless and edge.partitioning is None for edge in edges_into(step.parent))
        )

    def _leads_to_shuffle(self, step: Transformation) -> bool:
        known = self._leading.get(id(step))
        if known is None:
            known = self._leading[id(step)] = any(self._is_shuffled(child) for child in live_children(step))
        return known

    def _is_shuffled(self, child: Transformation) -> bool:
        """Return whether elements reach a shuffle at a child, or further downstream within this stage."""
        if isinstance(child, SideOutputTransformation):
            return self._leads_to_shuffle(child)
        if isinstance(child, (VirtualTransformation, TwoInputTransformation)):
            return True
        if child.parallelism not in (None, self._parallelism):
            return True
        return id(child) in self._stateless and self._leads_to_shuffle(child)
