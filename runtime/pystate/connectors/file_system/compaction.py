"""Compaction of small part files into large ones before they become visible."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pystate.common.errors import JobGraphError
from pystate.core.file_systems.recoverable_files import Recoverable


class FileCompactStrategy:
    """Defines when pending part files are compacted; made by `builder()`.

    Args:
        num_checkpoints: Compact every so many checkpoints; -1 for no such limit.
        size_threshold: Compact once a bucket's pending files have this many bytes; -1 for no such limit.
    """

    def __init__(self, num_checkpoints: int, size_threshold: int) -> None:
        self.num_checkpoints = num_checkpoints
        self.size_threshold = size_threshold

    @staticmethod
    def builder() -> FileCompactStrategy.Builder:
        """Return a builder."""
        return FileCompactStrategy.Builder()

    class Builder:
        """Builds a `FileCompactStrategy`."""

        def __init__(self) -> None:
            self._num_checkpoints = -1
            self._size_threshold = -1

        def enable_compaction_on_checkpoint(self, num_checkpoints_before_compaction: int) -> FileCompactStrategy.Builder:
            """Compact every so many checkpoints."""
            self._num_checkpoints = _above_0("enable_compaction_on_checkpoint", num_checkpoints_before_compaction)
            return self

        def set_size_threshold(self, size_threshold: int) -> FileCompactStrategy.Builder:
            """Compact at the next checkpoint once a bucket's pending files have this many bytes."""
            self._size_threshold = _above_0("set_size_threshold", size_threshold)
            return self

        def set_num_compact_threads(self, num_compact_threads: int) -> FileCompactStrategy.Builder:
            """Has no effect: each subtask compacts its own files, at its checkpoint."""
            _above_0("set_num_compact_threads", num_compact_threads)
            return self

        def build(self) -> FileCompactStrategy:
            """Return the strategy.

            Raises:
                JobGraphError: Files would wait for ever.
            """
            if self._num_checkpoints == self._size_threshold == -1:
                message = "A FileCompactStrategy needs to know when files are compacted."
                hint = "call enable_compaction_on_checkpoint(...) or set_size_threshold(...)"
                raise JobGraphError(message, hint=hint)
            return FileCompactStrategy(self._num_checkpoints, self._size_threshold)


class FileCompactor(ABC):
    """Makes one file of several."""

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """Return a compactor that concatenates files.

        Args:
            file_delimiter: Written between two files; None for nothing.
        """
        return ConcatFileCompactor(file_delimiter or b"")

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """Return a compactor that leaves files as they are: they only wait, and become visible together."""
        return IdenticalFileCompactor()

    @abstractmethod
    def compact(self, files: Sequence[Iterator[bytes]]) -> Iterator[bytes] | None:
        """Return the content of the combined file; None if files stay as they are."""


class ConcatFileCompactor(FileCompactor):
    """Concatenates files; see `FileCompactor.concat_file_compactor`."""

    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = bytes(delimiter)

    def compact(self, files: Sequence[Iterator[bytes]]) -> Iterator[bytes]:
        """Return the bytes of all."""
        for number, data in enumerate(files):
            if number and self._delimiter:
                yield self._delimiter
            yield from data


class IdenticalFileCompactor(FileCompactor):
    """Leaves files as they are; see `FileCompactor.identical_file_compactor`."""

    def compact(self, files: Sequence[Iterator[bytes]]) -> None:
        """Return nothing."""
        return


class WaitingFiles:
    """The closed part files of a writer that wait for compaction. They are state of the writer, and not visible.

    Args:
        strategy: When to compact.
        compactor: Combines several files into one.
        read: Returns the bytes of a waiting file.
        write: Makes a file in a bucket, with these bytes.
    """

    def __init__(
        self,
        strategy: FileCompactStrategy,
        compactor: FileCompactor,
        read: Callable[[Recoverable], Iterator[bytes]],
        write: Callable[[str, Iterator[bytes]], Recoverable],
    ) -> None:
        self._strategy = strategy
        self._compactor = compactor
        self._read = read
        self._write = write
        self._waiting: dict[str, list[Recoverable]] = {}
        self._checkpoints = 0

    def add(self, files: Iterable[tuple[str, Recoverable]]) -> None:
        """Add waiting files.

        Args:
            files: Each with its bucket.
        """
        for bucket_id, file in files:
            self._waiting.setdefault(bucket_id, []).append(file)

    def at_checkpoint(self, *, end_of_input: bool) -> tuple[list[Recoverable], list[Recoverable]]:
        """Compact the files that are due.

        Returns:
            The files that become visible with the current checkpoint, and those that were combined into them.
        """
        self._checkpoints += 1
        everything = end_of_input or self._checkpoints == self._strategy.num_checkpoints
        if everything:
            self._checkpoints = 0
        made, used_up = [], []
        for bucket_id, files in list(self._waiting.items()):
            if everything or 0 < self._strategy.size_threshold <= sum(file["size"] for file in files):
                data = None if len(files) == 1 else self._compactor.compact([self._read(file) for file in files])
                if data is None:
                    made += files
                else:
                    made.append(self._write(bucket_id, data))
                    used_up += files
                del self._waiting[bucket_id]
        return made, used_up

    def snapshot(self) -> list[dict[str, Any]]:
        """Return the waiting files as state."""
        waiting = ((bucket_id, file) for bucket_id, files in self._waiting.items() for file in files)
        return [{"bucket": bucket_id, "created": 0, "file": file, "ended": True} for bucket_id, file in waiting]


def _above_0(call: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        message = f"{call}() takes a number above 0, not {value!r}."
        raise JobGraphError(message)
    return value
