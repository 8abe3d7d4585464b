"""Which files of the shared directory are still needed: those that a retained checkpoint or a savepoint refers to.

After Flink's `SharedStateRegistryImpl`, as pure decisions: methods return what is to be deleted, and delete nothing. An
entry knows the last checkpoint that uses it instead of a count of uses; so checkpoints are subsumed by one number, and
registering twice does no harm.

Other than in Flink a checkpoint is registered when it completes, not at each acknowledgement, and every restored backend
gives its new files a prefix of its own. So a key never stands for other bytes than it did, whatever failed in between.
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
        created_by: The checkpoint that brought it.
        last_used_by: The newest checkpoint that refers to it.
    """

    handle: H
    created_by: int
    last_used_by: int


class SharedStateRegistry(Generic[H]):
    """The shared files of one job, by key. A key names the content: backend, key groups and file name."""

    def __init__(self) -> None:
        self._entries: dict[str, SharedStateEntry[H]] = {}
        self._highest_not_claimed = NO_CHECKPOINT

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self._entries)

    def handle(self, key: str) -> H | None:
        """Return where the file of a key is; None where there is none."""
        entry = self._entries.get(key)
        return None if entry is None else entry.handle

    def handles(self) -> list[H]:
        """Return where all files are."""
        return [entry.handle for entry in self._entries.values()]

    def register(self, key: str, handle: H, checkpoint_id: int) -> tuple[H, H | None]:
        """Take note that a complete checkpoint refers to a file.

        Where the key is known with another handle, the file was uploaded twice, by two checkpoints that were under way at
        the same time: the first one stays.

        Args:
            key: The content's name.
            handle: Where it is.
            checkpoint_id: Which checkpoint refers to it.

        Returns:
            The handle that the checkpoint is to hold, and one that is to be deleted, or None.
        """
        entry = self._entries.get(key)
        if entry is None:
            self._entries[key] = SharedStateEntry(handle, checkpoint_id, checkpoint_id)
            return handle, None
        entry.last_used_by = max(entry.last_used_by, checkpoint_id)
        return entry.handle, None if entry.handle == handle else handle

    def register_restored(self, files: Iterable[tuple[str, H]], checkpoint_id: int, *, claimed: bool) -> None:
        """Take over the files of the checkpoint a job starts from.

        Args:
            files: Key and handle of each.
            checkpoint_id: Its number.
            claimed: Whether they are the job's from now on; else they are never deleted.
        """
        for key, handle in files:
            self.register(key, handle, checkpoint_id)
        if not claimed:
            self._highest_not_claimed = max(self._highest_not_claimed, checkpoint_id)

    def unregister_unused(self, lowest_retained: int) -> list[H]:
        """Forget what no retained checkpoint refers to.

        Args:
            lowest_retained: The oldest checkpoint that is retained or under way.

        Returns:
            What is to be deleted.
        """
        unused = [key for key, entry in self._entries.items() if entry.last_used_by < lowest_retained]
        removed = [self._entries.pop(key) for key in unused]
        return [entry.handle for entry in removed if entry.created_by > self._highest_not_claimed]
