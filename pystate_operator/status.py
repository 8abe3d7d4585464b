"""What a resource's status says to people and to `kubectl wait`, beside what the operator remembers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from pystate.common.errors import PystateError
from pystate.common.text.plain_data import PlainDataError
from pystate_operator.jobs import job_id
from pystate_operator.resource import Decision, LifecycleState, Memory, Observation

_READY = frozenset((LifecycleState.STABLE,))
_AT_REST = frozenset((LifecycleState.SUSPENDED, LifecycleState.STABLE, LifecycleState.ROLLED_BACK, LifecycleState.FAILED))
_SAID = {
    LifecycleState.CREATED: "No job has been started yet.",
    LifecycleState.SUSPENDED: "The job is suspended.",
    LifecycleState.UPGRADING: "Another job takes its place.",
    LifecycleState.DEPLOYED: "The job has not completed a checkpoint yet.",
    LifecycleState.STABLE: "The job runs as asked for, and has completed a checkpoint.",
    LifecycleState.ROLLING_BACK: "The version asked for did not prove itself in time; the one before comes back.",
    LifecycleState.ROLLED_BACK: "The version asked for did not prove itself in time; the one before runs.",
    LifecycleState.FAILED: "The job can't go on by itself.",
    LifecycleState.DELETING: "Its jobs are being ended.",
}
"""Messages of conditions."""


class DamagedMemoryError(PystateError):
    """What the operator remembers of a resource can't be read."""


def read_memory(status: Mapping[str, Any]) -> Memory:
    """Return what is remembered of a resource.

    Raises:
        DamagedMemoryError: It can't be read.
        PystateError: Another version of the operator has written it.
    """
    text = status.get("memory")
    if text is None:
        return Memory()
    try:
        return Memory.from_file(json.loads(text), "status.memory")
    except (PlainDataError, ValueError) as error:
        message = f"{Memory.title} is damaged: {error}."
        hint = "nothing is done until it is whole; without it, the resource can be deleted: its jobs are cancelled"
        raise DamagedMemoryError(message, where="status.memory", hint=hint) from error


def is_at_rest(lifecycle: LifecycleState) -> bool:
    """Return whether nothing changes by itself."""
    return lifecycle in _AT_REST


def status_of(
    body: Mapping[str, Any], decision: Decision, observed: Observation, problem: PystateError | None, now: float
) -> dict[str, Any]:
    """Return the status of a resource.

    Args:
        body: The resource as it is.
        decision: What was decided.
        observed: What was seen.
        problem: What keeps the operator from doing more.
        now: Seconds since 1970.
    """
    memory, lifecycle = decision.memory, decision.lifecycle
    error = memory.error or (None if problem is None else problem.message)
    current = memory.current
    job = None if current is None else observed.jobs.get(current.name)
    before = dict(body.get("status") or {})
    known = None if current is None else (before.get("jobStatus") or {}).get("state")
    job_status = {
        "jobId": None if current is None else job_id(current.name),
        "jobName": None if current is None else current.name,
        "state": known if job is None and not observed.reachable else None if job is None else job.state.name,
        "startedFrom": None if current is None else current.start,
        "latestCheckpoint": None if current is None else current.latest,
        "beside": None if memory.green is None else memory.green.name,
        "nextStart": memory.state if current is None else None,
    }
    return {
        "observedGeneration": body["metadata"].get("generation", 0),
        "lifecycleState": lifecycle.value,
        "error": error,
        "jobStatus": job_status,
        "savepoints": [{"path": one.path, "takenAt": _time(one.taken_at)} for one in memory.savepoints],
        "conditions": conditions(body, lifecycle, problem or _lasting(memory), now),
        "memory": json.dumps(memory.to_file()),
    }


def status_of_refused(body: Mapping[str, Any], problem: PystateError, now: float) -> dict[str, Any]:
    """Return the status of a resource that nothing can be decided for; what is remembered stays as it is."""
    lifecycle = LifecycleState((body.get("status") or {}).get("lifecycleState") or LifecycleState.CREATED.value)
    generation = body["metadata"].get("generation", 0)
    found = conditions(body, lifecycle, problem, now, accepted=False)
    return {"observedGeneration": generation, "error": problem.message, "conditions": found}


def conditions(
    body: Mapping[str, Any],
    lifecycle: LifecycleState,
    problem: PystateError | None,
    now: float,
    *,
    accepted: bool = True,
) -> list[dict[str, Any]]:
    """Return the conditions: whether the resource is accepted, ready, and whether something is wrong.

    Args:
        body: The resource as it is: a condition that stays what it was keeps its time.
        lifecycle: The state of the resource.
        problem: What is wrong.
        now: Seconds since 1970.
        accepted: Whether anything can be decided for it.
    """
    reason = lifecycle.value.title().replace("_", "")
    wrong = None if problem is None else type(problem).__name__.removesuffix("Error") or "Error"
    text = _SAID[lifecycle] if problem is None else " ".join(str(problem).split())
    found = [
        ("Accepted", accepted, "Read" if accepted else str(wrong), "" if accepted else text),
        ("Ready", accepted and lifecycle in _READY, reason, _SAID[lifecycle]),
        (
            "Degraded",
            problem is not None or lifecycle in (LifecycleState.FAILED, LifecycleState.ROLLED_BACK),
            wrong or reason,
            text,
        ),
    ]
    before = {one["type"]: one for one in (body.get("status") or {}).get("conditions") or ()}
    generation = body["metadata"].get("generation", 0)
    return [
        {
            "type": name,
            "status": str(truth),
            "reason": why,
            "message": said,
            "lastTransitionTime": before[name]["lastTransitionTime"]
            if before.get(name, {}).get("status") == str(truth)
            else _time(now),
            "observedGeneration": generation,
        }
        for name, truth, why, said in found
    ]


def _lasting(memory: Memory) -> PystateError | None:
    return None if memory.error is None else PystateError(memory.error)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
