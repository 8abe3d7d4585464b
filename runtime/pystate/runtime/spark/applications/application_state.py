"""The state of an application that waits for cores: decisions and messages, independent of Spark."""

from __future__ import annotations

from enum import Enum
from typing import Protocol


class ClusterView(Protocol):
    """What the manager of a cluster says of its applications and of what is free."""

    @property
    def is_full(self) -> bool:
        """Whether nobody gets more as long as nothing in the cluster changes."""

    def knows(self, application_id: str) -> bool:
        """Return whether an application may still get executors."""

    def given_to(self, application_id: str) -> int:
        """Return how much an application has for executors, including those that are still starting; 0 for nothing."""

    def end(self, application_id: str) -> str:
        """Return what has become of an application that it doesn't know, as the end of a sentence."""

    def lost_sentence(self, application_id: str) -> str:
        """Return the sentence on what has become of an application that it doesn't know."""

    def cores_sentence(self, application_id: str, cores: int) -> str:
        """Return the sentence on which cores there are and who holds them, for an application with executors of `cores`."""


class ApplicationState(Enum):
    """The state of an application that waits for executors."""

    WAITS = "waits"  # they may still come
    TOO_FEW = "too few"  # the application is alive, the cluster has no more cores for it
    LOST = "lost"  # none will ever come to this application


def application_state(
    application_id: str, cores: int, view: ClusterView | None, *, timed_out: bool, restart: bool
) -> ApplicationState:
    """Return the state of an application that has too few cores.

    Args:
        application_id: Spark's id of it.
        cores: The cores of its executors.
        view: What its cluster says; None if unknown.
        timed_out: Whether it has waited for the maximum time.
        restart: Whether the job has run before; at a first start, problems are reported to the user.
    """
    if cores == 0 and view is not None and not view.knows(application_id):
        return ApplicationState.LOST
    if not timed_out:
        return ApplicationState.WAITS
    if cores > 0 or not restart:
        return ApplicationState.TOO_FEW
    if view is not None and view.is_full:
        # others hold them; a new application would be queued behind this one
        return ApplicationState.TOO_FEW
    return ApplicationState.LOST


def is_blocked(application_id: str, view: ClusterView | None) -> bool:
    """Return whether an application is known to get no cores as long as its cluster doesn't change."""
    return view is not None and not view.given_to(application_id) and view.is_full


def lost_sentence(application_id: str, master: str, view: ClusterView | None, timeout_s: float) -> str:
    """Return the sentence on how an application was found to be lost."""
    if view is not None and not view.knows(application_id):
        return view.lost_sentence(application_id)
    return f"The Spark master {master} gave the application {application_id} no executor within {timeout_s:g} s."


def cores_sentence(application_id: str, master: str, cores: int, view: ClusterView | None) -> str:
    """Return the sentence on the cluster's cores and who holds them, for an application whose executors have `cores`."""
    if view is None:
        return f"the Spark master {master} has given this application {cores}"
    return view.cores_sentence(application_id, cores)
