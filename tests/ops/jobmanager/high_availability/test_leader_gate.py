"""What a job manager that doesn't lead answers."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from pystate.common.processes.job_manager_proofs import hello_header
from pystate.ops.jobmanager.high_availability.leader_gate import LEADER_ONLY_HEADER, LeaderGate
from pystate.ops.jobmanager.web.rest_security import RestSecurity

LEADER = {"address": "10.0.0.2", "port": 8081, "scheme": "https", "instance": "another"}


def client(leader: dict[str, object] | None, token: str | None = None) -> TestClient:
    gate = LeaderGate(lambda: leader, "127.0.0.1", "own", RestSecurity("the-home's", token))
    return TestClient(gate, base_url="http://127.0.0.1", follow_redirects=False)


def test_reads_are_sent_to_the_one_that_leads() -> None:
    answer = client(LEADER).get("/jobs?x=1")

    assert (answer.status_code, answer.headers["location"]) == (307, "https://10.0.0.2:8081/jobs?x=1")
    assert client(LEADER).get("/config").json()["pystate-leader"] == {"address": "10.0.0.2:8081", "instance": "another"}


@pytest.mark.parametrize("path", ["/jobs", "/config", "/v1/config"])
@pytest.mark.parametrize("leader", [LEADER, None])
def test_a_proxy_that_asks_for_the_leader_alone_gets_a_refusal(path: str, leader: dict[str, object] | None) -> None:
    answer = client(leader).get(path, headers={LEADER_ONLY_HEADER: "1"})

    assert answer.status_code == 503
    assert answer.json()["errors"][0].startswith("This job manager does not lead.")


@pytest.mark.parametrize("path", ["/config", "/v1/config", "/jobs", "/pystate/openapi.json"])
@pytest.mark.parametrize("leader", [LEADER, None])
def test_who_has_no_token_does_not_learn_where_the_leader_is(path: str, leader: dict[str, object] | None) -> None:
    standby = client(leader, "the-token-of-rest")

    for headers in ({}, {LEADER_ONLY_HEADER: "1"}, {"Authorization": "Bearer another"}):
        for method in ("GET", "POST"):
            answer = standby.request(method, path, headers={**headers, "pystate-client": "1"})
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert "10.0.0.2" not in answer.text + str(answer.headers)
            assert answer.json()["errors"] == ["This job manager asks for a token."]


@pytest.mark.parametrize("token", ["the-token-of-rest", "the-home's"])
def test_who_has_a_token_finds_the_leader(token: str) -> None:
    answer = client(LEADER, "the-token-of-rest").get("/config", headers={"Authorization": f"Bearer {token}"})

    assert answer.json()["pystate-leader"]["address"] == "10.0.0.2:8081"


def test_who_proves_a_token_finds_the_leader_and_no_more() -> None:
    standby = client(LEADER, "the-token-of-rest")

    answer = standby.get("/config", headers={"Authorization": hello_header("the-token-of-rest")})
    assert answer.json()["pystate-leader"]["address"] == "10.0.0.2:8081"
    answer = standby.get("/config", headers={"Authorization": hello_header("another-token")})
    assert answer.status_code == 401
