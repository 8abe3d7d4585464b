"""Answers of REST, sent again whenever they have changed: what live pages are made of."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Scope

logger = logging.getLogger(__name__)

MOST_STREAMS = 64
"""Of readers that are logged in or have a token, and as many of others: these can't lock those out."""
MOST_TARGETS = 24
INTERVAL_SECONDS = 1.0
"""How long after an answer the next one is asked for."""
_SHARE_OF_TIME = 4
"""An answer that takes long is asked for more seldom: it takes at most a fifth of the time."""
_TURN_SECONDS = 1.0
"""How long what asks all drivers waits for the other answers of a page: it is much work, and would slow them down."""
_MAY_CHANGE = (404, 503)
"""What is watched all the same: a job that isn't there yet, a driver that doesn't answer."""
_ALIVE_SECONDS = 15.0
"""How long a stream may be silent; proxies cut what says nothing, as nginx does after 60 s."""


@dataclass(frozen=True)
class Answer:
    """The status and the JSON of an answer."""

    status: int
    body: bytes


_JSON = b"application/json"
Ask = Callable[[str], Awaitable[Answer]]
"""Asks REST for a path with its query."""


class TooManyStreamsError(Exception):
    """As many streams are open as are allowed."""


class Watches:
    """Asks for what streams want to see, once for all of them, and only as long as one wants it.

    On the thread of the event loop.

    Args:
        ask: Asks REST in the name of the home's owner; what the user may see is checked before.
        interval: Seconds between two questions for the same thing.
        asks_all: Whether the answer to a target is made of those of all drivers.
    """

    def __init__(
        self, ask: Ask, interval: float = INTERVAL_SECONDS, asks_all: Callable[[str], bool] = lambda _target: False
    ) -> None:
        self._ask = ask
        self._interval = interval
        self._asks_all = asks_all
        self._watched: dict[str, _Watched] = {}
        self._streams: Counter[bool] = Counter()

    @property
    def targets(self) -> frozenset[str]:
        """What is being asked for."""
        return frozenset(self._watched)

    @contextmanager
    def place(self, *, owner: bool) -> Iterator[None]:
        """Hold the place of one stream, from before its first answers are asked for.

        Args:
            owner: Whether the reader is logged in, or has a token.

        Raises:
            TooManyStreamsError: There is none.
        """
        if self._streams[owner] >= MOST_STREAMS:
            raise TooManyStreamsError
        self._streams[owner] += 1
        try:
            yield
        finally:
            self._streams[owner] -= 1

    async def stream(self, targets: Iterable[str], first: Ask, is_allowed: Callable[[], bool]) -> AsyncIterator[bytes]:
        """Yield server-sent events: a first answer for each target as soon as it is there, and the later ones.

        A slow reader gets the newest answer and not those between.

        Args:
            targets: What is watched.
            first: Asks for a first answer as the reader: who may not see something is told so, and gets no later one.
            is_allowed: Whether the reader still may; after a log-out the stream ends.
        """
        pending: dict[str, Answer] = {}
        changed, joined = asyncio.Event(), list[_Watched]()

        def notify(target: str, answer: Answer) -> None:
            if pending.get(target) != answer:
                pending[target] = answer
                changed.set()

        async def begin(target: str) -> None:
            try:
                answer = await first(target)
                notify(target, answer)
                if answer.status < 400 or answer.status in _MAY_CHANGE:
                    joined.append(self._join(target, answer, notify))
            finally:
                changed.set()

        async def begin_after(others: Collection[asyncio.Task[None]], target: str) -> None:
            if others:
                await asyncio.wait(others, timeout=_TURN_SECONDS)
            await begin(target)

        loop, wanted = asyncio.get_running_loop(), list(targets)
        asking = [loop.create_task(begin(target)) for target in wanted if not self._asks_all(target)]
        others = tuple(asking)
        asking += [loop.create_task(begin_after(others, target)) for target in wanted if self._asks_all(target)]
        try:
            yield b"retry: 1000\n\n"
            while is_allowed() and not any(_has_failed(one) for one in asking):
                changed.clear()
                while pending and is_allowed():
                    target = next(iter(pending))
                    yield _event(target, pending.pop(target))
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(changed.wait(), _ALIVE_SECONDS)
                    continue
                yield b": alive\n\n"
        finally:
            for question in asking:
                question.cancel()
            for one in joined:
                one.leave(notify)

    def _join(self, target: str, latest: Answer, notify: Notify) -> _Watched:
        watched = self._watched.get(target)
        if watched is None:
            watched = self._watched[target] = _Watched(target, latest, self._ask, self._interval, self._watched)
        elif watched.latest != latest:
            notify(target, watched.latest)
        watched.readers.add(notify)
        return watched


Notify = Callable[[str, Answer], None]


def _has_failed(question: asyncio.Task[None]) -> bool:
    """Return whether a question has failed, and log that: its reader asks again."""
    if not question.done() or question.cancelled() or question.exception() is None:
        return False
    logger.error("a page can't be shown what it asks for", exc_info=question.exception())
    return True


class _Watched:
    """Something that streams want to see; asks as long as it has readers."""

    def __init__(self, target: str, latest: Answer, ask: Ask, interval: float, siblings: dict[str, _Watched]) -> None:
        self.target = target
        self.latest = latest
        self.readers: set[Notify] = set()
        self._ask = ask
        self._interval = interval
        self._siblings = siblings
        self._task = asyncio.get_running_loop().create_task(self._run())

    def leave(self, notify: Notify) -> None:
        self.readers.discard(notify)
        if not self.readers:
            self._task.cancel()
            if self._siblings.get(self.target) is self:
                del self._siblings[self.target]

    async def _run(self) -> None:
        pause = self._interval
        while True:
            await asyncio.sleep(pause)
            began = time.monotonic()
            try:
                answer = await self._ask(self.target)
            except Exception:
                # the next question may be answered; streams must not end for one that isn't
                logger.exception("%s can't be watched at the moment", self.target)
                pause = max(self._interval, _ALIVE_SECONDS)
                continue
            pause = max(self._interval, _SHARE_OF_TIME * (time.monotonic() - began))
            if answer != self.latest:
                self.latest = answer
                for notify in tuple(self.readers):
                    notify(self.target, answer)


def _event(target: str, answer: Answer) -> bytes:
    head = f'{{"path":{json.dumps(target)},"status":{answer.status},"body":'
    return b"".join((b"event: answer\ndata: ", head.encode("ascii"), answer.body, b"}\n\n"))


async def ask_app(app: ASGIApp, target: str, headers: Iterable[tuple[bytes, bytes]]) -> Answer:
    """Ask an application for a path with its query, without a connection.

    Args:
        app: The application.
        target: The path, with its query.
        headers: The headers of the request.
    """
    path, _, query = target.partition("?")
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode("ascii", "replace"),
        "query_string": query.encode("ascii", "replace"),
        "root_path": "",
        "headers": list(headers),
        "client": None,
        "server": None,
    }
    status, chunks, media_type = 500, bytearray(), b""

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status, media_type
        if message["type"] == "http.response.start":
            status = message["status"]
            media_type = dict(message["headers"]).get(b"content-type", b"")
        elif media_type.startswith(_JSON):  # a log may be larger than the memory
            chunks.extend(message.get("body", b""))

    await app(scope, receive, send)
    if not media_type.startswith(_JSON):
        return Answer(415, b'{"errors":["Only JSON can be watched."]}')
    return Answer(status, bytes(chunks))
