"""Functions that take part in checkpoints: operator state, raw state, and news of completed checkpoints.

Flink's `CheckpointedFunction`, `ListCheckpointed`, `CheckpointListener`, `BoundedOneInput` and their contexts, which PyFlink
doesn't have.

A function that implements `CheckpointedFunction` or `ListCheckpointed` keeps state in its own fields. Those can't be rolled
back: where an epoch dies half way (a lost Python worker), the job restarts from its latest checkpoint; it doesn't run that
epoch again in place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, BinaryIO

from pystate.core.api.functions import KeyedStateStore
from pystate.core.api.state import BroadcastState, ListState, ListStateDescriptor, MapStateDescriptor
from pystate.core.api.type_variables import K, T, V


class OperatorStateStore(ABC):
    """Provides operator state: state of a subtask, not of a key. It is held in memory on every backend.

    All methods raise StateError where the name is taken by a state of another kind, type or mode.
    """

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """Return a list state whose elements are redistributed evenly over the subtasks on restore (SPLIT_DISTRIBUTE)."""

    @abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """Return a list state of which every subtask gets the elements of all subtasks on restore (UNION)."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor[K, V]) -> BroadcastState[K, V]:
        """Return a broadcast state: each subtask keeps its own copy (BROADCAST)."""

    @abstractmethod
    def get_registered_state_names(self) -> set[str]:
        """Return the names of the list states, including restored ones that were not requested yet."""

    @abstractmethod
    def get_registered_broadcast_state_names(self) -> set[str]:
        """Return the names of the broadcast states, including restored ones that were not requested yet."""


class RawKeyedStateOutput(ABC):
    """The output for an operator's raw bytes by key group."""

    @abstractmethod
    def start_new_key_group(self, key_group: int) -> BinaryIO:
        """Start a key group and return its stream; ends the previous one. They must ascend and be this subtask's."""


class RawOperatorStateOutput(ABC):
    """The output for an operator's raw bytes by partition."""

    @abstractmethod
    def start_new_partition(self) -> BinaryIO:
        """Start a partition and return its stream; ends the previous one. A restore redistributes partitions evenly."""


class FunctionSnapshotContext(ABC):
    """The checkpoint that is being taken."""

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """Return its number."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """Return when it was triggered, ms since 1970."""

    def is_last(self) -> bool:
        """Return whether the inputs of all subtasks have ended before it. pystate only."""
        return False

    @abstractmethod
    def get_raw_keyed_state_output(self) -> RawKeyedStateOutput:
        """Return where raw keyed state is written.

        Raises:
            StateError: The stream is not keyed.
        """

    @abstractmethod
    def get_raw_operator_state_output(self) -> RawOperatorStateOutput:
        """Return where raw operator state is written."""


class FunctionInitializationContext(ABC):
    """The state that a function is initialized with, empty or restored."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Return whether the job starts from a snapshot."""

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """Return the number of the checkpoint the job starts from; None if it starts from nothing."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Return where operator state is registered."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """Return where keyed state is registered; its methods raise StateError where the stream is not keyed."""

    @abstractmethod
    def get_raw_keyed_state_inputs(self) -> Iterator[tuple[int, BinaryIO]]:
        """Iterate over (key group, bytes) of this subtask's raw keyed state."""

    @abstractmethod
    def get_raw_operator_state_inputs(self) -> Iterator[BinaryIO]:
        """Iterate over the partitions of raw operator state that were assigned to this subtask."""


class CheckpointedFunction(ABC):
    """Mixin for functions that keep operator state, or take action when a checkpoint is taken."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Write the function's fields to its states; called for each checkpoint, between two epochs."""

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Register states and read restored content; called once per execution attempt, before `open`."""


class ListCheckpointed(ABC):
    """Mixin for functions whose state is a list that is redistributed evenly on restore (Flink's older interface).

    Elements are untyped values, see `StateDescriptor`.
    """

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        """Return this subtask's state as a list of parts that can move independently."""

    @abstractmethod
    def restore_state(self, state: list[Any]) -> None:
        """Restore parts of previous subtasks; called before `open`, only if the job is restored."""


class CheckpointListener(ABC):
    """Mixin for functions that are notified when checkpoints complete or are aborted.

    A notification may be lost in a failure: a later one stands for it.
    """

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Handle the completion of a checkpoint; called on the subtask's processing thread, between two epochs."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:  # noqa: B027 - optional hook
        """Handle the abort of a checkpoint."""


class BoundedOneInput(ABC):
    """Mixin for functions that are notified at the end of input, after which no job resumed from a snapshot sends more."""

    @abstractmethod
    def end_input(self) -> None:
        """Handle the end of input: of a bounded job, or of a drained one."""
