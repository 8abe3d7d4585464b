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


class OperatorStateStore(ABC):
    """Gives out operator state: state of a subtask, not of a key. It lives in memory on every backend.

    All methods raise StateError where the name is taken by a state of another kind, type or mode.
    """

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a list state whose elements are spread evenly over the subtasks at a restore (SPLIT_DISTRIBUTE)."""

    @abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a list state of which every subtask gets all elements of all subtasks at a restore (UNION)."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """Return a broadcast state: each subtask keeps its own copy (BROADCAST)."""

    @abstractmethod
    def get_registered_state_names(self) -> set[str]:
        """Return the names of the list states, restored ones that nobody asked for yet included."""

    @abstractmethod
    def get_registered_broadcast_state_names(self) -> set[str]:
        """Return the names of the broadcast states, restored ones that nobody asked for yet included."""


class RawKeyedStateOutput(ABC):
    """Where an operator writes bytes by key group."""

    @abstractmethod
    def start_new_key_group(self, key_group: int) -> BinaryIO:
        """Return where the bytes of a key group go; ends the one before. Key groups ascend and are this subtask's."""


class RawOperatorStateOutput(ABC):
    """Where an operator writes bytes by partition."""

    @abstractmethod
    def start_new_partition(self) -> BinaryIO:
        """Return where the bytes of the next partition go; ends the one before. A restore spreads partitions evenly."""


class FunctionSnapshotContext(ABC):
    """The checkpoint that is being taken."""

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """Return its number."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """Return when it was triggered, ms since 1970."""

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
    """What a function finds when it starts, anew or restored."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Return whether the job starts from a snapshot."""

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """Return the number of the checkpoint the job starts from; None where it starts from nothing."""

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
        """Iterate over the partitions of raw operator state that fell to this subtask."""


class CheckpointedFunction(ABC):
    """Mixed into a function: it keeps operator state, or is to know when a checkpoint is taken."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Bring what the function's fields hold into its states; called for each checkpoint, between two epochs."""

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Register states and take over what they hold; called once per execution attempt, before `open`."""


class ListCheckpointed(ABC):
    """Mixed into a function: its state is a list that is spread evenly over the subtasks at a restore (Flink's older style).

    Elements are untyped values, see `StateDescriptor`.
    """

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        """Return this subtask's state as a list of parts that can move independently."""

    @abstractmethod
    def restore_state(self, state: list[Any]) -> None:
        """Take over parts of old subtasks; called before `open`, only where the job is restored."""


class CheckpointListener(ABC):
    """Mixed into a function: it hears when checkpoints are complete or given up.

    A notification may be lost in a failure: a later one stands for it.
    """

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Take note that a checkpoint is complete; called on the subtask's thread of work, between two epochs."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:  # noqa: B027 - optional hook
        """Take note that a checkpoint was given up."""


class BoundedOneInput(ABC):
    """Mixed into a function: it hears that no element follows, in this job or any that is resumed from its snapshots."""

    @abstractmethod
    def end_input(self) -> None:
        """Take note that the last element was here: a bounded job's, or that of one which is drained."""
