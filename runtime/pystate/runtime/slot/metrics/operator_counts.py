"""Derives the records in and out of each operator of a task from the counts of the task.

A task counts by batch: the rows of its inputs and of each output. Rows between two chained functions are not counted, but
can often be derived: what one operator writes the next one reads, and a function that makes one element of each writes as
many as it reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pystate.core.api.operator_kind import OperatorKind
from pystate.runtime.plan.chain import Chain, ChainNode, OperatorSpec
from pystate.runtime.plan.task import TaskSpec

Counts = tuple[int | None, int | None]
"""Records in and out; None if unknown."""


class OperatorCounts:
    """Computes the counts of a task's operators.

    Args:
        task: The task.
    """

    def __init__(self, task: TaskSpec) -> None:
        self._task = task
        places = list(task.chain.places())
        self._places = places
        self._followed = Counter(id(child) for place in places for child in place.children)
        self._fed = Counter(output.tag for place in places for output in place.outputs)

    def rows_out(self, rows_by_output: Mapping[int, int]) -> int:
        """Return how many rows a task has written; rows of a stream with several readers count once.

        Args:
            rows_by_output: The rows of each output, by its tag.
        """
        counted: set[int] = set()
        total = 0
        for place in self._places:
            tags = {output.tag for output in place.outputs} - counted
            counted |= tags
            total += max((rows_by_output.get(tag, 0) for tag in tags), default=0)
        return total

    def counts(self, records_in: int, rows_out: Mapping[int, int]) -> dict[str, Counts]:
        """Return the counts by operator uid.

        Args:
            records_in: The rows of all inputs.
            rows_out: The rows of each output, by its tag.
        """
        found: dict[str, Counts] = {}
        chain, head = self._task.chain, self._task.head
        passed: int | None = records_in
        if head is not None:
            passed = self._written(chain, head, records_in, rows_out)
            found[head.uid] = (records_in, passed)
        self._follow(chain, passed, rows_out, found)
        return found

    def _follow(
        self, place: Chain | ChainNode, passed: int | None, rows_out: Mapping[int, int], found: dict[str, Counts]
    ) -> None:
        for side in place.side_outputs.values():
            self._follow(side, None, rows_out, found)
        for child in place.children:
            read = passed if self._followed[id(child)] == 1 else None
            written = self._written(child, child.operator, read, rows_out)
            found[child.operator.uid] = (read, written)
            self._follow(child, written, rows_out, found)

    def _written(
        self, place: Chain | ChainNode, operator: OperatorSpec, read: int | None, rows_out: Mapping[int, int]
    ) -> int | None:
        """Return what an operator writes to `place`; an output with a single writer is written by it alone."""
        for output in place.outputs:
            if self._fed[output.tag] == 1:
                return rows_out.get(output.tag, 0)
        if operator.kind is OperatorKind.SINK:
            return 0
        if operator.kind.traits.one_for_one and read is not None:
            return read
        for child in place.children:
            if self._followed[id(child)] == 1 and child.operator.kind.traits.one_for_one:
                written = self._written(child, child.operator, None, rows_out)
                if written is not None:
                    return written
        return None
