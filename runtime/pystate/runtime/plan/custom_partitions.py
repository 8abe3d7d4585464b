"""The program's own partitioner, which selects the subtask of each element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from pystate.common.errors import RecordError
from pystate.common.user_code.taken import Taken
from pystate.core.api.functions import Function, KeySelector, Partitioner, RuntimeContext


class CustomPartitions(Function):
    """Selects the subtask of the next task that gets an element.

    Args:
        partitioner: A `Partitioner`, or a function, of a key and the number of subtasks.
        key_selector: A `KeySelector`, or a function, that makes the key of an element.
        count: The number of subtasks.
        taken: Both as captured from the program.
    """

    def __init__(
        self, partitioner: Any, key_selector: Any, count: int, taken: Mapping[str, Taken] = MappingProxyType({})
    ) -> None:
        self._sent = (taken.get("partitioner", partitioner), taken.get("key_selector", key_selector), count)
        self._functions = [made for made in (partitioner, key_selector) if isinstance(made, Function)]
        self._partition: Callable[[Any, int], Any] = (
            partitioner.partition if isinstance(partitioner, Partitioner) else partitioner
        )
        self._key: Callable[[Any], Any] = key_selector.get_key if isinstance(key_selector, KeySelector) else key_selector
        self._count = count

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the captured functions."""
        return CustomPartitions, self._sent

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the functions."""
        for function in self._functions:
            function.open(runtime_context)

    def close(self) -> None:
        """Close the functions."""
        for function in reversed(self._functions):
            function.close()

    def __call__(self, element: Any) -> int:
        """Return the number of the subtask.

        Raises:
            RecordError: The partitioner named one that doesn't exist.
        """
        partition = self._partition(self._key(element), self._count)
        if not isinstance(partition, int) or not 0 <= partition < self._count:
            message = f"The partitioner of partition_custom() returned {partition!r} for {element!r}."
            raise RecordError(message, hint=f"return a number from 0 to {self._count - 1}: the key % num_partitions")
        return partition
