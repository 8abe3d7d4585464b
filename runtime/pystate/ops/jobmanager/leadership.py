"""Leadership: checked before each step of the job manager that others would see."""

from __future__ import annotations

from typing import Protocol

from pystate.common.errors import PystateError

LEADS = "pystate.leads"
"""In the scope of requests: whether this job manager leads as it did when one came. Missing where it is the only one."""


class LeadershipLostError(PystateError):
    """Another job manager leads, or leadership is unknown."""


class LeadershipInDoubtError(LeadershipLostError):
    """It is unknown at the moment whether this job manager leads; until it is known, it must not act."""


class Leadership(Protocol):
    """The right to act for the jobs of a cluster.

    Attributes:
        token: Grows with each leader; None if there is only one job manager.
    """

    @property
    def token(self) -> int | None:
        """The fencing token."""

    def check(self) -> None:
        """Check that this job manager still leads.

        Raises:
            LeadershipLostError: It doesn't, or that is unknown.
        """


class OnlyJobManager:
    """The leadership of a job manager without high availability, which the lock of its home makes the only one."""

    token = None

    def check(self) -> None:
        """Do nothing."""
