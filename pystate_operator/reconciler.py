"""Looks at a resource: sees, decides, remembers, acts; in this order, so that a death in between does no harm.

The memory is written with the version of the resource that it was read with: of two operators one is refused, and does
nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pystate.common.errors import PystateError
from pystate_operator.custom_resource import is_deleted, read_spec
from pystate_operator.decider import decide
from pystate_operator.jobs import Jobs
from pystate_operator.resource import ActionKind, Decision, Memory, Observation, Phase, Spec, Version
from pystate_operator.status import is_at_rest, read_memory, status_of, status_of_refused

logger = logging.getLogger(__name__)

_NOTHING_SEEN = Observation({}, reachable=False)


class ConflictError(PystateError):
    """Somebody else has changed the resource meanwhile."""


class Resources(Protocol):
    """The resources at the API server."""

    def get(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Return a resource; None if it is gone."""

    def write_status(self, body: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any] | None:
        """Write fields of the status, null for those to take away; return the resource, None if it is gone.

        Raises:
            ConflictError: It isn't any more what was read.
        """

    def tell(self, body: Mapping[str, Any], kind: str, reason: str, message: str) -> None:
        """Post an event."""


@dataclass(frozen=True)
class Look:
    """What came of a look.

    Attributes:
        gone: Whether the resource has no jobs any more, and may go.
        at_rest: Whether nothing is expected to change soon.
    """

    gone: bool = False
    at_rest: bool = False


class Reconciler:
    """Looks at resources.

    Args:
        resources: The API server.
        jobs: The job manager.
        clock: Returns seconds since 1970.
    """

    def __init__(self, resources: Resources, jobs: Jobs, clock: Callable[[], float] = time.time) -> None:
        self._resources = resources
        self._jobs = jobs
        self._clock = clock
        self._failures: dict[str, PystateError] = {}

    def look(self, namespace: str, name: str) -> Look:
        """Look at a resource once.

        Raises:
            Exception: The API server doesn't answer.
        """
        body = self._resources.get(namespace, name)
        if body is None:
            return Look(gone=True)
        try:
            return self._looked(body)
        except ConflictError:
            logger.debug("%s/%s has changed meanwhile", namespace, name)
            return Look()

    def _looked(self, body: dict[str, Any]) -> Look:
        now = self._clock()
        try:
            spec, memory = _read(body)
            if not spec.deleted:
                self._jobs.check(spec)
        except PystateError as refusal:
            self._write(body, status_of_refused(body, refusal, now), refusal)
            return Look(at_rest=True)
        prefix = job_prefix(body)
        unseen: PystateError | None = None
        try:
            observed = self._jobs.observe(prefix)
        except PystateError as error:
            observed, unseen = _NOTHING_SEEN, error
        decision = decide(prefix, spec, memory, observed, now)
        decision, failed = self._with_disposals(decision, memory)
        # what failed at the last look is wrong until it has been tried again
        problem = unseen or failed or (self._failures.get(prefix) if decision.actions else None)
        written = self._write(body, status_of(body, decision, observed, problem, now), problem)
        if written is None:
            return Look(gone=True)
        for action in decision.actions:
            try:
                self._jobs.act(action)
            except PystateError as error:
                failed = error
                logger.warning("%s: %s of %s: %s", prefix, action.kind.value, action.job, error)
        if failed is None:
            self._failures.pop(prefix, None)
        elif decision.actions:
            self._failures[prefix] = failed
            self._write(written, status_of(written, decision, observed, failed, now), failed)
        busy = bool(decision.actions) or decision.memory != memory
        at_rest = unseen is not None or failed is not None or (is_at_rest(decision.lifecycle) and not busy)
        return Look(gone=decision.memory.phase is Phase.GONE, at_rest=at_rest)

    def _with_disposals(self, decision: Decision, memory: Memory) -> tuple[Decision, PystateError | None]:
        """Delete savepoints before they are forgotten: one that nobody remembers would stay for ever."""
        disposals = [one for one in decision.actions if one.kind is ActionKind.DISPOSE_SAVEPOINT]
        others = tuple(one for one in decision.actions if one.kind is not ActionKind.DISPOSE_SAVEPOINT)
        try:
            for one in disposals:
                self._jobs.act(one)
        except PystateError as error:
            left = sorted({*decision.memory.savepoints, *memory.savepoints}, key=lambda one: (one.taken_at, one.path))
            return replace(decision, memory=replace(decision.memory, savepoints=tuple(left)), actions=others), error
        return replace(decision, actions=others), None

    def _write(self, body: dict[str, Any], status: dict[str, Any], problem: PystateError | None) -> dict[str, Any] | None:
        """Write a status that is another one, and tell of what is new in it; return the resource."""
        before = body.get("status") or {}
        if all(_same(before.get(key), value) for key, value in status.items()):
            return body
        written = self._resources.write_status(body, status)
        if written is None:
            return None
        lifecycle, known = status.get("lifecycleState"), before.get("lifecycleState")
        if lifecycle is not None and lifecycle != known:
            said = {one["type"]: one for one in status["conditions"]}["Ready"]
            logger.info("%s: %s", job_prefix(body), said["message"])
            self._resources.tell(body, "Normal", said["reason"], said["message"])
        if problem is not None and status["error"] != before.get("error"):
            self._resources.tell(body, "Warning", type(problem).__name__.removesuffix("Error"), str(problem))
        return written


def job_prefix(body: Mapping[str, Any]) -> str:
    """Return what the names of a resource's jobs begin with: no other resource's do, nor do those of an earlier one."""
    return f"{body['metadata']['name']}-{body['metadata']['uid'].replace('-', '')[:8]}"


def _read(body: Mapping[str, Any]) -> tuple[Spec, Memory]:
    """Return what a resource asks for, and what is remembered; one that is to go may ask for anything."""
    if not is_deleted(body):
        return read_spec(body), read_memory(body.get("status") or {})
    try:
        memory = read_memory(body.get("status") or {})
    except PystateError:  # all jobs with its name are cancelled
        memory = Memory()
    try:
        return read_spec(body), memory
    except PystateError:
        return Spec(Version(""), deleted=True), memory


def _same(before: Any, after: Any) -> bool:
    """Return whether a status that says the second would be the first: null is nothing."""
    if isinstance(after, dict):
        return all(_same((before or {}).get(key), value) for key, value in after.items())
    return bool(before == after or (not before and not after))
