"""What a save leads to: decided from what is known, without a job, a clock or files."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pystate.common.job_status import JobStatus


class Step(Enum):
    """What is done after a save."""

    KEEP = "keep"  # the new code doesn't fit: the job goes on with the old one
    WAIT = "wait"  # it doesn't fit, and no job runs
    REPLACE = "replace"  # stop with a savepoint, start from it
    RESTART = "restart"  # it can't be stopped with a savepoint: cancel it, start from the last snapshot
    START = "start"  # no job runs


@dataclass(frozen=True)
class Situation:
    """What is known at a save.

    Attributes:
        fits: Whether the program has no errors, and fits the state.
        state: Of the job; None if none has been started.
        snapshot: The last savepoint or checkpoint.
        from_start: Whether a job that has ended by itself starts over.
    """

    fits: bool
    state: JobStatus | None
    snapshot: str | None = None
    from_start: bool = False


@dataclass(frozen=True)
class Decision:
    """What is done.

    Attributes:
        step: What.
        snapshot: What the new code starts from; None for nothing, or for the savepoint that is yet to be taken.
    """

    step: Step
    snapshot: str | None = None


def decide(known: Situation) -> Decision:
    """Return what a save leads to."""
    state = known.state
    alive = state is not None and not state.is_terminal
    if not known.fits:
        return Decision(Step.KEEP if alive else Step.WAIT)
    if state is None:
        return Decision(Step.START, known.snapshot)
    if state is JobStatus.RUNNING:
        return Decision(Step.REPLACE)
    if alive:
        return Decision(Step.RESTART, known.snapshot)
    if state is JobStatus.FINISHED and known.from_start:
        return Decision(Step.START)
    return Decision(Step.START, known.snapshot)
