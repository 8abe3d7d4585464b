"""The checkpoint barrier that a subtask is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pystate.core.snapshot.native_state import SharedTarget
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation


@dataclass(frozen=True)
class CheckpointBarrier:
    """Stands between what a checkpoint holds and what it doesn't; carries all that a subtask needs to know of it.

    Attributes:
        location: The URI of the snapshot's directory.
        inline_threshold: State up to this many bytes travels in the acknowledgement.
        trigger_timestamp: When the checkpoint was triggered, ms since 1970.
        epoch: Behind which epoch it stands, for an engine that has epochs.
        shared: The URI of the directory for files that later checkpoints may refer to; None for a checkpoint with all state.
        shared_prefix: How the names of this checkpoint's files begin there.
        savepoint: Whether it is a savepoint.
        native: Whether all state is written in the state backend's own files, as a native savepoint.
        full: Whether an incremental checkpoint refers to no older one's files.
        completed: The checkpoints that have completed meanwhile, oldest first: it may refer to files of the last of them.
        unaligned: Whether it overtakes data, which then is part of the checkpoint as channel state.
        hold: Whether nothing may come behind it unless its checkpoint fails: the job ends there.
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

    @property
    def shared_target(self) -> SharedTarget | None:
        """Where files go that later checkpoints may refer to; None for a checkpoint with all state."""
        if self.shared is None:
            return None
        return SharedTarget(SnapshotLocation(self.shared), self.shared_prefix, self.full, self.completed)

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data, for the wire."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> CheckpointBarrier:
        """Return what `to_plain` made plain."""
        return cls(**plain)
