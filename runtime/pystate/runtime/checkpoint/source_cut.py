"""The source positions of a checkpoint, independent of the engine."""

from __future__ import annotations

from typing import Protocol

from pystate.core.snapshot.handles.handles import StateHandle
from pystate.core.snapshot.metadata import SourcePosition


class SourceCut(Protocol):
    """The source positions that an engine captured when it placed a barrier."""

    def settle(self) -> bool:
        """Process what followed the cut; return whether the cut can be restored by now. May be called repeatedly.

        Raises:
            SnapshotError: It can't be read.
        """

    def archive(self) -> bytes:
        """Return the archive from which the sources continue after the cut."""

    def position(self, handle: StateHandle) -> SourcePosition | None:
        """Return the source position for users and for planning a restore; None if no engine reads sources.

        Args:
            handle: The handle of the archive in the snapshot.
        """
