"""Recoverable files: invisible until they are committed, and resumable after a crash.

    open -> write ... -> persist -> write ... -> close_for_commit -> commit, once or again

`persist` and `close_for_commit` return plain data for a checkpoint, from which another process on another machine can
continue. Source: Flink's `RecoverableWriter` and `RecoverableFsDataOutputStream`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

Recoverable = dict[str, Any]
"""The persisted state of a file: `final`, its final path; `size`, its size in bytes; and data of its kind of storage."""

IN_PROGRESS = ".inprogress."
"""Part of the names of files in progress, which begin with a dot."""


class CommitOutcome(Enum):
    """The result of a commit."""

    COMMITTED = "committed"
    ALREADY_COMMITTED = "already committed"


class UncommittableError(OSError):
    """A file can't be committed: its data is gone, or another file has the name."""


class RecoverableFile(ABC):
    """A file that is being written.

    Attributes:
        full: Whether it has almost reached its limit, and should be closed.
    """

    full = False

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Add bytes."""

    @abstractmethod
    def tell(self) -> int:
        """Return its size in bytes."""

    @abstractmethod
    def persist(self) -> Recoverable:
        """Make all bytes so far durable, and return the data for `prefix` and `resume`; more may be written.

        Raises:
            NotImplementedError: This storage can't continue with a file.
        """

    @abstractmethod
    def close_for_commit(self) -> Recoverable:
        """Close the file durably; return the data for `commit`."""

    @abstractmethod
    def close(self) -> None:
        """Release the file; persisted data stays."""

    @abstractmethod
    def discard(self) -> None:
        """Delete the file; failures are ignored."""


class RecoverableFiles(ABC):
    """Recoverable files below one location.

    Attributes:
        resumable: Whether a file can be persisted while it is written.
        readable: Whether `prefix` can read every closed, uncommitted file.
    """

    resumable = False
    readable = False

    @abstractmethod
    def open(self, final: str) -> RecoverableFile:
        """Begin a file for this path, and create its parent folders."""

    @abstractmethod
    def prefix(self, kept: Recoverable) -> Iterator[bytes] | None:
        """Return the bytes of a persisted file; None if they are in a committed file already.

        Raises:
            UncommittableError: They are neither here nor there.
        """

    def resume(self, kept: Recoverable) -> RecoverableFile | None:
        """Resume a persisted file at its persisted state; None if its bytes must be copied to a new file (`prefix`).

        Raises:
            UncommittableError: It is gone.
        """
        del kept
        return None

    @abstractmethod
    def commit(self, kept: Recoverable) -> CommitOutcome:
        """Rename a closed file to its final name; idempotent.

        Raises:
            UncommittableError: It is gone, or another file has the name.
        """

    @abstractmethod
    def discard(self, kept: Recoverable) -> None:
        """Delete a persisted file whose bytes were copied to another one; does nothing if it is gone."""

    @abstractmethod
    def sweep(self, is_stale: Callable[[str], bool]) -> int:
        """Delete files in progress below the location by the part of their name after `.inprogress.`; return how many."""
