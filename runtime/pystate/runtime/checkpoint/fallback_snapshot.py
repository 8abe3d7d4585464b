"""What a job would go back to where its newest snapshot can't be restored, and who has a say in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pystate.common.errors import PystateError


@dataclass(frozen=True)
class FallbackSnapshot:
    """One step back, past a snapshot that sinks may have committed.

    Attributes:
        lost: What can't be restored: "checkpoint 7" with its place.
        why: Why not, as a sentence.
        older: What would take its place, as the lost one is told; None for a start from nothing.
        path: URI of that one's directory; None for a start from nothing.
    """

    lost: str
    why: str
    older: str | None
    path: str | None


CheckFallback = Callable[[FallbackSnapshot], None]
"""Raises RestoreError where the job may not go back by itself."""


def any_fallback(_: FallbackSnapshot) -> None:
    """Let a job go back, whatever it loses."""


def told(kind: str, checkpoint_id: int, path: str) -> str:
    """Return how people are told of a snapshot."""
    return f"{kind} {checkpoint_id} ({path})"


def damage(error: PystateError) -> str:
    """Return why a snapshot can't be restored, with the file that shows it."""
    return error.message if error.where is None or error.where in error.message else f"{error.message} ({error.where})"
