"""Bounds the number of files that one subtask reads in an epoch of the micro-batch engine."""

from __future__ import annotations

from pystate.connectors.source import EpochBound


class FilesOfEpoch:
    """Counts the files that the current epoch reads, completely or in part.

    Args:
        most_files: The bound for all subtasks together; None bounds by bytes only.
    """

    def __init__(self, most_files: int | None) -> None:
        self._most_files = most_files
        self._epoch: EpochBound | None = None
        self._files = 0
        self._bytes = 0
        self.is_full = False
        self._is_counted = False

    def begin(self, epoch: EpochBound | None) -> None:
        """Set the current epoch; the count restarts if it is a new one.

        Args:
            epoch: The epoch; None for none, and no bound.
        """
        if epoch is not self._epoch:
            self._epoch = epoch
            self._files = self._bytes = 0
            self.is_full = self._is_counted = False

    @property
    def is_counted(self) -> bool:
        """Whether the current file is counted in the epoch."""
        return self._epoch is None or self._is_counted

    @property
    def share(self) -> int | None:
        """The number of files that this subtask may read in the epoch; None for no bound. It rotates among subtasks."""
        epoch, most = self._epoch, self._most_files
        if epoch is None or most is None:
            return None
        whole, rest = divmod(most, epoch.parallelism)
        return whole + ((epoch.subtask - epoch.number * rest) % epoch.parallelism < rest)

    @property
    def needs_size(self) -> bool:
        """Whether the bound depends on the size of the next file."""
        return self._epoch is not None and self._most_files is None and self._epoch.most_bytes > 0

    def has_room(self) -> bool:
        """Return whether another file may be read."""
        share = self.share
        room = share is None or self._files < share
        self.is_full = self.is_full or not room and self._files > 0
        return room

    def admit(self, size: int) -> bool:
        """Count another file, and return whether to read it in this epoch; the first one always is.

        Args:
            size: Its bytes; 0 where they don't matter.
        """
        assert self._epoch is not None  # noqa: S101 - all is counted without
        if not self.has_room():
            return False
        if self.needs_size and self._files and self._bytes + size > self._epoch.most_bytes:
            self.is_full = True
            return False
        self._files += 1
        self._bytes += size
        self._is_counted = True
        return True

    def file_ended(self) -> None:
        """Record that the current file is fully read."""
        self._is_counted = False
