"""Looks at a resource whole: what is written when, whoever dies in between, and what its status says."""

from __future__ import annotations

import copy
import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from pystate.common.errors import ControlError, PystateError
from pystate_operator.reconciler import ConflictError, Look, Reconciler, job_prefix
from pystate_operator.resource import Action, ActionKind, Memory, Observation, Spec
from pystate_operator.status import read_memory
from tests.hypothesis_profiles import in_short_and_at_length
from tests.pystate_operator.test_decider import World

UID = "1f0c2a3b-0000-4000-8000-000000000000"


class Crash(BaseException):
    """The operator dies."""


class Cluster:
    """A resource, its jobs, and an operator that may die at each of its steps.

    Attributes:
        steps: The steps so far: writes and actions.
        dies_at: The step that it dies at.
        dies_after: Whether it has taken that step then.
    """

    def __init__(self) -> None:
        self.world = World()
        metadata = {"name": "count", "namespace": "jobs", "uid": UID, "generation": 1, "resourceVersion": "1"}
        self.body: dict[str, Any] | None = {"metadata": metadata, "spec": {"job": {"program": "/v1"}}}
        self.events: list[tuple[str, str, str]] = []
        self.steps: list[str] = []
        self.dies_at: int | None = None
        self.dies_after = False
        self.problem: PystateError | None = None
        self.refused: dict[ActionKind, PystateError] = {}
        self.operator = Reconciler(self, self, lambda: self.world.now)

    # the API server

    def get(self, namespace: str, name: str) -> dict[str, Any] | None:
        return copy.deepcopy(self.body)

    def write_status(self, body, status):
        assert self.body is not None
        if body["metadata"]["resourceVersion"] != self.body["metadata"]["resourceVersion"]:
            raise ConflictError("")

        def write() -> None:
            assert self.body is not None
            self.body["metadata"]["resourceVersion"] += "1"
            known = {key: value for key, value in status.items() if value is not None}
            self.body["status"] = json.loads(json.dumps({**self.body.get("status", {}), "error": None, **known}))

        self.step("write", write)
        return copy.deepcopy(self.body)

    def tell(self, body, kind, reason, message):
        self.events.append((kind, reason, message))

    # the job manager

    def check(self, spec: Spec) -> None:
        if "bad.option" in spec.version.submission:
            message = "'bad.option' is not an option."
            raise PystateError(message, where="-D bad.option", hint="pystate config")

    def observe(self, name: str) -> Observation:
        if self.problem is not None:
            raise self.problem
        return self.world.observe()

    def act(self, action: Action) -> None:
        if action.kind in self.refused:
            raise self.refused[action.kind]
        if action.kind is ActionKind.SUBMIT:
            deployment = action.deployment
            assert deployment is not None
            assert self.memory.current == deployment or self.memory.green == deployment, "it is remembered first"
            program = json.loads(deployment.version.submission)["job.program"]
            version = replace(deployment.version, fingerprint=program.strip("/"))
            action = replace(action, deployment=replace(deployment, version=version))
        self.step(action.kind.value, lambda: self.world.do(action))

    # what happens

    def step(self, name: str, act) -> None:
        dies = len(self.steps) == self.dies_at
        self.steps.append(name)
        if dies and not self.dies_after:
            raise Crash
        act()
        if dies:
            raise Crash

    @property
    def memory(self) -> Memory:
        assert self.body is not None
        return read_memory(self.body.get("status") or {})

    @property
    def status(self) -> dict[str, Any]:
        assert self.body is not None
        return self.body["status"]

    def condition(self, name: str) -> dict[str, Any]:
        return {one["type"]: one for one in self.status["conditions"]}[name]

    def change(self, **spec: Any) -> None:
        assert self.body is not None
        self.body["spec"] = {**self.body["spec"], **spec}
        self.body["metadata"]["generation"] += 1
        self.body["metadata"]["resourceVersion"] += "1"

    def look(self) -> Look:
        try:
            return self.operator.look("jobs", "count")
        except Crash:
            self.operator = Reconciler(self, self, lambda: self.world.now)
            return Look()

    def settle(self, lifecycle: str, steps: int = 300) -> None:
        for _ in range(steps):
            look = self.look()
            if look.gone or (self.body is not None and "status" in self.body and self.status["lifecycleState"] == lifecycle):
                return
            self.world.step()
        raise AssertionError(self.status)

    def live_through(self) -> None:
        """Be created, upgraded, rolled back, saved, suspended, resumed, upgraded beside itself, and deleted."""
        history = {"maxCount": 2}
        quick = {"readinessTimeout": "60 s"}
        self.change(savepointHistory=history, upgrade=quick)
        self.settle("STABLE")
        self.change(job={"program": "/v2"})
        self.settle("UPGRADING")
        self.settle("STABLE")
        self.change(job={"program": "/bad"})
        self.settle("ROLLED_BACK")
        for nonce in (1, 2, 3):
            self.change(job={"program": "/v3", "savepointTriggerNonce": nonce})
            self.settle("STABLE")
            for _ in range(8):
                self.look()
                self.world.step()
            assert self.memory.nonce == nonce
        self.change(job={"program": "/v3", "state": "suspended", "savepointTriggerNonce": 3})
        self.settle("SUSPENDED")
        self.change(job={"program": "/v3", "savepointTriggerNonce": 3}, upgrade={**quick, "strategy": "blueGreen"})
        self.settle("STABLE")
        self.change(job={"program": "/v4", "savepointTriggerNonce": 3})
        self.settle("UPGRADING")
        self.settle("STABLE")
        for _ in range(8):
            self.look()
            self.world.step()
        assert {one.path for one in self.memory.savepoints} == self.world.savepoints, "none is left that nobody remembers"
        assert self.body is not None
        self.body["metadata"]["deletionTimestamp"] = "now"
        self.settle("nothing any more")
        assert self.world.live == []

    @property
    def submitted(self) -> list[tuple[str, str]]:
        return [(name.removeprefix(f"count-{UID[:8]}-"), job.version) for name, job in self.world.submitted]


EXPECTED = [("1", "v1"), ("2", "v2"), ("3", "bad"), ("4", "v2"), ("5", "v3"), ("6", "v3"), ("7", "v4")]


def steps_of_a_life() -> list[str]:
    cluster = Cluster()
    cluster.live_through()
    assert cluster.submitted == EXPECTED
    return cluster.steps


def test_a_life_has_all_kinds_of_steps():
    found = Counter(steps_of_a_life())
    assert found.keys() == {"write", *(one.value for one in ActionKind)}


@in_short_and_at_length
@pytest.mark.parametrize("dies_after", [False, True])
def test_an_operator_that_dies_at_any_step_comes_to_the_same_end(dies_after, at_length):
    for number in range(dies_after, len(steps_of_a_life()), 1 if at_length else 4):
        cluster = Cluster()
        cluster.dies_at, cluster.dies_after = number, dies_after
        cluster.live_through()
        assert len(cluster.steps) > number, "it died"
        assert cluster.submitted == EXPECTED, f"it died at step {number}, {cluster.steps[number]}"


def test_of_two_operators_one_is_refused_and_does_nothing():
    cluster = Cluster()
    other = Reconciler(cluster, cluster, lambda: cluster.world.now)
    observe = cluster.observe

    def while_it_looks(name):
        cluster.observe = observe
        other.look("jobs", "count")
        return observe(name)

    cluster.observe = while_it_looks
    assert cluster.look() == Look()
    assert cluster.steps == ["write", "submit"], "of the other one"


def test_the_status_says_what_runs_and_since_when():
    cluster = Cluster()
    cluster.settle("STABLE")
    since = cluster.condition("Ready")["lastTransitionTime"]
    assert cluster.condition("Ready")["status"] == "True"
    assert cluster.condition("Degraded")["status"] == "False"
    assert cluster.status["jobStatus"]["state"] == "RUNNING"
    assert cluster.status["jobStatus"]["jobName"] == f"count-{UID[:8]}-1"
    assert cluster.status["observedGeneration"] == 1
    for _ in range(5):
        cluster.world.step()
        cluster.look()
    assert cluster.condition("Ready")["lastTransitionTime"] == since
    assert [event[:2] for event in cluster.events] == [("Normal", "Deployed"), ("Normal", "Stable")]


def test_at_rest_nothing_is_written():
    cluster = Cluster()
    cluster.settle("STABLE")
    cluster.change(job={"program": "/v1", "state": "suspended"})
    cluster.settle("SUSPENDED")
    written = len(cluster.steps)
    assert cluster.look().at_rest
    assert len(cluster.steps) == written


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"job": {"program": "relative.py"}}, "must be an absolute path in the job manager's pod"),
        (
            {"flinkConfiguration": {"bad.option": "1"}},
            "'bad.option' is not an option. at: -D bad.option try: pystate config",
        ),
    ],
)
def test_a_wrong_spec_is_a_condition_and_the_job_goes_on(spec, said):
    cluster = Cluster()
    cluster.settle("STABLE")
    before = cluster.memory
    cluster.change(**spec)
    for _ in range(3):
        assert cluster.look().at_rest
    assert said in cluster.condition("Accepted")["message"]
    assert [cluster.condition(name)["status"] for name in ("Accepted", "Ready", "Degraded")] == ["False", "False", "True"]
    assert cluster.memory == before
    assert len(cluster.world.live) == 1
    assert [event[0] for event in cluster.events].count("Warning") == 1
    cluster.change(job={"program": "/v1"}, flinkConfiguration={})
    cluster.settle("STABLE")
    cluster.look()
    assert cluster.condition("Accepted")["status"] == "True"
    assert "error" not in cluster.status or not cluster.status["error"]
    assert cluster.submitted == [("1", "v1")]


def test_a_job_manager_that_does_not_answer_is_a_condition():
    cluster = Cluster()
    cluster.settle("STABLE")
    cluster.problem = ControlError("No job manager answers at 10.0.0.1:8081.")
    cluster.change(job={"program": "/v2"})
    assert cluster.look().at_rest
    assert "No job manager answers" in cluster.condition("Degraded")["message"]
    assert cluster.status["jobStatus"]["state"] == "RUNNING", "as last seen"
    cluster.problem = None
    cluster.settle("UPGRADING")
    cluster.settle("STABLE")
    assert cluster.condition("Degraded")["status"] == "False"


def test_an_action_that_fails_is_told_once_and_tried_again():
    cluster = Cluster()
    cluster.refused[ActionKind.SUBMIT] = PystateError("The job file does not exist: /v1")
    for _ in range(4):
        assert cluster.look().at_rest
    assert cluster.condition("Degraded")["message"] == "The job file does not exist: /v1"
    assert [event for event in cluster.events if event[0] == "Warning"] == [
        ("Warning", "Pystate", "The job file does not exist: /v1")
    ]
    cluster.refused.clear()
    cluster.settle("STABLE")
    assert cluster.condition("Degraded")["status"] == "False"


def test_a_savepoint_that_can_not_be_deleted_stays_in_the_history():
    cluster = Cluster()
    cluster.change(savepointHistory={"maxCount": 1})
    cluster.settle("STABLE")
    cluster.refused[ActionKind.DISPOSE_SAVEPOINT] = PystateError("The storage refuses.")
    for nonce in (1, 2):
        cluster.change(job={"program": "/v1", "savepointTriggerNonce": nonce})
        for _ in range(8):
            cluster.look()
            cluster.world.step()
    assert len(cluster.status["savepoints"]) == 2
    assert "The storage refuses." in cluster.condition("Degraded")["message"]
    cluster.refused.clear()
    for _ in range(3):
        cluster.look()
    assert len(cluster.status["savepoints"]) == len(cluster.world.savepoints) == 1


@pytest.mark.parametrize("damage", [lambda text: text[:-9], lambda text: text.replace('"sequence": 1', '"sequence": 0')])
def test_a_damaged_memory_is_refused_and_the_resource_can_be_deleted(damage):
    cluster = Cluster()
    cluster.settle("STABLE")
    cluster.status["memory"] = damage(cluster.status["memory"])
    assert cluster.look().at_rest
    assert "is damaged" in cluster.condition("Accepted")["message"]
    assert len(cluster.world.live) == 1
    assert cluster.body is not None
    cluster.body["metadata"]["deletionTimestamp"] = "now"
    cluster.settle("nothing any more")
    assert cluster.world.live == []


def test_the_jobs_of_two_resources_have_other_names():
    first = {"metadata": {"name": "count", "uid": UID}}
    assert job_prefix(first) != job_prefix({"metadata": {"name": "count", "uid": UID.replace("1f", "2f")}})
