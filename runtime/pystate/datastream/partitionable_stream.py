"""Partitioning: which subtask of the next step gets an element of a stream."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from pystate.common.errors import JobGraphError
from pystate.core.api.functions import Function, KeySelector, Partitioner
from pystate.core.api.transformations import (
    CustomPartitionTransformation,
    KeyByTransformation,
    Partitioning,
    PartitionTransformation,
    Transformation,
    without_key,
)
from pystate.datastream.step_settings import StepSettings
from pystate.datastream.wrong_functions import shown, way_of

StreamT = TypeVar("StreamT")


class PartitionableStream(StepSettings, Generic[StreamT]):
    """The partitioning methods of a stream; generic in the resulting stream."""

    @abstractmethod
    def followed_by(self, step: Transformation) -> StreamT:
        """Return the stream produced by a step after this one."""

    def rebalance(self) -> StreamT:
        """Send elements to the subtasks of the next step in turn."""
        return self._partitioned(Partitioning.REBALANCE)

    def shuffle(self) -> StreamT:
        """Send each element to a pseudo-random subtask of the next step."""
        return self._partitioned(Partitioning.SHUFFLE)

    def forward(self) -> StreamT:
        """Send the elements of a partition to one subtask of the next step, in order."""
        return self._partitioned(Partitioning.FORWARD)

    def rescale(self) -> StreamT:
        """Send elements to the subtasks of the next step in turn.

        To all of them, like `rebalance`: Spark's shuffle has no local subtasks to prefer.
        """
        return self._partitioned(Partitioning.REBALANCE)

    def partition_custom(
        self,
        partitioner: Callable[[Any, int], int] | Partitioner,
        key_selector: Callable[[Any], Any] | KeySelector,
    ) -> StreamT:
        """Send each element to the subtask of the next step that a function returns.

        Args:
            partitioner: A `Partitioner`, or a function, of the key and the number of subtasks; returns a number from 0 to
                that number, exclusive.
            key_selector: Returns the key of an element.

        Raises:
            JobGraphError: One of them isn't a function, or the stream has a key.
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
    """Check that a value is a function, and return it.

    Raises:
        JobGraphError: It is neither an `expected` nor callable; names the method `what`.
    """
    is_function = isinstance(function, Function) or (isinstance(function, type) and issubclass(function, Function))
    if isinstance(function, expected) or (callable(function) and not is_function):
        return function
    message = f"{what}() takes a function or a {expected.__name__}, not {shown(function)}."
    raise JobGraphError(message, hint=way_of(function))
