"""The job manager below a path of a proxy: what it answers there, and where its cookies go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.security_options import SecurityOptions
from pystate.common.errors import ConfigurationError
from pystate.ops.jobmanager.dashboard.sessions import PAGE_HEADER
from pystate.ops.jobmanager.high_availability.leader_gate import LeaderGate
from pystate.ops.jobmanager.web.rest_security import RestSecurity
from pystate.ops.jobmanager.web.url_prefix import UrlPrefix
from tests.ops.jobmanager.harness import ManagerThread
from tests.ops.jobmanager.rest.in_process import HOME_TOKEN, InProcess

PREFIX = "/streams/pystate"


@pytest.fixture
def browser(tmp_path: Path) -> Any:
    application = InProcess(tmp_path / "home")
    yield TestClient(UrlPrefix(application.app, PREFIX), base_url="http://127.0.0.1:8081", follow_redirects=False)
    application.close()


def test_it_answers_with_the_prefix_and_without(browser: TestClient) -> None:
    for path in ("/jobs/overview", "/v1/jobs", "/", "/ui/app/main.js", "/pystate/session"):
        assert browser.get(path).status_code == browser.get(f"{PREFIX}{path}").status_code == 200
    answer = browser.get(PREFIX)
    assert (answer.status_code, answer.headers["location"]) == (308, f"{PREFIX}/")
    for other in (f"{PREFIX}x/jobs", f"{PREFIX}{PREFIX}/jobs", "/streams/jobs"):
        assert browser.get(other).status_code == 404


@pytest.mark.parametrize("prefix", ["", PREFIX])
def test_its_cookie_goes_to_nobody_else_behind_the_proxy(browser: TestClient, prefix: str) -> None:
    answer = browser.post(f"{prefix}/pystate/session", json={"token": HOME_TOKEN})

    assert f"; Path={prefix}/;" in answer.headers["set-cookie"]
    browser.headers[PAGE_HEADER] = answer.json()["page"]
    assert browser.get(f"{prefix}/jobmanager/logs").status_code == 200
    gone = browser.delete(f"{prefix}/pystate/session").headers["set-cookie"]
    assert f"; Path={prefix}/;" in gone
    assert len(browser.cookies) == 0
    assert browser.get(f"{prefix}/jobmanager/logs").status_code == 401


def test_a_standby_names_the_leader_with_the_prefix() -> None:
    leader = {"address": "10.0.0.2", "port": 8081, "scheme": "https", "instance": "another"}
    gate = LeaderGate(lambda: leader, "127.0.0.1", "own", RestSecurity(HOME_TOKEN))
    standby = TestClient(UrlPrefix(gate, PREFIX), base_url="http://127.0.0.1", follow_redirects=False)

    assert standby.get(f"{PREFIX}/jobs?x=1").headers["location"] == f"https://10.0.0.2:8081{PREFIX}/jobs?x=1"


@pytest.mark.parametrize("prefix", ["/pystate", "/jobs/x", "/v1/streams", "/ui"])
def test_a_prefix_that_paths_of_rest_begin_with_is_refused(tmp_path: Path, prefix: str) -> None:
    settings = Configuration({SecurityOptions.REST_URL_PREFIX.key: prefix})

    with pytest.raises(ConfigurationError, match="begins with"):
        ManagerThread(tmp_path / "home").start(settings)


@pytest.mark.parametrize("text", ["streams", "//x", "/a/../b", "/a b", "/a?b", "/%61", "https://x/y", "/a\n"])
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        Configuration({SecurityOptions.REST_URL_PREFIX.key: text}).get(SecurityOptions.REST_URL_PREFIX)


@pytest.mark.parametrize(("text", "prefix"), [("", ""), ("/", ""), ("/a", "/a"), ("/a/b-c_d.e/", "/a/b-c_d.e")])
def test_a_slash_at_its_end_means_nothing(text: str, prefix: str) -> None:
    assert Configuration({SecurityOptions.REST_URL_PREFIX.key: text}).get(SecurityOptions.REST_URL_PREFIX) == prefix
