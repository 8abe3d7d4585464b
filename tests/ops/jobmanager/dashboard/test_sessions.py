"""Log-ins of the dashboard: what opens one, what a cookie is good for, and for whom."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.testclient import TestClient

from pystate.ops.jobmanager.dashboard.sessions import (
    CODE_SECONDS,
    MOST_SESSIONS,
    PAGE_HEADER,
    SESSION_SECONDS,
    DashboardSessions,
    LogIn,
)
from pystate.ops.jobmanager.web.rest_security import RestSecurity
from tests.ops.jobmanager.rest.in_process import HOME_TOKEN, InProcess

OWNERS_ONLY = "/jobmanager/logs"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(clock: Clock) -> DashboardSessions:
    return DashboardSessions(RestSecurity(HOME_TOKEN), "0123456789abcdef", clock)


def token_of(sessions: DashboardSessions, opened: LogIn | None) -> str | None:
    assert opened is not None
    return sessions.token(shown(sessions, opened), opened.key)


def shown(sessions: DashboardSessions, opened: LogIn | None) -> Headers:
    assert opened is not None
    return Headers({"cookie": f"other=1; {sessions.cookie}={opened.cookie}"})


def test_a_token_opens_a_session_and_a_wrong_one_does_not(sessions: DashboardSessions) -> None:
    opened = sessions.log_in(token=HOME_TOKEN)

    assert token_of(sessions, opened) == HOME_TOKEN
    assert sessions.log_in(token="wrong") is None
    assert sessions.log_in(token="\u4e2d\u6587") is None
    assert sessions.log_in() is None
    assert sessions.token(Headers({}), "") is None


def test_a_cookie_and_a_key_are_worth_nothing_without_each_other(sessions: DashboardSessions) -> None:
    first, second = sessions.log_in(token=HOME_TOKEN), sessions.log_in(token=HOME_TOKEN)
    assert first is not None
    assert second is not None

    assert sessions.token(shown(sessions, first), "") is None
    assert sessions.token(shown(sessions, first), second.key) is None
    assert sessions.token(Headers({}), first.key) is None
    sessions.log_out(shown(sessions, first), second.key)
    assert token_of(sessions, first) == HOME_TOKEN


def test_a_session_ends_by_a_log_out_and_by_time(sessions: DashboardSessions, clock: Clock) -> None:
    first, second = sessions.log_in(token=HOME_TOKEN), sessions.log_in(token=HOME_TOKEN)
    assert first is not None
    sessions.log_out(shown(sessions, first), first.key)

    assert token_of(sessions, first) is None
    clock.now = SESSION_SECONDS - 1
    assert token_of(sessions, second) == HOME_TOKEN
    clock.now = SESSION_SECONDS
    assert token_of(sessions, second) is None


def test_a_code_is_good_for_one_log_in_within_two_minutes(sessions: DashboardSessions, clock: Clock) -> None:
    used, late = sessions.code(), sessions.code()

    assert sessions.log_in(code=used) is not None
    assert sessions.log_in(code=used) is None
    clock.now = CODE_SECONDS
    assert sessions.log_in(code=late) is None


def test_the_oldest_session_makes_room(sessions: DashboardSessions) -> None:
    opened = [sessions.log_in(token=HOME_TOKEN) for _ in range(MOST_SESSIONS + 1)]

    assert token_of(sessions, opened[0]) is None
    assert token_of(sessions, opened[1]) == HOME_TOKEN


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    application = InProcess(tmp_path_factory.mktemp("dashboard") / "home")
    yield application
    application.close()


@pytest.fixture
def browser(served: InProcess) -> TestClient:
    return TestClient(served.app, base_url="http://127.0.0.1:8081")


def log_in(browser: TestClient, **given: str) -> Any:
    answer = browser.post("/pystate/session", json=given or {"token": HOME_TOKEN})
    if answer.status_code == 200:
        browser.headers[PAGE_HEADER] = answer.json()["page"]
    return answer


def test_the_cookie_is_kept_from_scripts_and_other_sites(browser: TestClient) -> None:
    answer = log_in(browser)

    assert answer.status_code == 200
    words = answer.headers["set-cookie"].lower()
    assert "httponly" in words
    assert "samesite=strict" in words
    assert HOME_TOKEN not in words
    assert browser.get("/pystate/session").json() == {"logged-in": True, "token-needed": False}
    assert browser.get(OWNERS_ONLY).status_code == 200


@pytest.mark.parametrize("wrong", ["wrong", "\u4e2d\u6587", "\xfc"])
def test_a_wrong_token_is_refused(browser: TestClient, wrong: str) -> None:
    assert log_in(browser, token=wrong).status_code == 401
    assert "set-cookie" not in log_in(browser, token=wrong).headers
    assert browser.get(OWNERS_ONLY).status_code == 401


def test_after_the_log_out_a_stolen_cookie_is_worth_nothing(served: InProcess, browser: TestClient) -> None:
    log_in(browser)
    stolen = dict(browser.cookies)
    thief = TestClient(served.app, base_url="http://127.0.0.1:8081", cookies=stolen, headers=dict(browser.headers))
    assert thief.get(OWNERS_ONLY).status_code == 200

    assert browser.delete("/pystate/session").status_code == 204

    assert thief.get(OWNERS_ONLY).status_code == 401


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_requests_that_another_page_makes_the_browser_send_have_no_session(browser: TestClient, site: str) -> None:
    log_in(browser)

    assert browser.get(OWNERS_ONLY, headers={"sec-fetch-site": site}).status_code == 401
    assert browser.get(OWNERS_ONLY, headers={"sec-fetch-site": "same-origin"}).status_code == 200
    refused = browser.post("/pystate/login-codes", headers={"origin": "http://evil.example"})
    assert refused.status_code == 403


@pytest.mark.parametrize("key", ["", "1", "x" * 43])
def test_a_cookie_that_a_server_on_another_port_was_sent_opens_nothing(
    served: InProcess, browser: TestClient, key: str
) -> None:
    log_in(browser)
    assert browser.post("/pystate/login-codes").status_code == 201
    headers = {PAGE_HEADER: key} if key else {}
    thief = TestClient(served.app, base_url="http://127.0.0.1:8081", cookies=dict(browser.cookies), headers=headers)

    assert thief.get(OWNERS_ONLY).status_code == 401
    assert thief.post("/pystate/login-codes").status_code == 401
    assert thief.get("/pystate/session").json()["logged-in"] is False
    assert thief.delete("/pystate/session").status_code == 204
    assert browser.get(OWNERS_ONLY).status_code == 200


def test_a_code_logs_in(served: InProcess, browser: TestClient) -> None:
    code = served.client.post("/pystate/login-codes", headers={"Authorization": f"Bearer {HOME_TOKEN}"}).json()["code"]

    assert log_in(browser, code=code).status_code == 200
    assert log_in(browser, code=code).status_code == 401


def test_a_job_manager_with_a_token_shows_its_pages_and_no_jobs_before_the_log_in(tmp_path: Path) -> None:
    application = InProcess(tmp_path / "home", security=RestSecurity(HOME_TOKEN, token="of the operators"))
    try:
        browser = TestClient(application.app, base_url="http://127.0.0.1:8081")
        assert browser.get("/").status_code == 200
        assert browser.get("/jobs/overview").status_code == 401
        assert browser.get("/pystate/session").json() == {"logged-in": False, "token-needed": True}

        assert log_in(browser, token="of the operators").status_code == 200

        assert browser.get("/jobs/overview").status_code == 200
    finally:
        application.close()
