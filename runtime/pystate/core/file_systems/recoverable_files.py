"""Files that nobody sees before they are committed, and that can be continued after a crash.

    open -> write ... -> persist -> write ... -> close_for_commit -> commit, once or again

What `persist` and `close_for_commit` return is plain: it goes into a checkpoint, and another process on another machine
continues from it. Source: Flink's `RecoverableWriter` and `RecoverableFsDataOutputStream`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

Recoverable = dict[str, Any]
"""What is kept of a file: `final`, the path it gets; `size`, its bytes; and what its kind of storage needs."""

IN_PROGRESS = ".inprogress."
"""What stands in the names of files that are being written, which begin with a dot."""


class CommitOutcome(Enum):
    """What a commit has come to."""

    COMMITTED = "committed"
    ALREADY_COMMITTED = "already committed"


class UncommittableError(OSError):
    """A file can't get its name: what was written is gone, or another file has the name."""


class RecoverableFile(ABC):
    """A file that is being written.

    Attributes:
        full: It can't take much more, and should be closed.
    """

    full = False

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Add bytes."""

    @abstractmethod
    def tell(self) -> int:
        """Return how many bytes it has."""

    @abstractmethod
    def persist(self) -> Recoverable:
        """Return what `prefix` and `resume` need, once all bytes so far outlive a crash; more may be written.

        Raises:
            NotImplementedError: This storage can't continue with a file.
        """

    @abstractmethod
    def close_for_commit(self) -> Recoverable:
        """End the file; return what `commit` needs, once its bytes outlive a crash."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it; what was persisted stays."""

    @abstractmethod
    def discard(self) -> None:
        """Leave nothing of it. What fails is left."""


class RecoverableFiles(ABC):
    """Files below one place.

    Attributes:
        resumable: Whether a file can be persisted while it is written.
        readable: Whether `prefix` has the bytes of every closed file that isn't committed.
    """

    resumable = False
    readable = False

    @abstractmethod
    def open(self, final: str) -> RecoverableFile:
        """Begin a file that gets this path, with the folders above it."""

    @abstractmethod
    def prefix(self, kept: Recoverable) -> Iterator[bytes] | None:
        """Return the bytes that a persisted file has; None if they are in a committed file already.

        Raises:
            UncommittableError: They are neither here nor there.
        """

    def resume(self, kept: Recoverable) -> RecoverableFile | None:
        """Continue with a persisted file itself, as it was then; None if its bytes have to begin a new one (`prefix`).

        Raises:
            UncommittableError: It is gone.
        """
        del kept
        return None

    @abstractmethod
    def commit(self, kept: Recoverable) -> CommitOutcome:
        """Give a closed file its name; does nothing if that was done.

        Raises:
            UncommittableError: It is gone, or another file has the name.
        """

    @abstractmethod
    def discard(self, kept: Recoverable) -> None:
        """Delete a persisted file whose bytes have begun another one; does nothing if it is gone."""

    @abstractmethod
    def sweep(self, is_stale: Callable[[str], bool]) -> int:
        """Delete files in progress below the place by their name behind `.inprogress.`; return how many."""
