"""What the real-time engine keeps of its sources at a barrier: nothing, for they are operators with state in slots."""

from __future__ import annotations

from collections.abc import Callable

from pystate.core.snapshot.handles.handles import StateHandle
from pystate.core.snapshot.metadata import SourcePosition
from pystate.runtime.checkpoint.pending_checkpoint import PendingCheckpoint


class SourcesInSlots:
    """A `SourceCut` without content: each source's subtask has its position in its own part of the checkpoint.

    Args:
        checkpoint: Whose.
        mark: Called once all subtasks have acknowledged, when all that came out in front of their barriers has come to the
            driver; returns what says whether all that has been handed over.
    """

    def __init__(self, checkpoint: PendingCheckpoint, mark: Callable[[], Callable[[], bool]]) -> None:
        self._checkpoint = checkpoint
        self._mark = mark
        self._handed_over: Callable[[], bool] | None = None

    def settle(self) -> bool:
        """Return whether it can be restored from: nothing would be lost that came out in front of it."""
        if not self._checkpoint.is_fully_acknowledged:
            return False
        if self._handed_over is None:
            self._handed_over = self._mark()
        return self._handed_over()

    def archive(self) -> bytes:
        """Return nothing."""
        return b""

    def position(self, handle: StateHandle) -> SourcePosition | None:
        """Return that Spark has read nothing."""
        del handle
        return None
