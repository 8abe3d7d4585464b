"""Whether this job manager may act: the question before each of its steps that others would see."""

from __future__ import annotations

from typing import Protocol

from pystate.common.errors import PystateError


class LeadershipLostError(PystateError):
    """Another job manager leads, or this one can't tell."""


class LeadershipInDoubtError(LeadershipLostError):
    """Nobody can tell at the moment whether this job manager leads; until then it must not act."""


class Leadership(Protocol):
    """The right to act for the jobs of a cluster.

    Attributes:
        token: Grows with each leader; None where there is only one job manager.
    """

    @property
    def token(self) -> int | None:
        """The fencing token."""

    def check(self) -> None:
        """Make sure that the right still holds.

        Raises:
            LeadershipLostError: It doesn't, or nobody can tell.
        """


class OnlyJobManager:
    """The leadership of a job manager without stand-in; the lock of its home makes it the only one."""

    token = None

    def check(self) -> None:
        """Do nothing."""
