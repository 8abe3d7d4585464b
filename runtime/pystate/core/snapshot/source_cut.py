"""The source position of a checkpoint, whatever engine reads the sources."""

from __future__ import annotations

from typing import Protocol

from pystate.core.snapshot.handles.handles import StateHandle
from pystate.core.snapshot.metadata import SourcePosition


class SourceCut(Protocol):
    """What an engine has captured of its sources where a barrier was placed."""

    def settle(self) -> bool:
        """Take in what comes behind the cut; return whether the cut can be restored from by now. May be called again.

        Raises:
            SnapshotError: It can't be read.
        """

    def archive(self) -> bytes:
        """Return what makes the sources go on behind the cut."""

    def position(self, handle: StateHandle) -> SourcePosition | None:
        """Return the same for people and for whoever plans a restore; None if no engine reads sources.

        Args:
            handle: Where the archive lies in the snapshot.
        """
