"""Finds shuffles in the DataFrame of a source, upstream of those that pystate adds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOVES = ("Repartition", "RepartitionByExpression", "RebalancePartitions")
_OTHERS = ("Join", "Aggregate", "Deduplicate", "Distinct", "Window", "Sort", "GlobalLimit", "Limit", "Intersect", "Except")


@dataclass(frozen=True)
class SourceShuffles:
    """The shuffles of a source's DataFrame.

    Attributes:
        moves: The DataFrame moves rows between partitions, and reads all of them afterwards (`repartition`).
        others: Spark's names of operations that may shuffle and need not read everything that was written: a join ends with
            the shorter side.
    """

    moves: bool
    others: tuple[str, ...]

    @property
    def can_be_proven(self) -> bool:
        """Whether all rows that are written must be read."""
        return self.moves and not self.others


def source_shuffles(frame: DataFrame) -> SourceShuffles:
    """Return the shuffles of a streaming DataFrame, as far as its plan shows them."""
    nodes = list(_nodes(frame._jdf.queryExecution().analyzed()))  # noqa: SLF001 - pyspark has no public way to the plan
    # coalesce() is a Repartition without a shuffle
    moves = any(name in _MOVES and (name != "Repartition" or node.shuffle()) for name, node in nodes)
    return SourceShuffles(moves, tuple(sorted({name for name, _ in nodes if name in _OTHERS})))


def source_shuffle_notices(name: str, frame: DataFrame) -> list[str]:
    """Return notices for the author of a source whose own shuffles can't be verified."""
    others = source_shuffles(frame).others
    if not others:
        return []
    return [
        f"The DataFrame of the source {name!r} may shuffle ({', '.join(others)}): rows that its shuffles lose below Spark "
        "without an error, by emptied files, are not noticed, as in any Spark job. After it each row is proven to arrive."
    ]


def _nodes(plan: Any) -> Iterator[tuple[str, Any]]:
    yield str(plan.nodeName()).strip(), plan
    children = plan.children()
    for index in range(children.length()):
        yield from _nodes(children.apply(index))
