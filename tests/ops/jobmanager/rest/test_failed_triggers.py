"""Savepoints, stops and checkpoints of jobs that are not there, or have ended."""

import jsonschema_rs
import pytest

from pystate.common.errors import JobNotFoundError
from pystate.ops.jobmanager.rest.failed_triggers import FailedTriggers
from pystate.ops.jobmanager.rest.routes import checkpoint_routes as checkpoints
from pystate.ops.jobmanager.rest.routes import savepoint_routes as savepoints
from pystate.ops.jobmanager.web.rest_security import RestSecurity
from tests.ops.jobmanager.rest.in_process import HOME_TOKEN, InProcess

UNKNOWN = "0" * 31 + "1"
OTHER = "0" * 31 + "2"
OURS = {"pystate-client": "1"}
TRIGGERS = [
    ("savepoints", "savepoints", {"target-directory": "/s"}),
    ("stop", "savepoints", {"targetDirectory": "/s"}),
    ("checkpoints", "checkpoints", {}),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    # as an owner lets them in who ask as they ask a Flink
    security = RestSecurity(HOME_TOKEN, allow_unauthenticated=True)
    application = InProcess(tmp_path_factory.mktemp("triggers") / "home", security)
    application.ended = application.submit("--finish", "0", state="FINISHED")
    yield application
    application.close()


def posted(served, job, trigger, body, headers=None, status=202):
    answer = served.client.post(f"/v1/jobs/{job}/{trigger}", json=body, headers=headers)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.parametrize(("trigger", "poll", "body"), TRIGGERS)
@pytest.mark.parametrize("ended", [False, True], ids=["unknown", "ended"])
def test_a_trigger_in_vain_is_taken_and_has_failed_when_it_is_asked_for(served, trigger, poll, body, ended):
    job = served.ended if ended else UNKNOWN

    request_id = posted(served, job, trigger, body)["request-id"]

    answer = served.get(f"/v1/jobs/{job}/{poll}/{request_id}")
    schema = {route.path: route.response for route in (*savepoints.ROUTES, *checkpoints.ROUTES) if route.method == "GET"}
    jsonschema_rs.validate(schema[f"/jobs/{{job_id}}/{poll}/{{trigger_id}}"], answer)
    cause = answer["operation"]["failureCause" if poll == "checkpoints" else "failure-cause"]
    said = f"Job {job} has already ended (FINISHED)." if ended else f"There is no job with id {job}."
    assert cause["pystate"]["message"] == said
    assert said in cause["stack-trace"]
    wrong = "savepoints" if poll == "checkpoints" else "checkpoints"
    assert served.client.get(f"/jobs/{job}/{wrong}/{request_id}").status_code == 404


@pytest.mark.parametrize(("trigger", "poll", "body"), TRIGGERS)
def test_our_own_client_is_told_at_once(served, trigger, poll, body):
    answer = posted(served, UNKNOWN, trigger, body, OURS, 404)
    assert (answer["pystate"]["message"], answer["pystate"]["hint"]) == (
        f"There is no job with id {UNKNOWN}.",
        "pystate list -a",
    )
    assert "has already ended" in posted(served, served.ended, trigger, body, OURS, 409)["errors"][0]


def test_the_same_id_once_more_is_the_same_request(served):
    chosen = "AB" * 16
    for _ in range(2):
        assert posted(served, UNKNOWN, "savepoints", {"triggerId": chosen}) == {"request-id": chosen.lower()}
    assert served.get(f"/jobs/{UNKNOWN}/savepoints/{chosen}")["status"] == {"id": "COMPLETED"}
    assert served.client.get(f"/jobs/{OTHER}/savepoints/{chosen}").status_code == 404


def test_what_is_malformed_is_refused_at_once(served):
    assert posted(served, "nothex", "savepoints", {}, status=400)["errors"][0].startswith("Cannot parse JobID")
    posted(served, UNKNOWN, "savepoints", {"formatType": "ODD"}, status=400)
    posted(served, UNKNOWN, "checkpoints", {"checkpointType": ""}, status=400)
    posted(served, UNKNOWN, "savepoints", {"triggerId": ""}, status=400)
    posted(served, UNKNOWN, "stop", {"triggerId": "odd"}, status=400)


def test_a_failed_trigger_is_forgotten_after_a_while_and_there_are_never_many():
    now = [0.0]
    failed = FailedTriggers(lambda: now[0])
    error = JobNotFoundError("There is none.")
    first = failed.add(UNKNOWN, None, "savepoint", error)
    now[0] = 299.0
    second = failed.add(UNKNOWN, None, "stop", error)
    assert failed.result(UNKNOWN, first)["kind"] == "savepoint"
    now[0] = 300.0
    assert failed.result(UNKNOWN, first) is None
    assert failed.result(UNKNOWN, second)["kind"] == "stop"
    for _ in range(1000):
        last = failed.add(OTHER, None, "stop", error)
    assert failed.result(UNKNOWN, second) is None
    assert failed.result(OTHER, last)["failure"]["message"] == "There is none."
