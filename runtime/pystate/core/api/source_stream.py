"""What a connector that reads by a stream of Spark's tells the engine besides the stream itself."""

from __future__ import annotations

from typing import Any, Protocol


class StoppingOffsets(Protocol):
    """Where a stream ends. It is found once; snapshots keep it, so that a job that is started from one ends there too."""

    def find(self, known: bytes | None = None) -> bytes:
        """Return the end, as the connector writes it.

        Args:
            known: What a snapshot holds: what it says counts, what it doesn't know is found as it is now. None for none.

        Raises:
            PystateError: The system that the stream reads doesn't say.
        """

    def frame(self, end: bytes) -> Any:
        """Return the streaming DataFrame of what is in front of an end."""

    def latest(self) -> bytes:
        """Return what is there by now, in the same way.

        Raises:
            PystateError: The system that the stream reads doesn't say.
        """

    def missing(self, end: bytes, latest: bytes) -> str | None:
        """Say what in front of an end was not there at `latest`, as a clause; None where all was."""

    def close(self) -> None:
        """Let go of what it holds, until it is asked again."""


class SourceIdentity(Protocol):
    """What the offsets of a stream are offsets of. Snapshots keep it: a name may stand for something else by now."""

    def check(self, known: bytes | None) -> bytes:
        """Return what snapshots are to keep.

        Args:
            known: What a snapshot holds; None for none.

        Raises:
            PystateError: What the stream reads isn't what the snapshot's offsets are of, or doesn't say.
        """


class CompletedOffsets(Protocol):
    """Hears how far a stream was read at each completed checkpoint."""

    def completed(self, offset: str) -> None:
        """Take note of it; may take its time.

        Args:
            offset: As Spark writes it.
        """

    def close(self) -> None:
        """Let go of what it holds: none follows."""
