"""Which subtask of the next step gets an element of a stream."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from pystate.common.errors import JobGraphError
from pystate.core.api.functions import Function, KeySelector, Partitioner
from pystate.core.api.job_graph import (
    CustomPartitionTransformation,
    KeyByTransformation,
    Partitioning,
    PartitionTransformation,
    Transformation,
)
from pystate.datastream.step_settings import StepSettings
from pystate.datastream.wrong_functions import shown, way_of

StreamT = TypeVar("StreamT")


class PartitionableStream(StepSettings, Generic[StreamT]):
    """A stream, as far as it says how its elements get to the next step; generic in the stream that comes of that."""

    @abstractmethod
    def followed_by(self, step: Transformation) -> StreamT:
        """Return the stream that a step behind this one makes."""

    def rebalance(self) -> StreamT:
        """Send elements to the subtasks of the next step in turn."""
        return self._partitioned(Partitioning.REBALANCE)

    def shuffle(self) -> StreamT:
        """Send each element to a subtask of the next step that is as good as random."""
        return self._partitioned(Partitioning.SHUFFLE)

    def forward(self) -> StreamT:
        """Keep the elements of a partition together on their way to the next step, in their order."""
        return self._partitioned(Partitioning.FORWARD)

    def rescale(self) -> StreamT:
        """Send elements to the subtasks of the next step in turn.

        To all of them, as `rebalance` does: Spark's shuffle leaves no nearer ones to choose.
        """
        return self._partitioned(Partitioning.REBALANCE)

    def partition_custom(
        self,
        partitioner: Callable[[Any, int], int] | Partitioner,
        key_selector: Callable[[Any], Any] | KeySelector,
    ) -> StreamT:
        """Send each element to the subtask of the next step that a function names.

        Args:
            partitioner: A `Partitioner`, or a function, of the key and the number of subtasks; returns a number from 0 on
                that is below that.
            key_selector: Makes the key of an element.

        Raises:
            JobGraphError: One of them is no function, or the stream has a key.
        """
        if isinstance(self._transformation, KeyByTransformation):
            message = "partition_custom() can't follow key_by(), which says already who gets an element."
            raise JobGraphError(message, hint="leave one of the two out")
        step = CustomPartitionTransformation(
            "Partition Custom",
            (self._transformation,),
            self._transformation.output_type,
            partitioning=Partitioning.CUSTOM,
            partitioner=checked_function(partitioner, Partitioner, "partition_custom"),
            key_selector=checked_function(key_selector, KeySelector, "partition_custom"),
        )
        return self.followed_by(step)

    def global_(self) -> StreamT:
        """Send all elements to the first subtask of the next step."""
        return self._partitioned(Partitioning.GLOBAL)

    def _partitioned(self, partitioning: Partitioning) -> StreamT:
        parent = without_key(self._transformation)
        step = PartitionTransformation(
            partitioning.value, (parent,), self._transformation.output_type, partitioning=partitioning
        )
        return self.followed_by(step)


def checked_function(function: Any, expected: type[Function], what: str) -> Any:
    """Return a function as it is.

    Raises:
        JobGraphError: It is neither an `expected` nor anything else that can be called; names the method `what`.
    """
    is_function = isinstance(function, Function) or (isinstance(function, type) and issubclass(function, Function))
    if isinstance(function, expected) or (callable(function) and not is_function):
        return function
    message = f"{what}() takes a function or a {expected.__name__}, not {shown(function)}."
    raise JobGraphError(message, hint=way_of(function))


def without_key(step: Transformation) -> Transformation:
    """Return what a key_by() reads: the key says nothing where another partitioning follows."""
    return without_key(step.parent) if isinstance(step, KeyByTransformation) else step
