"""The state of an operator, of its subtasks and of a task, as a checkpoint describes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pystate.common.key_groups import MAX_PARALLELISM_LIMIT
from pystate.core.snapshot.handles.incremental_handle import (
    AnyKeyedStateHandle,
    keyed_state_handle_from_plain,
)
from pystate.core.snapshot.handles.input_channel_state import InputChannelStateHandle
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.handles.operator_state_handle import OperatorStateHandle
from pystate.core.snapshot.plain import (
    UNREADABLE,
    as_map,
    pack_plain,
    take,
    take_int,
    take_list,
    take_optional_text,
    take_text,
    unpack_plain,
    unsound,
)


@dataclass(frozen=True)
class OperatorSubtaskState:
    """The state of one operator subtask in a checkpoint.

    Attributes:
        keyed_state: Handles of keyed state.
        operator_state: Handles of state that isn't keyed.
        raw_keyed_state: Handles of raw state by key group.
        raw_operator_state: Handles of raw state by partition.
        input_channel_state: In-flight data, for the operator that heads a task; None if there is none.
        packed: The bytes that it was read from, which then needn't be made and checked once more; None if it wasn't.
    """

    keyed_state: list[AnyKeyedStateHandle] = field(default_factory=list)
    operator_state: list[OperatorStateHandle] = field(default_factory=list)
    raw_keyed_state: list[KeyedStateHandle] = field(default_factory=list)
    raw_operator_state: list[OperatorStateHandle] = field(default_factory=list)
    input_channel_state: InputChannelStateHandle | None = None
    packed: bytes | None = field(default=None, init=False, repr=False, compare=False)  # a changed one has none

    @property
    def state_size(self) -> int:
        """Bytes of state."""
        return sum(handle.state_size for handle in self._keyed) + sum(handle.size for handle in self._not_keyed)

    @property
    def checkpointed_size(self) -> int:
        """The bytes that the checkpoint wrote, without files reused from earlier ones."""
        return sum(handle.checkpointed_size for handle in self._keyed) + sum(handle.size for handle in self._not_keyed)

    @property
    def has_state(self) -> bool:
        """Whether there is state to restore."""
        return bool(self._keyed or self._not_keyed)

    @property
    def _keyed(self) -> list[AnyKeyedStateHandle]:
        return [*self.keyed_state, *self.raw_keyed_state]

    @property
    def _not_keyed(self) -> list[OperatorStateHandle | InputChannelStateHandle]:
        in_flight = [] if self.input_channel_state is None else [self.input_channel_state]
        return [*self.operator_state, *self.raw_operator_state, *in_flight]

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        plain: dict[str, Any] = {
            "keyed_state": [handle.to_plain() for handle in self.keyed_state],
            "operator_state": [handle.to_plain() for handle in self.operator_state],
            "raw_keyed_state": [handle.to_plain() for handle in self.raw_keyed_state],
            "raw_operator_state": [handle.to_plain() for handle in self.raw_operator_state],
        }
        if self.input_channel_state is not None:
            plain["input_channel_state"] = self.input_channel_state.to_plain()
        return plain

    @classmethod
    def from_plain(cls, plain: object) -> OperatorSubtaskState:
        """Rebuild it.

        Raises:
            CorruptSnapshotError: It isn't one.
        """
        data = as_map(plain, "a subtask's state")
        in_flight = data.get("input_channel_state")
        return cls(
            take_list(data, "keyed_state", keyed_state_handle_from_plain),
            take_list(data, "operator_state", OperatorStateHandle.from_plain),
            take_list(data, "raw_keyed_state", KeyedStateHandle.from_plain),
            take_list(data, "raw_operator_state", OperatorStateHandle.from_plain),
            None if in_flight is None else InputChannelStateHandle.from_plain(in_flight),
        )

    @classmethod
    def from_packed(cls, packed: object) -> OperatorSubtaskState:
        """Rebuild it from the bytes of its plain data, and keep them.

        Raises:
            CorruptSnapshotError: It isn't one.
        """
        if not isinstance(packed, bytes):
            raise unsound(what="a subtask's state is no bytes")
        try:
            state = cls.from_plain(unpack_plain(packed))
        except UNREADABLE as error:
            raise unsound(what=f"a subtask's state can't be read ({error})") from error
        object.__setattr__(state, "packed", packed)
        return state

    def check(self, index: object, uid: str, parallelism: int, max_parallelism: int) -> None:
        """Check that it fits its operator.

        Args:
            index: The number of the subtask.
            uid: The operator.
            parallelism: How many subtasks that has.
            max_parallelism: How many key groups that has.

        Raises:
            CorruptSnapshotError: It doesn't.
        """
        if type(index) is not int or not 0 <= index < parallelism:
            raise unsound(what=f"operator {uid!r} has a subtask {index!r} at parallelism {parallelism}")
        for handle in self._keyed:
            if handle.end_key_group >= max_parallelism:
                raise unsound(
                    what=f"operator {uid!r} has {max_parallelism} key groups and state of {handle.key_group_range}"
                )


@dataclass(frozen=True)
class TaskState:
    """The state of one subtask of a task in a checkpoint: Flink's `TaskStateSnapshot`.

    Attributes:
        operators: The state of the head operator and the chained ones, by uid.
    """

    operators: dict[str, OperatorSubtaskState] = field(default_factory=dict)

    @property
    def state_size(self) -> int:
        """Bytes of state."""
        return sum(state.state_size for state in self.operators.values())

    @property
    def checkpointed_size(self) -> int:
        """Bytes that the checkpoint wrote."""
        return sum(state.checkpointed_size for state in self.operators.values())

    def packed(self) -> dict[str, bytes]:
        """Return the bytes of each operator's state, which become a part of `_metadata` as they are."""
        return {uid: pack_plain(state.to_plain()) for uid, state in self.operators.items()}

    @classmethod
    def from_packed(cls, packed: object) -> TaskState:
        """Rebuild it.

        Raises:
            CorruptSnapshotError: It isn't one.
        """
        operators = as_map(packed, "a task's state")
        return cls({str(uid): OperatorSubtaskState.from_packed(state) for uid, state in operators.items()})


@dataclass(frozen=True)
class OperatorState:
    """The state of one operator.

    Attributes:
        uid: Its identity across versions of the job.
        name: The displayed name.
        parallelism: Its number of subtasks.
        max_parallelism: Its number of key groups.
        key_type: The declared type of its keys as plain data; None if it isn't declared, or the operator isn't keyed.
        key_encoding: The encoding of its keys; None if it isn't keyed.
        subtasks: State by subtask index.
    """

    uid: str
    name: str
    parallelism: int
    max_parallelism: int
    key_type: dict[str, Any] | None = None
    key_encoding: str | None = None
    subtasks: dict[int, OperatorSubtaskState] = field(default_factory=dict)

    @property
    def has_state(self) -> bool:
        """Whether any subtask has state to restore."""
        return any(state.has_state for state in self.subtasks.values())

    @property
    def has_keyed_state(self) -> bool:
        """Whether any subtask has keyed or raw keyed state."""
        return any(state.keyed_state or state.raw_keyed_state for state in self.subtasks.values())

    @property
    def state_size(self) -> int:
        """Bytes of state."""
        return sum(state.state_size for state in self.subtasks.values())

    def map_keyed_state(self, change: Callable[[AnyKeyedStateHandle], AnyKeyedStateHandle]) -> OperatorState:
        """Return it with other handles of keyed state; subtasks whose handles stay are the same objects."""
        subtasks = {}
        for index, state in self.subtasks.items():
            handles = [change(handle) for handle in state.keyed_state]
            same = all(new is old for new, old in zip(handles, state.keyed_state, strict=True))
            subtasks[index] = state if same else replace(state, keyed_state=handles)
        return replace(self, subtasks=subtasks)

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "uid": self.uid,
            "name": self.name,
            "parallelism": self.parallelism,
            "max_parallelism": self.max_parallelism,
            "key_type": self.key_type,
            "key_encoding": self.key_encoding,
            "subtasks": {index: state.to_plain() for index, state in sorted(self.subtasks.items())},
        }

    def without_packed(self) -> OperatorState:
        """Return it without the subtasks whose state is there as bytes that have been checked.

        Raises:
            CorruptSnapshotError: One of those doesn't fit the operator.
        """
        rest = {}
        for index, state in self.subtasks.items():
            if state.packed is None:
                rest[index] = state
            else:
                state.check(index, self.uid, self.parallelism, self.max_parallelism)
        return replace(self, subtasks=rest)

    @classmethod
    def from_plain(cls, plain: object) -> OperatorState:
        """Rebuild it.

        Raises:
            CorruptSnapshotError: It isn't one, or its numbers don't fit each other.
        """
        data = as_map(plain, "an operator's state")
        uid = take_text(data, "uid")
        max_parallelism = take_int(data, "max_parallelism", 1, MAX_PARALLELISM_LIMIT)
        parallelism = take_int(data, "parallelism", 1, max_parallelism)
        key_type = take(data, "key_type")
        subtasks = {}
        for index, state in as_map(take(data, "subtasks"), "subtasks").items():
            subtasks[index] = OperatorSubtaskState.from_plain(state)
            subtasks[index].check(index, uid, parallelism, max_parallelism)
        return cls(
            uid=uid,
            name=take_text(data, "name"),
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            key_type=None if key_type is None else as_map(key_type, "key_type"),
            key_encoding=take_optional_text(data, "key_encoding"),
            subtasks=subtasks,
        )
