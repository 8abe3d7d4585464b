"""The state of one subtask, frozen between two epochs and written while later epochs run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import partial

from pystate.common.errors import PystateError
from pystate.common.key_groups import KeyGroupRange
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.handles.operator_state_handle import (
    OPERATOR_STATE,
    RAW_STATE,
    RAW_STATE_NAME,
    OperatorStateHandle,
    StateMetaInfo,
)
from pystate.core.snapshot.native_state import NativeUpload
from pystate.core.snapshot.operator_state import OperatorSubtaskState, TaskState
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.base.backend_snapshot import KeyedStateSnapshot
from pystate.core.state.operator.format import OperatorStateMode
from pystate.core.state.operator.operator_state_backend import OperatorStateSnapshot
from pystate.core.state.operator.raw_state import RawStateSnapshot

CANONICAL_KEYED_STATE = "canonical"


@dataclass
class FrozenOperator:
    """The state of one operator.

    Attributes:
        uid: The operator's uid.
        key_groups: The key groups of the subtask.
        keyed: Keyed state; None for an operator that isn't keyed.
        native: Keyed state as the backend's own files, instead of `keyed`; None for none.
        operator: Operator state; None for none.
        raw_keyed: Raw state that the function wrote by key group; None for none.
        raw_operator: Raw state that the function wrote by partition; None for none.
    """

    uid: str
    key_groups: KeyGroupRange
    keyed: KeyedStateSnapshot | None = None
    native: NativeUpload | None = None
    operator: OperatorStateSnapshot | None = None
    raw_keyed: RawStateSnapshot | None = None
    raw_operator: RawStateSnapshot | None = None

    def hold(self, keyed: KeyedStateSnapshot | NativeUpload) -> None:
        """Set the keyed state, in either form."""
        if isinstance(keyed, NativeUpload):
            self.native = keyed
        else:
            self.keyed = keyed

    def write(
        self, location: SnapshotLocation, subtask: int, inline_threshold: int, compression: str | None = None
    ) -> OperatorSubtaskState:
        """Write the state into a snapshot's directory.

        Args:
            location: The directory.
            subtask: The index of the subtask.
            inline_threshold: State up to this many bytes goes into its handle.
            compression: The compression of operator state and raw state; None for none. Keyed state has its own setting.

        Raises:
            PystateError: The state can't be written.
        """
        state = OperatorSubtaskState()
        prefix = f"{hashlib.md5(self.uid.encode(), usedforsecurity=False).hexdigest()[:12]}-{subtask}"
        first, last = self.key_groups.start, self.key_groups.end
        if self.keyed is not None:
            handle = location.write_state(f"{prefix}-keyed", self.keyed.write_canonical, inline_threshold)
            state.keyed_state.append(KeyedStateHandle(first, last, CANONICAL_KEYED_STATE, handle))
        if self.native is not None:
            state.keyed_state.append(self.native.write(location, f"{prefix}-keyed", inline_threshold))
        if self.operator is not None:
            handle = location.write_state(
                f"{prefix}-operator", partial(self.operator.write, compression=compression), inline_threshold
            )
            states = {info.name: StateMetaInfo(info.mode, info.entries) for info in self.operator.infos}
            state.operator_state.append(OperatorStateHandle(states, OPERATOR_STATE, handle))
        if self.raw_keyed is not None:
            handle = location.write_state(
                f"{prefix}-raw-keyed", partial(self.raw_keyed.write, compression=compression), inline_threshold
            )
            state.raw_keyed_state.append(KeyedStateHandle(first, last, RAW_STATE, handle))
        if self.raw_operator is not None:
            handle = location.write_state(
                f"{prefix}-raw-operator", partial(self.raw_operator.write, compression=compression), inline_threshold
            )
            partitions = StateMetaInfo(OperatorStateMode.SPLIT_DISTRIBUTE, len(self.raw_operator.parts))
            state.raw_operator_state.append(OperatorStateHandle({RAW_STATE_NAME: partitions}, RAW_STATE, handle))
        return state

    def release(self) -> None:
        """Release the frozen views."""
        if self.keyed is not None:
            self.keyed.release()
        if self.native is not None:
            self.native.release()


@dataclass
class FrozenTask:
    """The state of all operators of one subtask.

    Attributes:
        compression: The compression of non-keyed state; None for none.
    """

    operators: list[FrozenOperator] = field(default_factory=list)
    compression: str | None = None

    def write(self, location: SnapshotLocation, subtask: int, inline_threshold: int) -> TaskState:
        """Write the state into a snapshot's directory; operators without state are left out.

        Raises:
            PystateError: The state can't be written.
        """
        written = {}
        for frozen in self.operators:
            try:
                written[frozen.uid] = frozen.write(location, subtask, inline_threshold, self.compression)
            except PystateError as error:
                if len(self.operators) > 1:
                    error.where = ", ".join(filter(None, (f"operator {frozen.uid!r}", error.where)))
                raise
        return TaskState({uid: state for uid, state in written.items() if state.has_state})

    def release(self) -> None:
        """Release the frozen views; may be called repeatedly."""
        for frozen in self.operators:
            frozen.release()
