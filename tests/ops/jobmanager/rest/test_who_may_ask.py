"""Every route asked by who may not: without a token, from a page of another site, by another name, and half a request."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.types import ASGIApp

from pystate.ops.jobmanager.rest.app import ROUTES
from pystate.ops.jobmanager.web.rest_security import RestSecurity
from tests.ops.jobmanager.rest.in_process import HOME_TOKEN, InProcess

REST_TOKEN = "the-token-of-the-operators"
SERVED_AT = [(route, path) for route in ROUTES for path in route.paths]
OWNERS = {
    "POST /pystate/registrations",
    "POST /pystate/registrations/challenges",
    "DELETE /cluster",
    "GET /jobmanager/log",
    "GET /jobmanager/logs",
    "GET /jobmanager/logs/{log_name}",
    "POST /pystate/jobs",
    "GET /pystate/jobs/{job_id}",
    "GET /pystate/jobs/{job_id}/log",
    "GET /pystate/jobs/{job_id}/metrics",
    "GET /pystate/jobs/{job_id}/progress",
    "GET /pystate/jobs/{job_id}/queryable-state",
    "GET /pystate/jobs/{job_id}/queryable-state/value",
    "POST /pystate/jobs/{job_id}/queryable-state/values",
    "GET /pystate/jobs/{job_id}/stdout",
    "DELETE /pystate/jobs/{job_id}/resubmission",
    "GET /pystate/jobs/{job_id}/resubmission",
    "POST /pystate/jobs/{job_id}/resubmission",
    "POST /pystate/jobs/{job_id}/resubmit",
    "POST /pystate/login-codes",
    "GET /pystate/savepoints",
    "GET /pystate/savepoints/comparison",
    "GET /pystate/jobs/{job_id}/submission",
    "POST /pystate/jobs/{job_id}/fork",
    "PATCH /jobs/{job_id}/rescaling",
    "POST /pystate/jobs/{job_id}/replacement",
    "GET /pystate/savepoints/inspection",
    "GET /pystate/savepoints/key-groups",
    "GET /pystate/savepoints/keys",
    "GET /pystate/savepoints/rows",
    "GET /pystate/savepoints/sources",
    "GET /pystate/savepoints/verification",
}
"""What needs the home's token whatever the options say; a new route of this kind belongs here, too."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    application = InProcess(tmp_path_factory.mktemp("open") / "home")
    yield application
    application.close()


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    application = InProcess(tmp_path_factory.mktemp("closed") / "home", RestSecurity(HOME_TOKEN, REST_TOKEN))
    yield application
    application.close()


async def ask(
    app: ASGIApp, method: str, path: str, *headers: tuple[str, str], body: list[Any] | None = None
) -> tuple[int, int]:
    """Return the status, and how often the body was asked for."""
    sent: list[Any] = []
    asked = 0
    parts = iter(body or [])

    async def receive() -> Any:
        nonlocal asked
        asked += 1
        return next(parts, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        sent.append(message)

    hosts = [] if any(name == "host" for name, _ in headers) else [("host", "127.0.0.1")]
    given = [*hosts, *headers]
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in given],
        "server": ("127.0.0.1", 8081),
    }
    await app(scope, receive, send)
    return int(sent[0]["status"]), asked


def filled(path: str) -> str:
    return re.sub(r"{\w+}", "a" * 32, path)


def test_the_table_of_what_the_owner_alone_may_do_is_whole() -> None:
    assert {f"{route.method} {route.path}" for route in ROUTES if route.owner_only} == OWNERS
    assert [route.path for route in ROUTES if route.is_public] == ["/pystate/openapi.json"]


SHOWN = [(), (("authorization", "Bearer wrong"),), (("authorization", f"Basic {HOME_TOKEN}"),)]


@pytest.mark.parametrize("shown", SHOWN, ids=["nothing", "a wrong one", "another scheme"])
def test_who_shows_no_token_is_refused_before_the_body_is_looked_at(
    served: InProcess, closed: InProcess, shown: tuple[tuple[str, str], ...]
) -> None:
    async def ask_all() -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for route, path in SERVED_AT:
            for application in (served, closed):
                needed = route.owner_only or (application is closed and not route.is_public)
                status, asked = await ask(application.app, route.method, filled(path), *shown)
                if (status == 401) is not needed or (needed and asked):
                    found.append((route.method, path, application is closed, status, asked))
        return found

    assert asyncio.run(ask_all()) == []


def test_the_token_of_the_operators_opens_nothing_where_it_is_not_configured(served: InProcess) -> None:
    async def ask_all() -> set[tuple[int, int]]:
        shown = ("authorization", f"Bearer {REST_TOKEN}")
        owners = [(route, path) for route, path in SERVED_AT if route.owner_only]
        return {await ask(served.app, route.method, filled(path), shown) for route, path in owners}

    assert asyncio.run(ask_all()) == {(401, 0)}


def test_a_request_with_two_hosts_is_refused_whichever_comes_first(served: InProcess) -> None:
    ours, other = ("host", "127.0.0.1:8081"), ("host", "evil.example")
    for hosts in ((ours, other), (other, ours), (ours, ours)):
        assert asyncio.run(ask(served.app, "GET", "/jobs", *hosts)) == (400, 0)


FOREIGN = [
    ("host", "evil.example"),
    ("host", "evil.example:8081"),
    ("host", "127.0.0.1.evil.example"),
    ("host", "127.0.0.1@evil.example"),
    ("host", "192.0.2.7"),
    ("host", ""),
    ("host", "["),
    ("host", "[::1"),
    ("host", "127.0.0.1:port"),
    ("host", "a" * 20_000),
    ("origin", "http://evil.example"),
    ("origin", "http://127.0.0.1:8082"),
    ("origin", "null"),
    ("origin", ""),
    ("origin", "http://["),
    ("origin", "http://[::1"),
    ("origin", "http://\uff3b"),
    ("origin", "127.0.0.1"),
    ("origin", "http://" + "a" * 20_000),
]


@pytest.mark.parametrize("header", FOREIGN, ids=lambda header: f"{header[0]} {header[1][:24]}")
def test_no_route_answers_pages_of_others_or_other_names(
    served: InProcess, header: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    async def ask_all() -> set[tuple[int, int]]:
        token = ("authorization", f"Bearer {HOME_TOKEN}")
        return {await ask(served.app, route.method, filled(path), token, header) for route, path in SERVED_AT}

    assert asyncio.run(ask_all()) == {(403, 0)}
    assert caplog.records == []


def test_a_refusal_does_not_repeat_what_was_sent(served: InProcess) -> None:
    for name in ("Host", "Origin"):
        answer = served.client.get("/jobs", headers={name: "http://" + "a" * 20_000})
        assert answer.status_code == 403
        assert len(answer.content) < 400


@pytest.mark.parametrize("body", [[], [{"type": "http.request", "body": b"{", "more_body": True}]], ids=["none", "half"])
def test_who_hangs_up_leaves_no_trace(served: InProcess, body: list[Any], caplog: pytest.LogCaptureFixture) -> None:
    async def ask_all() -> set[int]:
        token = ("authorization", f"Bearer {HOME_TOKEN}")
        routes = [route for route in ROUTES if route.body is not None]
        return {(await ask(served.app, route.method, filled(route.path), token, body=list(body)))[0] for route in routes}

    assert asyncio.run(ask_all()) == {400}
    assert caplog.records == []
