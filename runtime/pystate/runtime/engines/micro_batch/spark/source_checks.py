"""Checks what the DataFrame part of a job must not contain: Spark's own state, and other queries of the program.

State kept by Spark would not be in pystate's checkpoints, and would be lost without an error at a restore.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pystate.common.errors import JobGraphError
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import SparkSource
from pystate.runtime.engines.micro_batch.spark.stream_formats import (
    format_name,
    format_of,
    implementation_of,
    node_name,
    relation_options,
    streams_of,
)
from pystate.runtime.plan.job_plan import JobPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OUR_QUERIES = "pystate-"
"""The prefix of the names of pystate's own queries."""

_PROCESS = "keep that state in a KeyedProcessFunction after key_by(), where checkpoints and savepoints hold it"
_STATEFUL = {
    "Aggregate": ("groupBy().agg()", _PROCESS),
    "Deduplicate": ("dropDuplicates() or distinct()", _PROCESS),
    "DeduplicateWithinWatermark": ("dropDuplicatesWithinWatermark()", _PROCESS),
    "GlobalLimit": ("limit()", _PROCESS),
    "FlatMapGroupsWithState": ("flatMapGroupsWithState()", _PROCESS),
    "FlatMapGroupsInPandasWithState": ("applyInPandasWithState()", _PROCESS),
    "TransformWithState": ("transformWithState()", _PROCESS),
    "TransformWithStateInPySpark": ("transformWithState()", _PROCESS),
    "TransformWithStateInPandas": ("transformWithStateInPandas()", _PROCESS),
    "EventTimeWatermark": (
        "withWatermark()",
        'leave it out, and name the column: env.from_data_frame(frame, event_time="...")',
    ),
}
_JOIN = ("a join of two streams", "join with a batch DataFrame, or keep one side in a KeyedProcessFunction")


@dataclass(frozen=True)
class PlanNode:
    """A node of a DataFrame's plan.

    Attributes:
        name: The kind of node.
        streaming_children: The number of its inputs that are streams.
        options: A source's options, with keys in lower case.
        source: A source's implementation class.
        format: The name of a source's format.
    """

    name: str
    streaming_children: int = 0
    options: dict[str, str] = field(default_factory=dict)
    source: str = ""
    format: str = ""


def check_frame(frame: DataFrame, where: str) -> None:
    """Reject a streaming DataFrame that can't be restored.

    Raises:
        JobGraphError: It can't; the error names the obstacle and the alternative.
    """
    for node in plan_nodes_of(frame):
        check_node(node, where)


def spark_sources(plan: JobPlan, frames: list[DataFrame]) -> list[SparkSource]:
    """Return the sources of the lines in the query's offset log, in order.

    Raises:
        JobGraphError: Two sources of the job read the same Spark stream.
    """
    found: list[SparkSource] = []
    relations: list[tuple[Any, str]] = []
    for source, frame in zip(plan.sources, frames, strict=True):
        plans = streams_of(frame._jdf.queryExecution().analyzed())  # noqa: SLF001 - pyspark has no public way to the plan
        for part, relation in enumerate(plans):
            same = [log for log, (other, _) in enumerate(relations) if other.equals(relation)]
            if same and relations[same[0]][1] != source.uid:
                message = f"Two sources of the job read the same DataFrame; the second is {source.step.name!r}."
                raise JobGraphError(message, hint="call from_data_frame() once and use its stream twice")
            if not same:
                relations.append((relation, source.uid))
            known = format_of(relation)
            keeps_place = known is None or known.keeps_place
            found.append(SparkSource(source.uid, part, same[0] if same else len(relations) - 1, keeps_place))
    return found


def check_no_other_query(spark: SparkSession) -> None:
    """Reject a program that has started other queries: they would not be part of its checkpoints.

    Raises:
        JobGraphError: Another query runs.
    """
    others = [query for query in spark.streams.active if not (query.name or "").startswith(OUR_QUERIES)]
    if others:
        named = ", ".join(repr(query.name or str(query.id)) for query in others)
        message = (
            f"The program has started a streaming query of its own: {named}. A job is one query, and pystate starts it."
        )
        raise JobGraphError(message, hint="attach its sink with for_each_batch() instead of writeStream...start()")


def plan_nodes_of(frame: DataFrame) -> Iterator[PlanNode]:
    """Yield the nodes of a streaming DataFrame's plan that process streams."""
    yield from _nodes(frame._jdf.queryExecution().analyzed())  # noqa: SLF001 - pyspark has no public way to the plan


def check_node(node: PlanNode, where: str) -> None:
    """Reject an invalid node; see `check_frame`."""
    known = _STATEFUL.get(node.name)
    if node.name == "Join" and node.streaming_children > 1:
        known = _JOIN
    if known is not None:
        what, alternative = known
        message = f"The DataFrame part of the job keeps state in Spark: {what}. It would not be in any checkpoint."
        raise JobGraphError(message, where=where, hint=alternative)


def _nodes(plan: Any) -> Iterator[PlanNode]:
    children = [plan.children().apply(index) for index in range(plan.children().length())]
    yield PlanNode(
        node_name(plan),
        sum(child.isStreaming() for child in children),
        relation_options(plan),
        implementation_of(plan),
        format_name(plan),
    )
    for child in children:
        if child.isStreaming():
            yield from _nodes(child)
