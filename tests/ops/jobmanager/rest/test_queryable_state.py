"""The state of a running job over REST: keys and values as JSON, outcomes as status codes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.ops.jobmanager.fake_queries import ELEMENTS
from tests.ops.jobmanager.harness import eventually
from tests.ops.jobmanager.rest.in_process import HOME_TOKEN, InProcess


class Asked:
    """A job manager with a job that runs."""

    def __init__(self, application: InProcess) -> None:
        self.application = application
        self.job = application.submit()

    def get(
        self, path: str = "", job: str | None = None, headers: dict[str, str] | None = None, **query: Any
    ) -> tuple[int, Any]:
        answer = self.application.client.get(
            f"/pystate/jobs/{job or self.job}/queryable-state{path}",
            params=query,
            headers={"Authorization": f"Bearer {HOME_TOKEN}", **(headers or {})},
        )
        return answer.status_code, answer.json()

    def post(self, *reads: dict[str, Any], **body: Any) -> tuple[int, Any]:
        answer = self.application.client.post(
            f"/pystate/jobs/{self.job}/queryable-state/values",
            json={"reads": list(reads), **body},
            headers={"Authorization": f"Bearer {HOME_TOKEN}"},
        )
        return answer.status_code, answer.json()


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    application = InProcess(tmp_path_factory.mktemp("queries") / "home")
    yield Asked(application)
    application.close()


def test_the_states_are_listed_with_their_types(asked):
    status, body = asked.get()
    states = {state.pop("name"): state for state in body["states"]}
    assert status == 200
    assert states["query-name"] == {
        "uid": "averages",
        "kind": "VALUE",
        "key-type": "LONG",
        "type": "TUPLE<LONG, LONG>",
        "namespace": "void",
    }
    assert (states["counts"]["kind"], states["counts"]["map-key-type"]) == ("MAP", "STRING")
    assert states["sums"]["namespace"] == "time window"


def test_a_value_comes_as_json_with_the_version_that_it_is_of(asked):
    status, body = asked.get("/value", state="query-name", key="1")
    version = body.pop("version")
    assert (status, body) == (200, {"state": "query-name", "outcome": "OK", "value": [1, 2]})
    assert (version["epoch"], version["checkpoint-id"]) == (12, 3)
    assert version["age"] == 1_000

    _, live = asked.get("/value", state="query-name", key="1", consistency="live")
    assert (live["version"]["epoch"], live["version"]["checkpoint-id"]) == (18, None)


def test_a_list_comes_in_pages_and_a_map_by_prefix(asked):
    found, query = [], {"state": "words", "key": "to be", "limit": "1000"}
    while True:
        status, body = asked.get("/value", **query)
        assert status == 200
        found += body["elements"]
        if "cursor" not in body:
            break
        query["cursor"] = body["cursor"]
    assert found == [f"word {number}" for number in range(ELEMENTS)]

    _, body = asked.get("/value", state="counts", key="a", prefix="be")
    assert body["entries"] == [{"key": "be", "value": 1}, {"key": "bee", "value": 2}]


@pytest.mark.parametrize("namespace", ["0,60000", "[0, 60000]"])
def test_the_state_of_a_window_is_named_by_the_window(asked, namespace):
    status, body = asked.get("/value", state="sums", key="a", namespace=namespace)
    assert (status, body["value"]) == (200, 7)


@pytest.mark.parametrize(
    ("query", "status", "outcome"),
    [
        ({"state": "nobodys", "key": "1"}, 404, "UNKNOWN_STATE"),
        ({"state": "query-name", "key": "2"}, 404, "NO_VALUE"),
        ({"state": "query-name", "key": "one"}, 400, "WRONG_KEY_TYPE"),
        ({"state": "sums", "key": "a"}, 400, "WRONG_NAMESPACE"),
        ({"state": "sums", "key": "a", "namespace": "noon"}, 400, "WRONG_NAMESPACE"),
        ({"state": "query-name", "key": "1", "prefix": "a"}, 400, "BAD_REQUEST"),
        ({"state": "query-name", "key": "1", "consistency": "eventual"}, 400, "BAD_REQUEST"),
        ({"state": "query-name"}, 400, "BAD_REQUEST"),
        ({"key": "1"}, 400, "BAD_REQUEST"),
        ({"state": "words", "key": "to be", "cursor": "xyz"}, 400, "BAD_REQUEST"),
    ],
)
def test_why_there_is_no_value_is_a_status_and_an_outcome(asked, query, status, outcome):
    code, body = asked.get("/value", **query)
    assert (code, body.get("outcome")) == (status, outcome)
    assert body["errors"][0]


def test_what_is_wrong_has_a_next_step_for_our_own_client(asked):
    _, body = asked.get("/value", state="query-name", key="one", headers={"pystate-client": "1"})
    assert body["pystate"]["class"] == "WrongKeyTypeError"
    assert body["pystate"]["hint"]
    assert "LONG" in body["errors"][0]


def test_many_states_and_keys_are_asked_for_at_once_each_with_its_outcome(asked):
    status, body = asked.post(
        {"state": "query-name", "key": 1},
        {"state": "query-name", "key": 5},
        {"state": "query-name", "key": "one"},
        {"state": "nobodys", "key": 1},
        {"state": "sums", "key": "a", "namespace": [0, 60_000]},
        {"state": "words", "key": "to be", "limit": 2},
        consistency="live",
    )
    answers = body["answers"]
    assert status == 200
    outcomes = ["OK", "NO_VALUE", "WRONG_KEY_TYPE", "UNKNOWN_STATE", "OK", "OK"]
    assert [answer["outcome"] for answer in answers] == outcomes
    assert (answers[0]["value"], answers[4]["value"]) == ([1, 2], 7)
    assert answers[5]["elements"] == ["word 0", "word 1"]
    assert answers[5]["cursor"]
    assert all(answer["message"] for answer in answers[1:4])


@pytest.mark.parametrize(
    "reads", [[], [{"state": "query-name"}], [{"key": 1}], ["query-name"], [{"state": "a", "key": 1, "keys": 2}]]
)
def test_reads_that_are_none_are_refused(asked, reads):
    status, body = asked.post(*reads)
    assert (status, body["outcome"]) == (400, "BAD_REQUEST")


def test_a_job_that_is_not_there_one_that_restarts_and_one_that_has_ended_are_told_apart(asked):
    for path in ("", "/value"):
        status, body = asked.get(path, job="6" * 32, **({"state": "sums", "key": "a"} if path else {}))
        assert (status, body["outcome"]) == (404, "UNKNOWN_JOB")
    starting = asked.application.submit("--init", "60", state="INITIALIZING")
    status, body = asked.get(job=starting)
    assert (status, body["outcome"]) == (503, "NOT_SERVING")
    ended = asked.application.submit("--finish", "0", state="FINISHED")
    eventually(lambda: asked.application.dispatcher.job(ended).driver_is_gone)
    status, body = asked.get(job=ended)
    assert (status, body["errors"]) == (409, ["The job has ended, and its state with it."])
