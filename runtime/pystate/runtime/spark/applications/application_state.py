"""The state of an application that waits for cores: decisions and messages, independent of Spark."""

from __future__ import annotations

from enum import Enum

from pystate.runtime.spark.applications.standalone_master import MasterView


class ApplicationState(Enum):
    """The state of an application that waits for executors."""

    WAITS = "waits"  # they may still come
    TOO_FEW = "too few"  # the application is alive, the cluster has no more cores for it
    LOST = "lost"  # none will ever come to this application


def application_state(
    application_id: str, cores: int, view: MasterView | None, *, timed_out: bool, restart: bool
) -> ApplicationState:
    """Return the state of an application that has too few cores.

    Args:
        application_id: Spark's id of it.
        cores: The cores of its executors.
        view: The view of its standalone master; None if unknown.
        timed_out: Whether it has waited for the maximum time.
        restart: Whether the job has run before; at a first start, problems are reported to the user.
    """
    if cores == 0 and view is not None and not view.knows(application_id):
        return ApplicationState.LOST
    if not timed_out:
        return ApplicationState.WAITS
    if cores > 0 or not restart:
        return ApplicationState.TOO_FEW
    if view is not None and view.cores_used >= view.cores:
        # others hold them; a new application would be queued behind this one
        return ApplicationState.TOO_FEW
    return ApplicationState.LOST


def is_blocked(application_id: str, view: MasterView | None) -> bool:
    """Return whether an application is known to get no cores as long as its cluster doesn't change."""
    if view is None or view.given_to(application_id):
        return False
    return view.cores_used >= view.cores


def lost_sentence(application_id: str, master: str, view: MasterView | None, timeout_s: float) -> str:
    """Return the sentence on how an application was found to be lost."""
    if view is not None and not view.knows(application_id):
        return (
            f"The Spark master {view.url} does not know the application {application_id}: it was started again without its "
            "memory (spark.deploy.recoveryMode)."
        )
    return f"The Spark master {master} gave the application {application_id} no executor within {timeout_s:g} s."


def cores_sentence(application_id: str, master: str, cores: int, view: MasterView | None) -> str:
    """Return the sentence on the cluster's cores and who holds them, for an application whose executors have `cores`."""
    if view is None:
        return f"the Spark master {master} has given this application {cores}"
    if view.workers == 0:
        return f"the Spark master {view.url} has no workers"
    free = view.cores - view.cores_used
    told = f"the Spark master {view.url} has {view.cores} cores"
    own = view.given_to(application_id)
    if own > cores:
        return f"{told} and has given {own} of them to this application; executors with {cores} have come"
    others = view.others(application_id)
    if not others:
        return f"{told} and has given this application {cores}, {free or 'none'} are free"
    who = "another application holds" if len(others) == 1 else "other applications hold"
    held = "them" if not free and not cores else str(sum(one.cores for one in others))
    names = ", ".join(f"{one.name} ({one.application_id}): {one.cores}" for one in others[:3])
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    given = f", {cores} are given to this one" if cores else ""
    return f"{told}, {free or 'none'} free: {who} {held} ({names}{more}){given}"
