"""The snapshot a job would fall back to if its newest one can't be restored, and the check that may forbid it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pystate.common.errors import PystateError


@dataclass(frozen=True)
class FallbackSnapshot:
    """A fallback past a snapshot that sinks may have committed.

    Attributes:
        lost: The snapshot that can't be restored: "checkpoint 7" with its location.
        why: The reason, as a sentence.
        older: The snapshot that would replace it, in the same form; None for a start without a snapshot.
        path: URI of its directory; None for a start without a snapshot.
    """

    lost: str
    why: str
    older: str | None
    path: str | None


CheckFallback = Callable[[FallbackSnapshot], None]
"""Raises RestoreError where the job may not go back by itself."""


def any_fallback(_: FallbackSnapshot) -> None:
    """Allow every fallback, whatever is lost."""


def told(kind: str, checkpoint_id: int, path: str) -> str:
    """Return the description of a snapshot for messages."""
    return f"{kind} {checkpoint_id} ({path})"


def damage(error: PystateError) -> str:
    """Return why a snapshot can't be restored, with the file that shows it."""
    return error.message if error.where is None or error.where in error.message else f"{error.message} ({error.where})"
