"""Additional information from connectors that read through a Spark stream."""

from __future__ import annotations

from typing import Any, Protocol


class StoppingOffsets(Protocol):
    """The end of a stream. It is determined once and kept in snapshots, so that a restored job ends there too."""

    def find(self, known: bytes | None = None) -> bytes:
        """Return the end, as the connector writes it.

        Args:
            known: What a snapshot holds: what it says counts, what it doesn't know is found as it is now. None for none.

        Raises:
            PystateError: The system that the stream reads doesn't say.
        """

    def frame(self, end: bytes) -> Any:
        """Return the streaming DataFrame of the data before an end."""

    def latest(self) -> bytes:
        """Return the current end of the data, in the same form.

        Raises:
            PystateError: The system that the stream reads doesn't say.
        """

    def missing(self, end: bytes, latest: bytes) -> str | None:
        """Return, as a clause, what before an end was missing at `latest`; None if nothing was."""

    def close(self) -> None:
        """Release resources until the next call."""


class SourceIdentity(Protocol):
    """The identity of what a stream reads. Kept in snapshots: a name may refer to something else later."""

    def check(self, known: bytes | None) -> bytes:
        """Return the identity to keep in snapshots.

        Args:
            known: What a snapshot holds; None if there is none.

        Raises:
            PystateError: What the stream reads isn't what the snapshot's offsets are of, or doesn't say.
        """

    def check_still(self) -> None:
        """Make sure, after an epoch has read, that this is still so; a source that doesn't answer soon holds nothing up.

        Raises:
            PystateError: The stream reads something else by now.
        """

    def close(self) -> None:
        """Let go of what it holds, until it is asked again."""


class CompletedOffsets(Protocol):
    """Is notified of the offsets of a stream at each completed checkpoint."""

    def completed(self, offset: str) -> None:
        """Handle the offsets of a completed checkpoint; may block.

        Args:
            offset: As Spark writes it.
        """

    def close(self) -> None:
        """Release resources: no call follows."""
