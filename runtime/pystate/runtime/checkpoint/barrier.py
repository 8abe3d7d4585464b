"""The checkpoint barrier sent to subtasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pystate.core.snapshot.native_state import SharedTarget
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation


@dataclass(frozen=True)
class CheckpointBarrier:
    """Separates records before and after a checkpoint; carries all that a subtask needs to know about it.

    Attributes:
        location: The URI of the snapshot's directory.
        inline_threshold: State up to this many bytes is sent in the acknowledgement.
        trigger_timestamp: When the checkpoint was triggered, ms since 1970.
        epoch: The epoch after which it is placed, for an engine with epochs.
        shared: The URI of the directory for files that later checkpoints may refer to; None for a full checkpoint.
        shared_prefix: The prefix of this checkpoint's files there.
        savepoint: Whether it is a savepoint.
        native: Whether all state is written in the state backend's own files, as a native savepoint.
        full: Whether an incremental checkpoint refers to no file of older ones.
        completed: The checkpoints completed meanwhile, oldest first: it may refer to files of the last of them.
        unaligned: Whether it overtakes data, which then is part of the checkpoint as channel state.
        hold: Whether nothing may follow it unless its checkpoint fails: the job ends there.
        last: Whether the inputs of all subtasks have ended before it.
    """

    checkpoint_id: int
    location: str
    inline_threshold: int
    trigger_timestamp: int
    epoch: int | None = None
    shared: str | None = None
    shared_prefix: str = ""
    savepoint: bool = False
    native: bool = False
    full: bool = False
    completed: Sequence[int] = ()
    unaligned: bool = False
    hold: bool = False
    last: bool = False

    @property
    def shared_target(self) -> SharedTarget | None:
        """The target for files that later checkpoints may refer to; None for a full checkpoint."""
        if self.shared is None:
            return None
        return SharedTarget(SnapshotLocation(self.shared), self.shared_prefix, self.full, self.completed)

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data, for messages."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> CheckpointBarrier:
        """Rebuild it from plain data."""
        return cls(**plain)
