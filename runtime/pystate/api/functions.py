"""What user code is made of: functions and the context they run in.

Names and signatures are those of `pyflink.datastream.functions`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from pystate.api.state import ValueState, ValueStateDescriptor


class RuntimeContext(ABC):
    """What a function may ask of the subtask it runs in. Handed to `Function.open`."""

    @abstractmethod
    def get_task_name(self) -> str:
        """Return the operator's name."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """Return the parallelism of the operator."""

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the number of key groups of the operator's state."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """Return the index of this subtask, from 0."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """Return the number of this execution attempt, from 0; it grows with every restart of the job."""

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a value of the job's configuration."""

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """Return the keyed value state of that name.

        Raises:
            StateError: The stream is not keyed, or the name is taken by a state of another type.
        """


class Function(ABC):  # noqa: B024 - the root of all functions; none of its methods must be overridden
    """The root of all user functions."""

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: B027 - optional hook
        """Prepare for work in a subtask; called once per execution attempt, before the first element."""

    def close(self) -> None:  # noqa: B027 - optional hook
        """Release what `open` acquired."""


class MapFunction(Function):
    """One element in, one element out."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """Return the element that takes the place of `value`."""


class FlatMapFunction(Function):
    """One element in, any number out."""

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any] | None:
        """Return or yield the elements that take the place of `value`."""


class FilterFunction(Function):
    """Keeps or drops elements."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Return whether to keep `value`."""


class KeySelector(Function):
    """Names the key of an element. Must be deterministic."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """Return the key of `value`."""


class KeyedProcessFunction(Function):
    """One element in, any number out, with the state of the element's key at hand."""

    class Context(ABC):
        """What is known about the element in hand."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the element."""

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        """Process one element; yield or return what goes on downstream."""
