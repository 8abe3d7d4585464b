"""Small part files become large ones before anybody sees them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pystate.common.errors import JobGraphError
from pystate.core.file_systems.recoverable_files import Recoverable


class FileCompactStrategy:
    """Says when the part files that wait are compacted; made by `builder()`.

    Args:
        num_checkpoints: At each so many checkpoints; -1 for no such limit.
        size_threshold: Once the files of a bucket have so many bytes; -1 for no such limit.
    """

    def __init__(self, num_checkpoints: int, size_threshold: int) -> None:
        self.num_checkpoints = num_checkpoints
        self.size_threshold = size_threshold

    @staticmethod
    def builder() -> FileCompactStrategy.Builder:
        """Begin to describe one."""
        return FileCompactStrategy.Builder()

    class Builder:
        """Collects when files are compacted."""

        def __init__(self) -> None:
            self._num_checkpoints = -1
            self._size_threshold = -1

        def enable_compaction_on_checkpoint(self, num_checkpoints_before_compaction: int) -> FileCompactStrategy.Builder:
            """Compact at each so many checkpoints."""
            self._num_checkpoints = _above_0("enable_compaction_on_checkpoint", num_checkpoints_before_compaction)
            return self

        def set_size_threshold(self, size_threshold: int) -> FileCompactStrategy.Builder:
            """Compact once the files of a bucket that wait have so many bytes, at the checkpoint that comes then."""
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
        """Return what puts files one behind the other.

        Args:
            file_delimiter: Stands between two of them; None for nothing.
        """
        return ConcatFileCompactor(file_delimiter or b"")

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """Return what leaves each file as it is: files wait for their turn, and appear together."""
        return IdenticalFileCompactor()

    @abstractmethod
    def compact(self, files: Sequence[Iterator[bytes]]) -> Iterator[bytes] | None:
        """Return the bytes of the one file; None where files stay as they are."""


class ConcatFileCompactor(FileCompactor):
    """Puts files one behind the other; see `FileCompactor.concat_file_compactor`."""

    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = bytes(delimiter)

    def compact(self, files: Sequence[Iterator[bytes]]) -> Iterator[bytes]:
        """Return the bytes of all."""
        for number, data in enumerate(files):
            if number and self._delimiter:
                yield self._delimiter
            yield from data


class IdenticalFileCompactor(FileCompactor):
    """Leaves each file as it is; see `FileCompactor.identical_file_compactor`."""

    def compact(self, files: Sequence[Iterator[bytes]]) -> None:
        """Return nothing."""
        return


class WaitingFiles:
    """The ended part files of a writer that wait to be compacted. They are state of the writer, and nobody sees them.

    Args:
        strategy: Says when.
        compactor: Makes one file of several.
        read: Returns the bytes of a file that waits.
        write: Makes a file of a bucket, with these bytes.
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
        """Let files wait.

        Args:
            files: Each with its bucket.
        """
        for bucket_id, file in files:
            self._waiting.setdefault(bucket_id, []).append(file)

    def at_checkpoint(self, *, end_of_input: bool) -> tuple[list[Recoverable], list[Recoverable]]:
        """Compact what it is time for.

        Returns:
            The files that become visible with the checkpoint at hand, and those whose bytes are in them.
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
        """Return what a restored writer needs."""
        waiting = ((bucket_id, file) for bucket_id, files in self._waiting.items() for file in files)
        return [{"bucket": bucket_id, "created": 0, "file": file, "ended": True} for bucket_id, file in waiting]


def _above_0(call: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        message = f"{call}() takes a number above 0, not {value!r}."
        raise JobGraphError(message)
    return value
