"""The state of one subtask, frozen between two epochs, and written while the next ones run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from pystate.checkpoint.metadata import KeyedStateHandle, OperatorSubtaskState, TaskState
from pystate.checkpoint.operator_state_handle import (
    OPERATOR_STATE,
    RAW_STATE,
    RAW_STATE_NAME,
    OperatorStateHandle,
    StateMetaInfo,
)
from pystate.checkpoint.storage import SnapshotLocation
from pystate.common.errors import PystateError
from pystate.common.key_groups import KeyGroupRange
from pystate.state.base.backend import KeyedStateSnapshot
from pystate.state.operator.backend import OperatorStateSnapshot
from pystate.state.operator.mode import OperatorStateMode
from pystate.state.operator.raw_state import RawStateSnapshot

CANONICAL_KEYED_STATE = "canonical"


@dataclass
class FrozenOperator:
    """The state of one operator.

    Attributes:
        uid: Whose.
        key_groups: Those of the subtask.
        keyed: Keyed state, None for an operator that isn't keyed.
        operator: Operator state, None for none.
        raw_keyed: What the function wrote by key group, None for nothing.
        raw_operator: What the function wrote by partition, None for nothing.
    """

    uid: str
    key_groups: KeyGroupRange
    keyed: KeyedStateSnapshot | None = None
    operator: OperatorStateSnapshot | None = None
    raw_keyed: RawStateSnapshot | None = None
    raw_operator: RawStateSnapshot | None = None

    def write(self, location: SnapshotLocation, subtask: int, inline_threshold: int) -> OperatorSubtaskState:
        """Write the state into a snapshot's directory.

        Raises:
            PystateError: It can't be written.
        """
        state = OperatorSubtaskState()
        prefix = f"{hashlib.md5(self.uid.encode(), usedforsecurity=False).hexdigest()[:12]}-{subtask}"
        first, last = self.key_groups.start, self.key_groups.end
        if self.keyed is not None:
            handle = location.write_state(f"{prefix}-keyed", self.keyed.write_canonical, inline_threshold)
            state.keyed_state.append(KeyedStateHandle(first, last, CANONICAL_KEYED_STATE, handle))
        if self.operator is not None:
            handle = location.write_state(f"{prefix}-operator", self.operator.write, inline_threshold)
            states = {info.name: StateMetaInfo(info.mode, info.entries) for info in self.operator.infos}
            state.operator_state.append(OperatorStateHandle(states, OPERATOR_STATE, handle))
        if self.raw_keyed is not None:
            handle = location.write_state(f"{prefix}-raw-keyed", self.raw_keyed.write, inline_threshold)
            state.raw_keyed_state.append(KeyedStateHandle(first, last, RAW_STATE, handle))
        if self.raw_operator is not None:
            handle = location.write_state(f"{prefix}-raw-operator", self.raw_operator.write, inline_threshold)
            partitions = StateMetaInfo(OperatorStateMode.SPLIT_DISTRIBUTE, len(self.raw_operator.parts))
            state.raw_operator_state.append(OperatorStateHandle({RAW_STATE_NAME: partitions}, RAW_STATE, handle))
        return state

    def release(self) -> None:
        """Give the frozen views up."""
        if self.keyed is not None:
            self.keyed.release()


@dataclass
class FrozenTask:
    """The state of all operators of one subtask."""

    operators: list[FrozenOperator] = field(default_factory=list)

    def write(self, location: SnapshotLocation, subtask: int, inline_threshold: int) -> TaskState:
        """Write the state into a snapshot's directory; operators without any are left out.

        Raises:
            PystateError: It can't be written.
        """
        written = {}
        for frozen in self.operators:
            try:
                written[frozen.uid] = frozen.write(location, subtask, inline_threshold)
            except PystateError as error:
                if len(self.operators) > 1:
                    error.where = ", ".join(filter(None, (f"operator {frozen.uid!r}", error.where)))
                raise
        return TaskState({uid: state for uid, state in written.items() if state.has_state})

    def release(self) -> None:
        """Give the frozen views up; may be called again."""
        for frozen in self.operators:
            frozen.release()
