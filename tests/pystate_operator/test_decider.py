"""The operator's decisions: in cases, and in random histories of resources, jobs, crashes and a job manager that forgets."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pystate_operator.decider import decide, lifecycle_state
from pystate_operator.resource import (
    Action,
    ActionKind,
    Decision,
    DesiredState,
    JobState,
    LifecycleState,
    Memory,
    Observation,
    ObservedJob,
    Phase,
    Savepoint,
    Spec,
    UpgradeMode,
    Version,
)
from tests.hypothesis_profiles import of_model

NAME = "count"
TIMEOUT_S = 60.0


@dataclass
class Job:
    """A job of the simulated job manager.

    Attributes:
        version: What it runs; one whose fingerprint begins with "bad" never completes a checkpoint.
        start: What it was started from.
        elements: How many elements its state has counted.
    """

    version: str
    start: str | None
    elements: int
    state: JobState = JobState.STARTING
    latest: str | None = None
    savepoints: list[Savepoint] = field(default_factory=list)
    stopped_with: str | None = None
    asked: ActionKind | None = None
    taking: bool = False

    @property
    def is_bad(self) -> bool:
        return self.version.startswith("bad")


class World:
    """A job manager with its jobs, and the snapshots that there are, with the elements that each has counted."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.jobs: dict[str, Job] = {}
        self.snapshots: dict[str, int] = {}
        self.savepoints: set[str] = set()
        self.submitted: list[tuple[str, Job]] = []
        self.number = 0

    @property
    def live(self) -> list[Job]:
        return [job for job in self.jobs.values() if not job.state.is_terminal]

    def observe(self) -> Observation:
        return Observation(
            {
                name: ObservedJob(
                    job.state,
                    job.latest,
                    tuple(job.savepoints),  # also those that were deleted: nobody tells their job
                    job.stopped_with,
                    stopping=job.asked is not None and not job.state.is_terminal,
                    taking_savepoint=job.taking,
                )
                for name, job in self.jobs.items()
            }
        )

    def do(self, action: Action) -> None:
        job = self.jobs.get(action.job)
        if action.kind is ActionKind.SUBMIT:
            deployment = action.deployment
            assert deployment is not None
            if job is None:
                assert deployment.start is None or deployment.start in self.snapshots, "it starts from what is there"
                elements = self.snapshots[deployment.start] if deployment.start else 0
                self.jobs[action.job] = Job(deployment.version.fingerprint, deployment.start, elements)
                self.submitted.append((action.job, self.jobs[action.job]))
        elif action.kind is ActionKind.DISPOSE_SAVEPOINT:
            self.snapshots.pop(action.path, None)
            self.savepoints.discard(action.path)
        elif job is not None and not job.state.is_terminal:
            if action.kind is ActionKind.TRIGGER_SAVEPOINT:
                job.taking = True
            else:
                job.asked = job.asked or action.kind

    def snapshot(self, job: Job, kind: str) -> str:
        self.number += 1
        path = f"{kind}-{self.number}"
        self.snapshots[path] = job.elements
        if kind == "savepoint":
            self.savepoints.add(path)
            job.savepoints.append(Savepoint(path, self.now))
        return path

    def step(self, *, stops_fail: bool = False) -> None:
        """Let each job go on by a step."""
        self.now += 5
        for job in self.live:
            if job.state is JobState.STARTING:
                job.state = JobState.RUNNING
            elif job.asked is ActionKind.CANCEL:
                job.state = JobState.CANCELED
            elif job.asked is ActionKind.STOP_WITH_SAVEPOINT and stops_fail:
                job.asked = None
            elif job.asked is ActionKind.STOP_WITH_SAVEPOINT:
                job.stopped_with = self.snapshot(job, "savepoint")
                job.state = JobState.FINISHED
            elif job.state is JobState.RUNNING:
                job.elements += 1
                if job.taking:
                    self.snapshot(job, "savepoint")
                    job.taking = False
                if not job.is_bad:
                    job.latest = self.snapshot(job, "checkpoint")


class Operator:
    """Looks at a resource again and again, as the thin layer does: the memory is kept first, the actions come then."""

    def __init__(self, world: World, spec: Spec) -> None:
        self.world = world
        self.spec = spec
        self.memory = Memory()

    def look(self, *, crashes: bool = False, reachable: bool = True) -> Decision:
        observed = replace(self.world.observe(), reachable=reachable)
        decision = decide(NAME, self.spec, self.memory, observed, self.world.now)
        self.memory = decision.memory
        if not crashes:
            for action in decision.actions:
                self.world.do(action)
        return decision

    def settle(self, steps: int = 60) -> LifecycleState:
        for _ in range(steps):
            self.look()
            self.world.step()
        return lifecycle_state(self.spec, self.memory)

    @property
    def running(self) -> list[str]:
        return [job.version for job in self.world.live]


def spec(version: str = "v1", **changes) -> Spec:
    return Spec(Version(version), readiness_timeout_s=TIMEOUT_S, **changes)


def running(version: str = "v1", **changes) -> Operator:
    """Return an operator whose job is stable."""
    operator = Operator(World(), spec(version, **changes))
    assert operator.settle() is LifecycleState.STABLE
    return operator


@pytest.mark.parametrize(
    ("mode", "kind"),
    [(UpgradeMode.SAVEPOINT, "savepoint"), (UpgradeMode.LAST_STATE, "checkpoint"), (UpgradeMode.STATELESS, None)],
)
def test_a_new_version_starts_from_what_the_mode_says(mode, kind):
    operator = running(upgrade_mode=mode)
    operator.spec = spec("v2", upgrade_mode=mode)
    assert operator.settle() is LifecycleState.STABLE
    assert operator.running == ["v2"]
    start = operator.world.submitted[-1][1].start
    assert (start is None) == (kind is None)
    assert start is None or start.startswith(kind)


def test_the_first_version_starts_from_the_initial_savepoint_once():
    world = World()
    world.snapshots["given"] = 5
    operator = Operator(world, spec(initial_savepoint_path="given"))
    operator.settle()
    operator.spec = spec("v2", initial_savepoint_path="given")
    operator.settle()
    assert [job.start for _, job in world.submitted][0] == "given"
    assert world.submitted[1][1].start.startswith("savepoint")


def test_a_job_is_suspended_with_its_state_and_resumed():
    operator = running()
    operator.spec = spec(state=DesiredState.SUSPENDED)
    assert operator.settle() is LifecycleState.SUSPENDED
    assert operator.running == []
    elements = operator.world.submitted[-1][1].elements
    operator.spec = spec()
    assert operator.settle() is LifecycleState.STABLE
    assert operator.world.snapshots[operator.world.submitted[-1][1].start] == elements


@pytest.mark.parametrize("blue_green", [False, True])
@pytest.mark.parametrize("mode", list(UpgradeMode))
def test_a_version_that_does_not_prove_itself_is_rolled_back_and_not_tried_again(mode, blue_green):
    operator = running(upgrade_mode=mode, blue_green=blue_green)
    operator.spec = spec("bad", upgrade_mode=mode, blue_green=blue_green)
    assert operator.settle() is LifecycleState.ROLLED_BACK
    assert operator.running == ["v1"]
    assert [job.version for _, job in operator.world.submitted].count("bad") == 1
    operator.spec = spec("v2", upgrade_mode=mode, blue_green=blue_green)
    assert operator.settle() is LifecycleState.STABLE
    assert operator.running == ["v2"]


def test_without_rollback_a_version_stays():
    operator = running(rollback=False)
    operator.spec = spec("bad", rollback=False)
    assert operator.settle() is LifecycleState.DEPLOYED
    assert operator.running == ["bad"]


def test_blue_runs_until_green_has_proven_itself():
    operator = running(blue_green=True)
    operator.spec = spec("v2", blue_green=True)
    seen = []
    for _ in range(20):
        operator.look()
        operator.world.step()
        seen.append(sorted(operator.running))
    assert ["v1", "v2"] in seen
    assert [] not in seen
    assert seen[-1] == ["v2"]


def test_a_failed_job_of_an_upgrade_goes_on_from_its_latest_checkpoint():
    operator = running()
    job = operator.world.live[0]
    job.state = JobState.FAILED
    assert operator.settle() is LifecycleState.FAILED
    operator.spec = spec("v2")
    assert operator.settle() is LifecycleState.STABLE
    assert operator.world.submitted[-1][1].start == job.latest


def test_no_version_starts_without_the_state_that_is_demanded():
    operator = Operator(World(), spec("bad"))
    operator.settle(4)
    operator.world.live[0].state = JobState.FAILED
    operator.spec = spec("v2")
    assert operator.settle() is LifecycleState.FAILED
    assert operator.memory.error is not None
    assert "upgradeMode stateless" in operator.memory.error
    assert len(operator.world.submitted) == 1
    operator.spec = spec("v2", upgrade_mode=UpgradeMode.STATELESS)
    assert operator.settle() is LifecycleState.STABLE


def test_savepoints_are_taken_as_asked_and_the_oldest_go():
    operator = running(history_max_count=2)
    for nonce in range(1, 5):
        operator.spec = spec(history_max_count=2, savepoint_trigger_nonce=nonce)
        operator.settle(10)
        assert operator.memory.nonce == nonce
    assert len(operator.world.savepoints) == 2
    assert {one.path for one in operator.memory.savepoints} == operator.world.savepoints
    assert operator.look().actions == (), "none is deleted twice"


def test_the_newest_savepoint_stays_beside_those_that_are_needed():
    operator = running(history_max_count=1)
    operator.spec = spec("v2", history_max_count=1)
    operator.settle()
    operator.spec = spec("v2", history_max_count=1, savepoint_trigger_nonce=1)
    operator.settle()
    newest = operator.memory.savepoints[-1].path
    assert operator.world.savepoints == {newest, operator.world.submitted[-1][1].start}
    assert newest == operator.world.live[0].savepoints[-1].path


def test_a_job_that_has_done_its_work_is_no_failed_upgrade():
    operator = running()
    operator.spec = spec("v2")
    for _ in range(6):
        operator.look()
        for job in operator.world.live:
            if job.version == "v2":
                job.state = JobState.FINISHED
        operator.world.step()
    assert operator.settle() is LifecycleState.STABLE
    assert [job.version for _, job in operator.world.submitted] == ["v1", "v2"]


def test_old_savepoints_go_but_for_the_only_one():
    operator = running(savepoint_trigger_nonce=1)
    operator.spec = spec(savepoint_trigger_nonce=2, history_max_age_s=20)
    operator.settle(40)
    assert len(operator.world.savepoints) == 1


def test_what_a_job_was_started_from_stays_and_what_a_rollback_needs():
    operator = running(history_max_count=1)
    operator.spec = spec("bad", history_max_count=1)
    operator.settle(6)
    operator.spec = spec("v2", history_max_count=1)
    assert operator.settle() is LifecycleState.STABLE
    job = operator.world.submitted[-1][1]
    assert operator.memory.rollback is not None
    assert {job.start, operator.memory.rollback.state} == operator.world.savepoints
    assert len(operator.world.savepoints) == 2


def test_a_job_that_comes_after_it_was_given_up_is_cancelled():
    operator = Operator(World(), spec())
    late = operator.look(crashes=True).actions
    operator.spec = spec(state=DesiredState.SUSPENDED)
    operator.settle(4)
    for action in late:
        operator.world.do(action)
    assert operator.settle(6) is LifecycleState.SUSPENDED
    assert operator.running == []


def test_a_resource_goes_when_its_jobs_have():
    operator = running()
    operator.spec = spec(deleted=True)
    operator.settle(10)
    assert operator.memory.phase is Phase.GONE
    assert operator.running == []


def test_without_an_answer_of_the_job_manager_nothing_is_done():
    operator = running()
    operator.spec = spec("v2")
    assert operator.look(reachable=False).actions == ()


VERSIONS = st.sampled_from(["v1", "v2", "v3", "bad1", "bad2"])


class Histories(RuleBasedStateMachine):
    """Anything may happen to a resource and its jobs; the rules of the decider hold after each step."""

    @initialize(mode=st.sampled_from(UpgradeMode), blue_green=st.booleans(), rollback=st.booleans())
    def begin(self, mode, blue_green, rollback):
        self.world = World()
        start = spec(upgrade_mode=mode, blue_green=blue_green, rollback=rollback, history_max_count=2)
        self.operator = Operator(self.world, start)
        self.judged = 0
        self.last_version = "v1"

    def change(self, **changes):
        self.operator.spec = replace(self.operator.spec, **changes)

    @rule(crashes=st.booleans())
    def look(self, crashes):
        before = self.operator.memory
        disposed_from = set(self.world.savepoints)
        decision = self.operator.look(crashes=crashes)
        for action in decision.actions:
            if action.kind is ActionKind.DISPOSE_SAVEPOINT:
                assert len(disposed_from) > 1, "the only savepoint stays"
            if action.kind is ActionKind.SUBMIT:
                deployment = action.deployment
                assert deployment is not None
                mode = self.operator.spec.upgrade_mode
                first = not before.ever_ran
                was_decided = before.current is not None and before.current.name == deployment.name
                if (
                    deployment.start is None
                    and not was_decided
                    and not (before.green and before.green.name == deployment.name)
                ):
                    assert mode is UpgradeMode.STATELESS or first, "state is not left out unless that is asked for"

    @rule(times=st.integers(1, 4), stops_fail=st.booleans())
    def jobs_go_on(self, times, stops_fail):
        for _ in range(times):
            self.world.step(stops_fail=stops_fail)

    @rule(times=st.integers(1, 6))
    def all_goes_on(self, times):
        for _ in range(times):
            self.look(crashes=False)
            self.rules_hold()
            self.world.step()

    @rule(version=VERSIONS)
    def upgrade(self, version):
        self.change(version=Version(version))

    @rule(mode=st.sampled_from(UpgradeMode))
    def change_mode(self, mode):
        self.change(upgrade_mode=mode)

    @rule(state=st.sampled_from(DesiredState))
    def suspend_or_resume(self, state):
        self.change(state=state)

    @rule(nonce=st.integers(1, 3))
    def ask_for_a_savepoint(self, nonce):
        self.change(savepoint_trigger_nonce=nonce)

    @rule(blue_green=st.booleans())
    def change_strategy(self, blue_green):
        self.change(blue_green=blue_green)

    @rule(state=st.sampled_from([JobState.FAILED, JobState.STARTING]), index=st.integers(0, 1))
    def a_job_fails_or_restarts(self, state, index):
        if index < len(self.world.live):
            self.world.live[index].state = state

    @rule()
    def the_job_manager_forgets_ended_jobs(self):
        self.world.jobs = {name: job for name, job in self.world.jobs.items() if not job.state.is_terminal}

    @rule()
    def the_job_manager_is_away(self):
        assert self.operator.look(reachable=False).actions == ()

    @invariant()
    def rules_hold(self):
        if not hasattr(self, "operator"):
            return
        memory = self.operator.memory
        live = self.world.live
        assert len(live) <= (2 if memory.green is not None else 1), "two versions run only while an upgrade lasts"
        needed = {one.start for one in (memory.current, memory.green) if one is not None}
        needed |= {memory.state, None if memory.rollback is None else memory.rollback.state}
        assert needed - {None} <= self.world.snapshots.keys(), "what is needed is there"

    def teardown(self):
        if not hasattr(self, "operator"):
            return
        self.change(deleted=False, state=DesiredState.RUNNING, version=Version("v9"))
        reached = self.operator.settle(80)
        if self.operator.memory.error is not None:  # there is no state, and it is demanded
            self.change(upgrade_mode=UpgradeMode.STATELESS)
            reached = self.operator.settle(80)
        assert reached is LifecycleState.STABLE, reached
        assert self.operator.running == ["v9"]
        self.change(deleted=True)
        self.operator.settle(20)
        assert self.operator.memory.phase is Phase.GONE
        assert self.operator.running == []


TestHistories = Histories.TestCase
TestHistories.settings = of_model(40, 60, slow=False)
TestHistoriesAtLength = type("HistoriesAtLength", (Histories,), {}).TestCase
TestHistoriesAtLength.settings = of_model(40, 60, slow=True)
TestHistoriesAtLength.pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
