"""How many files of a source an epoch of the micro-batch engine reads in one subtask."""

from __future__ import annotations

from pystate.connectors.source import EpochBound


class FilesOfEpoch:
    """Counts the files that the running epoch reads, be it in parts.

    Args:
        most_files: How many all subtasks may read together; None leaves it to their bytes.
    """

    def __init__(self, most_files: int | None) -> None:
        self._most_files = most_files
        self._epoch: EpochBound | None = None
        self._files = 0
        self._bytes = 0
        self.is_full = False
        self._is_counted = False

    def begin(self, epoch: EpochBound | None) -> None:
        """Take note of the epoch that runs: in another one than before nothing has been read.

        Args:
            epoch: Which; None for none, and no bound.
        """
        if epoch is not self._epoch:
            self._epoch = epoch
            self._files = self._bytes = 0
            self.is_full = self._is_counted = False

    @property
    def is_counted(self) -> bool:
        """Whether the file at hand is one of the epoch's."""
        return self._epoch is None or self._is_counted

    @property
    def share(self) -> int | None:
        """How many files this subtask may read in the epoch; None for no bound. All subtasks have their turn."""
        epoch, most = self._epoch, self._most_files
        if epoch is None or most is None:
            return None
        whole, rest = divmod(most, epoch.parallelism)
        return whole + ((epoch.subtask - epoch.number * rest) % epoch.parallelism < rest)

    @property
    def needs_size(self) -> bool:
        """Whether it matters how large the next file is."""
        return self._epoch is not None and self._most_files is None and self._epoch.most_bytes > 0

    def has_room(self) -> bool:
        """Return whether there may be another file."""
        share = self.share
        room = share is None or self._files < share
        self.is_full = self.is_full or not room and self._files > 0
        return room

    def admit(self, size: int) -> bool:
        """Count another file, and return whether it is to be read now; at least one is.

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
        """Take note that the file at hand is read to its end."""
        self._is_counted = False
