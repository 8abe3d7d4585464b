"""Decides what is to be done for a `PystateJob`, from what it asks for, what is remembered and what is seen; no effects.

The new memory is written before the actions are taken, and each action may be taken again: so a crash at any point leads to
the same end. Rules that hold in every history:

- Two versions run at once only while a blue/green upgrade lasts.
- A job starts without state only as the first one ever, or where upgradeMode is stateless.
- What a job was started from, what the next one will start from, what a rollback needs, and the newest savepoint stay.
"""

from __future__ import annotations

from dataclasses import replace

from pystate_operator.resource import (
    Action,
    ActionKind,
    Decision,
    Deployment,
    DesiredState,
    GreenStep,
    JobState,
    LifecycleState,
    Memory,
    Observation,
    ObservedJob,
    Phase,
    Rollback,
    Savepoint,
    Spec,
    Stop,
    UpgradeMode,
    Version,
)

_NO_STATE = "there is no savepoint and no checkpoint to start from; upgradeMode stateless starts without"


def decide(name: str, spec: Spec, memory: Memory, observed: Observation, now: float) -> Decision:
    """Return what is to be done now.

    Args:
        name: What the names of the resource's jobs begin with.
        spec: What the resource asks for.
        memory: What was remembered at the last look.
        observed: What is seen.
        now: Seconds, of the same clock as at earlier looks.
    """
    if not observed.reachable:
        return Decision(memory, lifecycle_state(spec, memory))
    memory = _noted(replace(memory, error=None), observed)
    strays = _strays(name, memory, observed)
    if strays:
        return Decision(memory, lifecycle_state(spec, memory), strays)
    current = memory.current
    actions: tuple[Action, ...] = ()
    if memory.phase is Phase.IDLE or current is None:
        if memory.phase is not Phase.GONE:
            memory, actions = _idle(name, spec, memory, now)
    elif memory.phase is Phase.STOPPING:
        memory, actions = _stopping(spec, memory, current, observed)
    elif memory.green_step is not None:
        memory, actions = _blue_green(name, spec, memory, current, observed, now)
    else:
        memory, actions = _deployed(name, spec, memory, current, observed, now)
    return Decision(memory, lifecycle_state(spec, memory), actions)


def target(spec: Spec, memory: Memory) -> Version:
    """Return the version that is to run: what is asked for, unless it was rolled back."""
    if spec.version.fingerprint == memory.failed and memory.rollback is not None:
        return memory.rollback.version
    return spec.version


def lifecycle_state(spec: Spec, memory: Memory) -> LifecycleState:
    """Return the state of a resource in one word."""
    current = memory.current
    if spec.deleted or memory.phase is Phase.GONE:
        return LifecycleState.DELETING
    if memory.error is not None:
        return LifecycleState.FAILED
    if memory.phase is Phase.IDLE:
        if spec.state is DesiredState.SUSPENDED:
            return LifecycleState.SUSPENDED
        return LifecycleState.UPGRADING if memory.ever_ran else LifecycleState.CREATED
    if memory.rolling_back or memory.green_step is GreenStep.ABORTING:
        return LifecycleState.ROLLING_BACK
    if memory.phase is Phase.STOPPING or memory.green_step is not None or current is None:
        return LifecycleState.UPGRADING
    if not current.stable:
        return LifecycleState.DEPLOYED
    return LifecycleState.ROLLED_BACK if spec.version.fingerprint == memory.failed else LifecycleState.STABLE


def _strays(name: str, memory: Memory, observed: Observation) -> tuple[Action, ...]:
    """Return what ends jobs that were given up before the job manager said that it has them."""
    own = {one.name for one in (memory.current, memory.green) if one is not None}
    found = {one: job for one, job in observed.jobs.items() if one.startswith(f"{name}-") and one not in own}
    running = sorted(one for one, job in found.items() if not job.state.is_terminal and not job.stopping)
    return tuple(Action(ActionKind.CANCEL, one) for one in running)


def _noted(memory: Memory, observed: Observation) -> Memory:
    """Return the memory with what is seen of the jobs: also what must be known when they are forgotten."""
    current, green = _seen(memory.current, observed), _seen(memory.green, observed)
    found = {one.path: one for one in memory.savepoints}
    known = memory.savepoints[-1].taken_at if memory.savepoints else 0.0  # older ones that aren't remembered were deleted
    for deployment in (current, green):
        job = None if deployment is None else observed.jobs.get(deployment.name)
        if job is not None:
            found.update({one.path: one for one in job.savepoints if one.taken_at >= known})
    savepoints = tuple(sorted(found.values(), key=lambda one: (one.taken_at, one.path)))
    ever_ran = memory.ever_ran or (current is not None and current.seen)
    return replace(memory, current=current, green=green, savepoints=savepoints, ever_ran=ever_ran)


def _seen(deployment: Deployment | None, observed: Observation) -> Deployment | None:
    job = None if deployment is None else observed.jobs.get(deployment.name)
    if deployment is None or job is None:
        return deployment
    stable = deployment.stable or job.has_proven_itself
    return replace(deployment, seen=True, stable=stable, latest=job.latest_checkpoint or deployment.latest)


def _idle(name: str, spec: Spec, memory: Memory, now: float) -> tuple[Memory, tuple[Action, ...]]:
    if spec.deleted:
        return replace(memory, phase=Phase.GONE), ()
    if spec.state is DesiredState.SUSPENDED:
        return memory, ()
    stateless = spec.upgrade_mode is UpgradeMode.STATELESS
    start = memory.state if memory.ever_ran else memory.state or spec.initial_savepoint_path
    if stateless and memory.ever_ran and not memory.rolling_back:
        start = None
    if start is None and memory.ever_ran and not stateless:
        return replace(memory, error=_NO_STATE), ()
    memory, deployment = _next(name, memory, target(spec, memory), start, now)
    memory = replace(memory, phase=Phase.DEPLOYED, current=deployment, rolling_back=False)
    return memory, (_submit(deployment),)


def _deployed(
    name: str, spec: Spec, memory: Memory, current: Deployment, observed: Observation, now: float
) -> tuple[Memory, tuple[Action, ...]]:
    job = observed.jobs.get(current.name)
    unknown = job is None and not current.seen
    wanted = target(spec, memory)
    if spec.deleted:
        return _begin_stop(memory, current, Stop.DISCARDING, job)
    if spec.state is DesiredState.SUSPENDED or (unknown and wanted != current.version):
        return _suspend(spec, memory, current, job)
    if wanted.fingerprint != current.version.fingerprint:
        if spec.blue_green and current.stable and job is not None and job.state is JobState.RUNNING:
            return _begin_green(name, spec, memory, current, job, now)
        return _suspend(spec, memory, current, job)
    if _is_late(spec, current, job, now) and _may_roll_back(spec, memory, current):
        memory = replace(memory, rolling_back=True, failed=current.version.fingerprint)
        return _begin_stop(memory, current, Stop.DISCARDING, job)
    if unknown:
        return memory, (_submit(current),)
    if job is None:
        # it was there, and the job manager knows it no more: it goes on from the newest state that is known
        return replace(memory, phase=Phase.IDLE, state=current.state_path, current=None), ()
    if job.state is JobState.FAILED or job.state is JobState.CANCELED:
        return replace(memory, error=f"the job {current.name} is {job.state.name}"), ()
    if job.state is not JobState.RUNNING:
        return memory, ()
    return _upkeep(spec, memory, current, job, now)


def _is_late(spec: Spec, current: Deployment, job: ObservedJob | None, now: float) -> bool:
    """Return whether a version has not proven itself in its time, or never will."""
    if current.stable:
        return False
    failed = job is not None and job.state is JobState.FAILED
    return failed or (job is None and current.seen) or now - current.since >= spec.readiness_timeout_s


def _may_roll_back(spec: Spec, memory: Memory, current: Deployment) -> bool:
    rollback = memory.rollback
    if not spec.rollback or rollback is None or rollback.version.fingerprint == current.version.fingerprint:
        return False
    return rollback.state is not None or spec.upgrade_mode is UpgradeMode.STATELESS


def _suspend(spec: Spec, memory: Memory, current: Deployment, job: ObservedJob | None) -> tuple[Memory, tuple[Action, ...]]:
    """Stop a job as upgradeMode says, so that another one may go on with its state."""
    if spec.upgrade_mode is UpgradeMode.STATELESS:
        return _begin_stop(memory, current, Stop.DISCARDING, job)
    if job is None or job.state.is_terminal:
        return _begin_stop(memory, current, Stop.KEEPING_CHECKPOINT, job)
    # a job without a checkpoint has its state nowhere else
    by_savepoint = spec.upgrade_mode is UpgradeMode.SAVEPOINT or current.state_path is None
    if by_savepoint and job.state is JobState.RUNNING:
        return _begin_stop(memory, current, Stop.WITH_SAVEPOINT, job)
    if current.state_path is None:
        return memory, ()  # it is waited for
    return _begin_stop(memory, current, Stop.KEEPING_CHECKPOINT, job)


def _begin_stop(
    memory: Memory, current: Deployment, stop: Stop, job: ObservedJob | None
) -> tuple[Memory, tuple[Action, ...]]:
    memory = replace(memory, phase=Phase.STOPPING, stop=stop)
    if job is None or job.state.is_terminal:
        return memory, ()
    return memory, _stop_again(memory, current, job)


def _stop_again(memory: Memory, current: Deployment, job: ObservedJob) -> tuple[Action, ...]:
    if job.stopping:
        return ()
    with_savepoint = memory.stop is Stop.WITH_SAVEPOINT
    if with_savepoint and job.state is not JobState.RUNNING:
        return ()  # it restarts, and can't take one now
    kind = ActionKind.STOP_WITH_SAVEPOINT if with_savepoint else ActionKind.CANCEL
    return (Action(kind, current.name),)


def _stopping(spec: Spec, memory: Memory, current: Deployment, observed: Observation) -> tuple[Memory, tuple[Action, ...]]:
    job = observed.jobs.get(current.name)
    if job is not None and not job.state.is_terminal:
        if memory.stop is Stop.WITH_SAVEPOINT and spec.deleted:
            memory = replace(memory, stop=Stop.DISCARDING)
        return memory, _stop_again(memory, current, job)
    state = (None if job is None else job.stopped_with) or current.state_path
    rollback = memory.rollback
    if memory.rolling_back:
        state = None if rollback is None else rollback.state
    elif current.stable:
        rollback = Rollback(current.version, state)
    return replace(memory, phase=Phase.IDLE, current=None, stop=None, state=state, rollback=rollback), ()


def _begin_green(
    name: str, spec: Spec, memory: Memory, current: Deployment, job: ObservedJob, now: float
) -> tuple[Memory, tuple[Action, ...]]:
    if spec.upgrade_mode is UpgradeMode.STATELESS:
        memory, green = _next(name, memory, spec.version, None, now)
        return replace(memory, green=green, green_step=GreenStep.TRYING), (_submit(green),)
    memory = replace(memory, green_step=GreenStep.TAKING, taken_before=job.newest)
    return memory, _savepoint_of(current, job)


def _blue_green(
    name: str, spec: Spec, memory: Memory, blue: Deployment, observed: Observation, now: float
) -> tuple[Memory, tuple[Action, ...]]:
    green, step = memory.green, memory.green_step
    job = observed.jobs.get(blue.name)
    wanted = target(spec, memory)
    given_up = spec.deleted or spec.state is DesiredState.SUSPENDED
    if step is GreenStep.TAKING:
        if given_up or wanted.fingerprint == blue.version.fingerprint or job is None or job.state is not JobState.RUNNING:
            return replace(memory, green_step=None, taken_before=None), ()
        if job.newest == memory.taken_before:
            return memory, _savepoint_of(blue, job)
        memory, green = _next(name, memory, wanted, job.newest, now)
        return replace(memory, green=green, green_step=GreenStep.TRYING), (_submit(green),)
    if green is None:
        return replace(memory, green_step=None), ()
    new = observed.jobs.get(green.name)
    if step is GreenStep.PROMOTING:
        if job is not None and not job.state.is_terminal:
            return memory, () if job.stopping else (Action(ActionKind.CANCEL, blue.name),)
        rollback = Rollback(blue.version, green.start)
        return replace(memory, current=green, green=None, green_step=None, rollback=rollback, state=green.start), ()
    if step is GreenStep.ABORTING:
        if new is not None and not new.state.is_terminal:
            return memory, () if new.stopping else (Action(ActionKind.CANCEL, green.name),)
        return replace(memory, green=None, green_step=None), ()
    if given_up or wanted.fingerprint != green.version.fingerprint:
        return replace(memory, green_step=GreenStep.ABORTING), ()
    if green.stable and new is not None and not new.state.is_terminal:
        return replace(memory, green_step=GreenStep.PROMOTING), ()
    if (
        (new is None and green.seen)
        or (new is not None and new.state.is_terminal)
        or now - green.since >= spec.readiness_timeout_s
    ):
        rollback = Rollback(blue.version, green.start)
        return replace(memory, green_step=GreenStep.ABORTING, failed=green.version.fingerprint, rollback=rollback), ()
    return memory, (_submit(green),) if new is None else ()


def _upkeep(
    spec: Spec, memory: Memory, current: Deployment, job: ObservedJob, now: float
) -> tuple[Memory, tuple[Action, ...]]:
    """Take the savepoint that is asked for, and delete those that are too many or too old."""
    if current.stable and spec.version.fingerprint != memory.failed:
        memory = replace(memory, failed=None)
    if spec.savepoint_trigger_nonce != memory.nonce:
        if memory.taken_before is None:
            memory = replace(memory, taken_before=job.newest)
        elif memory.taken_before != job.newest:
            return replace(memory, nonce=spec.savepoint_trigger_nonce, taken_before=None), ()
        return memory, _savepoint_of(current, job)
    doomed = _doomed(spec, memory, now)
    if doomed is None:
        return memory, ()
    left = tuple(one for one in memory.savepoints if one != doomed)
    return replace(memory, savepoints=left), (Action(ActionKind.DISPOSE_SAVEPOINT, path=doomed.path),)


def _doomed(spec: Spec, memory: Memory, now: float) -> Savepoint | None:
    """Return the savepoint that is deleted next; None if all are kept: those that are needed count for nothing."""
    deployments = [one for one in (memory.current, memory.green) if one is not None]
    needed = {path for one in deployments for path in (one.start, one.latest)}
    needed |= {memory.state, None if memory.rollback is None else memory.rollback.state}
    free = [one for one in memory.savepoints if one.path not in needed]
    if not free or free[0] == memory.savepoints[-1]:
        return None
    too_many = len(free) > spec.history_max_count
    return free[0] if too_many or now - free[0].taken_at > spec.history_max_age_s else None


def _savepoint_of(current: Deployment, job: ObservedJob) -> tuple[Action, ...]:
    return () if job.taking_savepoint or job.stopping else (Action(ActionKind.TRIGGER_SAVEPOINT, current.name),)


def _submit(deployment: Deployment) -> Action:
    return Action(ActionKind.SUBMIT, deployment.name, deployment)


def _next(name: str, memory: Memory, version: Version, start: str | None, now: float) -> tuple[Memory, Deployment]:
    """Return the memory and the job that comes next, whose name no other has had."""
    sequence = memory.sequence + 1
    deployment = Deployment(f"{name}-{sequence}", version, start, now)
    return replace(memory, sequence=sequence, taken_before=None), deployment
