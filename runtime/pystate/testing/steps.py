"""The steps of a test: what an operator is given, and what fails meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Elements:
    """Elements in one batch.

    Attributes:
        values: The elements.
        timestamps: The time of each, in ms since 1970; None for elements without.
        input: The number of the input: 0, and 1 for the second or the broadcast one.
    """

    values: Sequence[Any]
    timestamps: Sequence[int | None] | None = None
    input: int = 0


@dataclass(frozen=True)
class Watermark:
    """The event time of an input reaches a time in ms since 1970."""

    timestamp: int
    input: int = 0


@dataclass(frozen=True)
class ProcessingTime:
    """The clock reaches a time in ms since 1970."""

    milliseconds: int


@dataclass(frozen=True)
class EpochEnd:
    """The epoch ends: what was done becomes part of the state."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint is taken, and completes. It ends the epoch."""


@dataclass(frozen=True)
class EpochFailure:
    """A Python worker dies: the running epoch is rolled back, and done again."""


@dataclass(frozen=True)
class JobFailure:
    """The job fails: it goes on from its latest checkpoint, or from its start, and is given again what came since."""


InputStep = Elements | Watermark | ProcessingTime | EpochEnd
"""What a harness is given."""

Step = InputStep | Checkpoint | EpochFailure | JobFailure


def without_failures(steps: Iterable[Step]) -> list[Step]:
    """Return the steps without failures."""
    return [step for step in steps if not isinstance(step, (EpochFailure, JobFailure))]
