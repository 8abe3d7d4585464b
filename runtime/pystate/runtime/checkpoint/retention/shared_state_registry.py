"""Tracks the files of the shared directory that are still needed by retained checkpoints or savepoints.

Like Flink's `SharedStateRegistryImpl`, but as pure decisions: methods return what is to be deleted, and delete nothing. An
entry has the last checkpoint that uses it instead of a reference count; so subsuming checkpoints needs only one number, and
registering twice is harmless.

Unlike in Flink, a checkpoint is registered when it completes, not at each acknowledgement, and a file is identified by its
location: the same content written by two checkpoints is two files.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

H = TypeVar("H")

NO_CHECKPOINT = -1


@dataclass
class SharedStateEntry(Generic[H]):
    """A shared file.

    Attributes:
        handle: Where it is.
        created_by: The checkpoint that created it.
        last_used_by: The newest checkpoint that refers to it.
    """

    handle: H
    created_by: int
    last_used_by: int


class SharedStateRegistry(Generic[H]):
    """The shared files of one job, by key. A key always identifies the same file."""

    def __init__(self) -> None:
        self._entries: dict[str, SharedStateEntry[H]] = {}
        self._highest_not_claimed = NO_CHECKPOINT

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self._entries)

    def __contains__(self, key: str) -> bool:
        """Whether a file is registered."""
        return key in self._entries

    def handles(self) -> list[H]:
        """Return the handles of all files."""
        return [entry.handle for entry in self._entries.values()]

    def register(self, key: str, handle: H, checkpoint_id: int) -> None:
        """Register a file of a completed checkpoint.

        Args:
            key: Which file.
            handle: Where it is.
            checkpoint_id: Which checkpoint refers to it.
        """
        entry = self._entries.setdefault(key, SharedStateEntry(handle, checkpoint_id, checkpoint_id))
        entry.last_used_by = max(entry.last_used_by, checkpoint_id)

    def register_restored(self, files: Iterable[tuple[str, H]], checkpoint_id: int, *, claimed: bool) -> None:
        """Register the files of the checkpoint a job starts from.

        Args:
            files: Key and handle of each.
            checkpoint_id: Its number.
            claimed: Whether they are the job's from now on; else they are never deleted.
        """
        for key, handle in files:
            self.register(key, handle, checkpoint_id)
        if not claimed:
            self._highest_not_claimed = max(self._highest_not_claimed, checkpoint_id)

    def unregister_unused(self, lowest: int) -> list[H]:
        """Unregister the files that only older checkpoints refer to.

        Args:
            lowest: The oldest checkpoint whose files may still be referred to.

        Returns:
            The files to be deleted.
        """
        unused = [key for key, entry in self._entries.items() if entry.last_used_by < lowest]
        removed = [self._entries.pop(key) for key in unused]
        return [entry.handle for entry in removed if entry.created_by > self._highest_not_claimed]
