"""The sources' part of a checkpoint in the real-time engine: empty, since sources are operators with state in slots."""

from __future__ import annotations

from collections.abc import Callable

from pystate.core.snapshot.handles.handles import StateHandle
from pystate.core.snapshot.metadata import SourcePosition
from pystate.runtime.checkpoint.pending_checkpoint import PendingCheckpoint


class SourcesInSlots:
    """A `SourceCut` without content: each source subtask stores its position in its own part of the checkpoint.

    Args:
        checkpoint: The checkpoint.
        mark: Called once all subtasks have acknowledged, when all output before their barriers has reached the driver;
            returns a function that tells whether all of it has been handed over.
    """

    def __init__(self, checkpoint: PendingCheckpoint, mark: Callable[[], Callable[[], bool]]) -> None:
        self._checkpoint = checkpoint
        self._mark = mark
        self._handed_over: Callable[[], bool] | None = None

    def settle(self) -> bool:
        """Return whether the cut can be restored from: all output before it has been handed over."""
        if not self._checkpoint.is_fully_acknowledged:
            return False
        if self._handed_over is None:
            self._handed_over = self._mark()
        return self._handed_over()

    def archive(self) -> bytes:
        """Return nothing."""
        return b""

    def position(self, handle: StateHandle) -> SourcePosition | None:
        """Return None: Spark has read nothing."""
        del handle
        return None
