"""Watched answers: sent when they change, asked for once for all readers, and not at all without one."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from pystate.ops.jobmanager.dashboard import watches as module
from pystate.ops.jobmanager.dashboard.watches import Answer, TooManyStreamsError, Watches, ask_app
from pystate.ops.jobmanager.high_availability.leader_gate import LeaderGate
from pystate.ops.jobmanager.web.request_guard import RequestGuard
from pystate.ops.jobmanager.web.rest_security import RestSecurity
from tests.ops.jobmanager.harness import ManagerThread
from tests.ops.jobmanager.rest.in_process import HOME_TOKEN, InProcess
from tests.waiting import LONGEST_S

PATH = "/jobs/overview"


class Source:
    """What is asked: counts the questions, and answers what it is told to."""

    def __init__(self) -> None:
        self.answer = Answer(200, b"0")
        self.asked = 0
        self.error: Exception | None = None
        self.answered = asyncio.Event()

    async def ask(self, _target: str) -> Answer:
        self.asked += 1
        self.answered.set()
        if self.error is not None:
            raise self.error
        return self.answer

    async def first(self, _target: str) -> Answer:
        return self.answer

    async def next_question(self) -> None:
        self.answered.clear()
        await asyncio.wait_for(self.answered.wait(), LONGEST_S)


def events(data: bytes) -> list[Any]:
    lines = [line for line in data.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(line[6:]) for line in lines]


async def next_event(stream: AsyncIterator[bytes]) -> Any:
    while True:
        found = events(await asyncio.wait_for(stream.__anext__(), LONGEST_S))
        if found:
            return found[0]


def open_stream(watches: Watches, source: Source) -> AsyncIterator[bytes]:
    return watches.stream([PATH], source.first, lambda: True)


def run(check: Any) -> None:
    async def checked() -> None:
        source = Source()
        await check(Watches(source.ask, 0.001), source)

    asyncio.run(checked())


def test_a_reader_gets_the_first_answer_and_each_other_one() -> None:
    async def check(watches: Watches, source: Source) -> None:
        stream = open_stream(watches, source)
        assert await next_event(stream) == {"path": PATH, "status": 200, "body": 0}
        for _ in range(3):  # the same answer is not sent again
            pending = asyncio.ensure_future(next_event(stream))
            await source.next_question()
            await source.next_question()
            assert not pending.done()
            source.answer = Answer(200, str(source.asked).encode())
            assert (await pending)["body"] > 0

    run(check)


def test_two_readers_are_one_question_and_none_is_none() -> None:
    async def check(watches: Watches, source: Source) -> None:
        first, second = open_stream(watches, source), open_stream(watches, source)
        await next_event(first)
        await next_event(second)
        assert watches.targets == {PATH}
        source.answer = Answer(404, b'{"errors":[]}')
        assert (await next_event(first))["status"] == (await next_event(second))["status"] == 404

        await first.aclose()  # type: ignore[attr-defined]
        await source.next_question()
        await second.aclose()  # type: ignore[attr-defined]
        assert watches.targets == frozenset()
        asked = source.asked
        await asyncio.sleep(0.02)
        assert source.asked == asked

    run(check)


def test_what_takes_long_holds_up_nothing_else() -> None:
    async def check(watches: Watches, source: Source) -> None:
        held = asyncio.Event()

        async def first(target: str) -> Answer:
            if target == "/held":
                await held.wait()
            return source.answer  # and no other one later: that would be one more event

        stream = watches.stream(["/held", PATH], first, lambda: True)
        assert (await next_event(stream))["path"] == PATH
        assert watches.targets == {PATH}
        held.set()
        assert (await next_event(stream))["path"] == "/held"
        await stream.aclose()  # type: ignore[attr-defined]
        assert watches.targets == frozenset()

    run(check)


def test_what_asks_all_drivers_is_asked_when_the_rest_is_there_or_late() -> None:
    async def check(_watches: Watches, source: Source) -> None:
        begun: list[str] = []
        held = asyncio.Event()

        async def first(target: str) -> Answer:
            begun.append(target)
            if target == "/held":
                await held.wait()
            return source.answer  # and no other one later: that would be one more event

        watches = Watches(source.ask, 0.001, asks_all=lambda target: target == "/all")
        stream = watches.stream(["/all", PATH], first, lambda: True)
        assert [(await next_event(stream))["path"], (await next_event(stream))["path"]] == [PATH, "/all"]
        assert begun == [PATH, "/all"]
        await stream.aclose()  # type: ignore[attr-defined]
        late = watches.stream(["/all", "/held"], first, lambda: True)
        assert (await next_event(late))["path"] == "/all"
        assert begun[2:] == ["/held", "/all"]
        await late.aclose()  # type: ignore[attr-defined]
        assert watches.targets == frozenset()

    run(check)


def test_a_reader_that_leaves_before_the_first_answer_leaves_nothing() -> None:
    async def check(watches: Watches, _source: Source) -> None:
        gone = asyncio.Event()

        async def first(_target: str) -> Answer:
            try:
                return await asyncio.Event().wait()  # type: ignore[return-value]
            finally:
                gone.set()

        stream = watches.stream([PATH], first, lambda: True)
        await stream.__anext__()
        await asyncio.sleep(0)
        await stream.aclose()  # type: ignore[attr-defined]
        await asyncio.wait_for(gone.wait(), 30)
        assert watches.targets == frozenset()

    run(check)


def test_a_first_question_that_fails_ends_the_stream_whose_reader_asks_again(caplog: pytest.LogCaptureFixture) -> None:
    async def check(watches: Watches, _source: Source) -> None:
        async def first(_target: str) -> Answer:
            raise OSError("no more files")

        stream = watches.stream([PATH], first, lambda: True)
        with pytest.raises(StopAsyncIteration):
            await next_event(stream)
        assert watches.targets == frozenset()

    run(check)
    assert "can't be shown" in caplog.text


def test_a_slow_reader_gets_the_newest_answer() -> None:
    async def check(watches: Watches, source: Source) -> None:
        stream = open_stream(watches, source)
        await next_event(stream)
        for number in range(1, 5):
            source.answer = Answer(200, str(number).encode())
            await source.next_question()
            await source.next_question()
        assert (await next_event(stream))["body"] == 4

    run(check)


def test_a_question_that_fails_ends_no_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ALIVE_SECONDS", 0.001)

    async def check(watches: Watches, source: Source) -> None:
        stream = open_stream(watches, source)
        await next_event(stream)
        source.error = OSError("no more files")
        waiting = asyncio.ensure_future(next_event(stream))
        await source.next_question()
        await source.next_question()
        source.error, source.answer = None, Answer(200, b"1")
        assert (await waiting)["body"] == 1

    run(check)


def test_a_stream_ends_when_its_reader_may_see_it_no_more() -> None:
    async def check(watches: Watches, source: Source) -> None:
        allowed = [True]
        stream = watches.stream([PATH], source.first, lambda: allowed[0])
        await next_event(stream)
        allowed[0] = False
        source.answer = Answer(200, b"1")
        with pytest.raises(StopAsyncIteration):
            await next_event(stream)
        assert watches.targets == frozenset()

    run(check)


def test_readers_without_a_token_do_not_take_the_places_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_STREAMS", 1)

    async def check(watches: Watches, _source: Source) -> None:
        with watches.place(owner=False):
            with pytest.raises(TooManyStreamsError), watches.place(owner=False):
                pass
            with watches.place(owner=True), pytest.raises(TooManyStreamsError), watches.place(owner=True):
                pass
        with watches.place(owner=False):
            pass

    run(check)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    application = InProcess(tmp_path_factory.mktemp("watched") / "home")
    yield application
    application.close()


@pytest.mark.parametrize(
    "query",
    ["", "path=jobs", "path=/pystate/watch?path=/jobs", "path=/%C3%BC", "&".join(f"path=/jobs/{n}" for n in range(25))],
)
def test_what_can_not_be_watched_is_refused(served: InProcess, query: str) -> None:
    assert served.client.get(f"/pystate/watch?{query}").status_code == 400


def test_an_application_is_asked_as_by_a_connection(served: InProcess) -> None:
    owner = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {HOME_TOKEN}".encode())]

    async def ask(path: str, headers: list[tuple[bytes, bytes]]) -> Answer:
        return await ask_app(served.app, path, headers)

    assert asyncio.run(ask("/overview", owner[:1])).status == 200
    assert asyncio.run(ask("/jobs/overview?x=1", owner[:1])).body == b'{"jobs":[]}'
    assert asyncio.run(ask("/jobmanager/logs", owner[:1])).status == 401
    assert asyncio.run(ask("/jobmanager/logs", owner)).status == 200
    assert asyncio.run(ask("/metrics", owner)).status == 415


def test_who_may_not_see_something_does_not_by_watching(tmp_path: Path) -> None:
    application = InProcess(tmp_path / "home", security=RestSecurity(HOME_TOKEN))
    try:
        browser = TestClient(application.app, base_url="http://127.0.0.1:8081")
        sent: list[Any] = []
        hidden = asyncio.run(first_events(application.app, ["/jobmanager/logs", "/overview"]))
        sent += hidden
        assert {event["path"]: event["status"] for event in sent} == {"/jobmanager/logs": 401, "/overview": 200}
        assert browser.get("/overview").status_code == 200
    finally:
        application.close()


def test_streams_that_are_opened_together_are_counted_before_their_first_answers(
    served: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_STREAMS", 2)

    async def together() -> list[Any]:
        asked = (first_events(served.app, ["/jobs/overview"]) for _ in range(8))
        return await asyncio.gather(*asked, return_exceptions=True)

    for _ in range(2):  # the places are free again
        found = asyncio.run(together())
        assert sum(isinstance(one, list) and len(one) == 1 for one in found) == 2


def test_a_stream_is_asked_for_its_head_alone(served: InProcess) -> None:
    assert served.client.head("/pystate/watch?path=/overview").status_code == 200


def test_cookies_of_others_do_not_end_the_stream_of_a_reader_with_a_token(served: InProcess) -> None:
    headers = [(b"authorization", f"Bearer {HOME_TOKEN}".encode()), (b"cookie", b"of-a-proxy=1")]

    found = asyncio.run(first_events(served.app, ["/jobmanager/logs"], headers))

    assert [event["status"] for event in found] == [200]


def test_a_job_manager_ends_its_streams_when_it_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    manager = ManagerThread(tmp_path / "home").start()
    try:
        with socket.create_connection(("127.0.0.1", manager.port), 30) as reader:
            reader.sendall(b"GET /pystate/watch?path=/jobs/overview HTTP/1.1\r\nHost: localhost\r\n\r\n")
            found = b""
            while b"event: answer" not in found:
                found += reader.recv(1 << 16)
            manager.stop()
            while reader.recv(1 << 16):
                pass
    finally:
        manager.stop()
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


def test_what_is_not_answered_when_the_job_manager_ends_is_told_so() -> None:
    async def check() -> None:
        asked, sent = asyncio.Event(), list[Any]()

        async def hangs(_scope: Any, _receive: Any, _send: Any) -> None:
            asked.set()
            await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "query_string": b"", "headers": [(b"host", b"127.0.0.1")]}
        served = asyncio.ensure_future(RequestGuard(hangs, "127.0.0.1", "own")(scope, asyncio.Event().wait, send))
        await asyncio.wait_for(asked.wait(), 30)
        served.cancel()  # as the server does
        await served
        assert sent[0]["status"] == 503
        assert b"The job manager ends" in sent[1]["body"]

    asyncio.run(check())


def test_a_stream_ends_when_another_job_manager_leads(served: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ALIVE_SECONDS", 0.05)
    gate = LeaderGate(lambda: None, "127.0.0.1", "own", RestSecurity(HOME_TOKEN))
    term: Any = SimpleNamespace(is_valid=True)
    gate.lead(term, served.app)

    async def check() -> None:
        sent: list[Any] = []
        asked = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive() -> Any:
            for message in asked:
                return message
            return await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)
            if b"event: answer" in message.get("body", b""):
                term.is_valid = False

        scope = {
            "type": "http",
            "method": "GET",
            "path": "/pystate/watch",
            "raw_path": b"/pystate/watch",
            "query_string": b"path=/overview",
            "headers": [(b"host", b"127.0.0.1")],
        }
        await asyncio.wait_for(gate(scope, receive, send), LONGEST_S)
        assert sent[0]["status"] == 200
        assert sent[-1]["more_body"] is False

    asyncio.run(check())


async def first_events(app: Any, paths: list[str], headers: list[tuple[bytes, bytes]] | None = None) -> list[Any]:
    """Return the first answers of a stream, which the client leaves then."""
    gone, found = asyncio.Event(), bytearray()
    query = "&".join(f"path={path}" for path in paths)
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/pystate/watch",
        "raw_path": b"/pystate/watch",
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(b"host", b"127.0.0.1"), *(headers or [])],
        "client": None,
        "server": ("127.0.0.1", 8081),
    }
    began = False

    async def receive() -> Any:
        nonlocal began
        if not began:
            began = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        found.extend(message.get("body", b""))
        if len(events(bytes(found))) == len(paths) or message.get("status", 200) != 200:
            gone.set()

    await asyncio.wait_for(app(scope, receive, send), LONGEST_S)
    return events(bytes(found))
