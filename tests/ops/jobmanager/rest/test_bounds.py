"""What requests may be as large as, and what is answered to those that are larger."""

from __future__ import annotations

import asyncio
import errno
import json
import re
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from pystate.common.errors import SnapshotError, UsageError
from pystate.common.files.home import PystateHome
from pystate.ops.jobmanager.disposal import savepoint_disposal
from pystate.ops.jobmanager.disposal.savepoint_disposal import (
    DisposalNotFoundError,
    SavepointDisposals,
    TooManyDisposalsError,
)
from pystate.ops.jobmanager.rest.app import ROUTES
from pystate.ops.jobmanager.rest.json_body import MAX_DEPTH, parse_body
from pystate.ops.jobmanager.rest.route import RestRoute
from pystate.ops.jobmanager.web import request_guard
from pystate.ops.jobmanager.web.request_guard import RequestTooLargeError, RequestTooSlowError, read_body
from tests.ops.jobmanager.harness import eventually
from tests.ops.jobmanager.rest.in_process import HOME_TOKEN, InProcess
from tests.waiting import LONGEST_S

TOKEN = {"Authorization": f"Bearer {HOME_TOKEN}"}
MEBIBYTES_4 = "a" * (4 << 20)
LONGEST_ANSWER = 4 << 10
WITH_BODY = [route for route in ROUTES if route.body is not None]


def named(route: RestRoute) -> str:
    return f"{route.method} {route.path}"


def path_of(route: RestRoute, value: str = "a" * 32) -> str:
    return re.sub(r"{\w+}", lambda _: value, route.path)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    application = InProcess(tmp_path_factory.mktemp("bounds") / "home")
    with application.client:  # one event loop for all
        yield application
    application.close()


@pytest.mark.parametrize("route", WITH_BODY, ids=named)
def test_no_field_of_a_body_may_have_megabytes_or_is_repeated_in_the_answer(served: InProcess, route: RestRoute) -> None:
    assert route.body is not None
    for field in route.body:
        longer = {"savepoint_path": "/" + "a" * 5000, "savepoint-path": "/" + "a" * 5000}.get(
            field.name, "/" + "a" * 200_000
        )
        wrong: list[Any] = [longer, [longer], {longer: longer}, {"a": longer}, ["a"] * 5000, 10**400, True, 1.5, -1]
        for value in wrong:
            answer = served.client.request(route.method, path_of(route), json={field.name: value}, headers=TOKEN)
            assert answer.status_code < 500, answer.text
            assert len(answer.content) < LONGEST_ANSWER
            if value in (longer, [longer]) or isinstance(value, dict):
                assert answer.status_code in (400, 413), (field.name, answer.text)


def test_another_spelling_of_a_field_is_refused_and_other_names_are_ignored(served: InProcess) -> None:
    job = f"/jobs/{'a' * 32}"
    request = served.client.post
    for path, wrong, right in (
        (f"{job}/stop", "target-directory", "targetDirectory"),
        (f"{job}/stop", "TARGETDIRECTORY", "targetDirectory"),
        (f"{job}/savepoints", "targetDirectory", "target-directory"),
        (f"{job}/savepoints", "cancelJob", "cancel-job"),
        (f"{job}/savepoints", "format-type", "formatType"),
        ("/savepoint-disposal", "savepointPath", "savepoint-path"),
    ):
        for token in ({}, TOKEN):
            answer = request(path, json={wrong: None}, headers=token)
            assert (answer.status_code, repr(right) in answer.text) == (400, True), (wrong, answer.text)
    for name in ("target-directory", "targetDirectory"):
        for route, right in (("stop", "targetDirectory"), ("savepoints", "target-directory")):
            answer = request(f"{job}/{route}?{name}=/x", json={}, headers=TOKEN)
            assert (answer.status_code, f"{right!r} in the body" in answer.text) == (400, True), answer.text
    assert request(f"{job}/stop?mode=x", json={"targetDir": "/x", "more": 1}, headers=TOKEN).status_code == 202


@pytest.mark.parametrize("route", WITH_BODY, ids=named)
@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_a_body_is_read_to_its_bound_only(served: InProcess, route: RestRoute, chunked: bool) -> None:
    body = json.dumps({"more": MEBIBYTES_4}).encode()
    content: Any = (body[start : start + 65536] for start in range(0, len(body), 65536)) if chunked else body
    answer = served.client.request(route.method, path_of(route), content=content, headers=TOKEN)
    assert answer.status_code == 413
    assert answer.json() == {"errors": [f"The body of the request is larger than {route.max_body} bytes."]}
    assert route.max_body <= (4 << 20 if route.owner_only else 64 << 10)


@pytest.mark.parametrize("route", ROUTES, ids=named)
def test_paths_queries_and_headers_are_bounded(served: InProcess, route: RestRoute) -> None:
    plain = path_of(route)
    request = served.client.request
    assert request(route.method, f"{plain}?get={'a' * 9000}", headers=TOKEN).status_code == 414
    assert request(route.method, plain, headers={**TOKEN, "x": "a" * 33_000}).status_code == 431
    assert request(route.method, plain, headers={**TOKEN, **{f"x-{n}": "a" for n in range(130)}}).status_code == 431
    values = ["a" * 2000, "%00", "..%2f" * 100, "%ff", "-1", "9" * 400, "[", "%5B%0A"]
    for path in (path_of(route, value) for value in values if "{" in route.path):
        answer = request(route.method, path, headers=TOKEN)
        assert answer.status_code in (400, 404), answer.text
        assert len(answer.content) < LONGEST_ANSWER
    for parameter in route.query:
        for value in values:
            answer = request(route.method, f"{plain}?{parameter.name}={value}", headers=TOKEN)
            assert answer.status_code < 500
            assert len(answer.content) < 1 << 20 if answer.status_code == 200 else len(answer.content) < LONGEST_ANSWER


@pytest.mark.parametrize("path", ["[", "/jobs/[", "//[", "http://["])
def test_what_is_no_path_is_not_found(served: InProcess, path: str) -> None:
    sent: list[Any] = []
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1")],
        "server": ("127.0.0.1", 1),
        "http_version": "1.1",
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(served.app(scope, receive, send))  # type: ignore[arg-type]
    assert sent[0]["status"] in (400, 404)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 60_000,
        b'{"a":' * 12_000,
        b'{"a": "' + b'\\"' * 30_000,
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b"\xff\xfe",
        b"{" + b'"' * 60_001,
        b"7",
    ],
    ids=lambda body: f"{body[:8]!r}",
)
def test_no_json_is_worth_more_than_a_refusal(body: bytes) -> None:
    with pytest.raises(UsageError) as caught:
        parse_body(body)
    assert len(caught.value.message) < 300


def test_json_may_be_as_deep_as_any_body_and_brackets_in_texts_do_not_count() -> None:
    assert parse_body(b'{"a": "' + b"[" * 1000 + b'\\"{"}') == {"a": "[" * 1000 + '"{'}
    assert parse_body(b'{"a":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH)
    with pytest.raises(UsageError, match="levels"):
        parse_body(b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1))
    assert parse_body(b"  ") == {}


async def _never() -> AsyncIterator[bytes]:
    yield b"{"
    await asyncio.Event().wait()


def test_a_body_that_does_not_come_is_not_waited_for(served: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RequestTooSlowError, match=r"has not arrived within 0.01 s"):
        asyncio.run(read_body(_never(), 100, 0.01))
    assert request_guard.BODY_SECONDS <= 60


def test_a_body_without_an_end_is_not_read_to_its_end() -> None:
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        while True:
            read += 1 << 20
            yield b"a" * (1 << 20)

    with pytest.raises(RequestTooLargeError):
        asyncio.run(read_body(endless(), 100))
    assert read < 10 << 20


def test_what_is_kept_of_disposals_is_small_and_so_is_their_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def resolve(path: str) -> Any:
        go_on.wait(LONGEST_S)
        raise SnapshotError(path, where=path)

    monkeypatch.setattr(savepoint_disposal, "resolve_snapshot", resolve)
    disposals = SavepointDisposals(PystateHome(tmp_path))
    triggers = [disposals.trigger(f"/{MEBIBYTES_4}") for _ in range(200)]
    with pytest.raises(TooManyDisposalsError):
        disposals.trigger("/one-too-many")
    assert disposals.result(triggers[-1]) == {"status": "IN_PROGRESS"}
    go_on.set()
    results = [eventually(lambda one=one: _result(disposals, one)) for one in triggers]
    assert all("failure" in result for result in results)
    assert max(len(json.dumps(result)) for result in results) < 2 * LONGEST_ANSWER
    for _ in range(5):
        last = [disposals.trigger("/nothing") for _ in range(200)]
        assert all(eventually(lambda one=one: _result(disposals, one)) for one in last)
    assert len(disposals._results) == 1000
    with pytest.raises(DisposalNotFoundError):
        disposals.result(triggers[0])


def _result(disposals: SavepointDisposals, trigger: str) -> dict[str, Any] | None:
    result = disposals.result(trigger)
    return None if result["status"] == "IN_PROGRESS" else result


def test_a_full_disk_is_answered_and_no_error_of_the_server(served: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/there")

    monkeypatch.setattr(served.dispatcher, "jobs", full)
    strict = TestClient(served.app, base_url="http://127.0.0.1")  # raises what the server would log with its stack trace
    answer = strict.get("/jobs/overview", headers={"Authorization": f"Bearer {HOME_TOKEN}"})
    assert (answer.status_code, "No space left on device" in answer.text) == (507, True)
