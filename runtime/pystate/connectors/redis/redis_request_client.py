"""Sends batches of commands, each in a pipeline."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pystate.common.errors import ExternalSystemError
from pystate.common.overrides import override
from pystate.connectors.async_sink.request import Fate, NotDoneError, Outcome, Request, RequestClient
from pystate.connectors.redis.redis_connection import (
    RedisConnectionOptions,
    is_passing,
    redis_client,
    refusal_of_all,
    words_of,
)

if TYPE_CHECKING:
    import redis

_LOG = logging.getLogger(__name__)


class _Session:
    """A connection of a thread.

    Attributes:
        client: The client.
        name: Id and address of the connection, by which the server knows it; None if it doesn't say.
    """

    def __init__(self, client: redis.Redis) -> None:
        self.client: Any = client
        self.name: tuple[int, str] | None = None

    def open(self) -> None:
        errors = redis_client().exceptions
        try:
            info: Any = self.client.client_info()
            self.name = int(info["id"]), str(info["addr"])
        except errors.AuthenticationError:
            raise
        except (errors.ResponseError, KeyError, ValueError):  # older than 6.2, or not allowed
            self.name = None
            self.client.ping()


class RedisRequestClient(RequestClient):
    """Sends each batch in one pipeline, by a connection for each thread.

    A server that didn't answer in time may still do later what it was sent, after newer batches of other connections. So the
    connection is closed at the server before anything else is sent.

    Args:
        connection: How to connect.
        timeout_s: How long to wait for an answer.
        in_transaction: Whether nobody is to see a part of an element.
    """

    def __init__(self, connection: RedisConnectionOptions, timeout_s: float, *, in_transaction: bool) -> None:
        self._connection = connection
        self._timeout_s = timeout_s
        self._in_transaction = in_transaction
        self._lock = threading.Lock()
        self._free: list[_Session] = []
        self._used: set[_Session] = set()
        self._lost: list[tuple[int, str]] = []
        self._closed = False

    def check(self) -> None:
        """Connect, so that a wrong password is told at the start; a server that isn't there is waited for.

        Raises:
            PystateError: The server doesn't take the settings.
        """
        try:
            self._give_back(self._session())
        except NotDoneError as error:
            _LOG.warning("%s can't be reached yet: %s", self._connection.shown(), error)

    @override
    def submit(self, batch: Sequence[Request]) -> Sequence[Outcome | None]:
        session = self._session()
        results: list[Any] = []
        try:
            pipeline: Any = session.client.pipeline(transaction=self._in_transaction)
            for request in batch:
                for command in request.payload:
                    pipeline.execute_command(*command)
            results = pipeline.execute(raise_on_error=False)
        except Exception as error:
            self._lose(session)
            if is_passing(error):
                raise NotDoneError(words_of(error)) from error
            target = self._connection.shown()
            message = f"Redis does not take a batch: {words_of(error)}"
            raise refusal_of_all(error, target) or ExternalSystemError(message, where=target) from None
        self._give_back(session)
        left = iter(results)
        return [self._outcome([next(left) for _ in request.payload]) for request in batch]

    @override
    def close(self) -> None:
        with self._lock:
            self._closed = True
            sessions = [*self._free, *self._used]
        for session in sessions:
            session.client.close()

    def _outcome(self, results: list[Any]) -> Outcome | None:
        for result in results:
            if isinstance(result, Exception):
                if is_passing(result):
                    return Outcome(Fate.RETRY, words_of(result))
                of_all = refusal_of_all(result, self._connection.shown())
                if of_all is not None:
                    raise of_all
                return Outcome(Fate.REFUSED, words_of(result))
        return None

    def _session(self) -> _Session:
        """Return a connection; those that were lost are closed at the server before.

        Raises:
            NotDoneError: There is none for now.
            PystateError: The server doesn't take the settings.
        """
        with self._lock:
            session = self._free.pop() if self._free else None
            is_new = session is None
            if session is None:
                session = _Session(self._connection.connect(self._timeout_s))
            self._used.add(session)
            lost = list(self._lost)
        try:
            if is_new:
                session.open()
            for client_id, address in lost:
                self._end(session, client_id, address)
        except Exception as error:
            self._lose(session)
            if is_passing(error):
                raise NotDoneError(words_of(error)) from error
            target = self._connection.shown()
            message = f"Redis can't be used: {words_of(error)}"
            raise refusal_of_all(error, target) or ExternalSystemError(message, where=target) from None
        with self._lock:
            self._lost = [name for name in self._lost if name not in lost]
        return session

    def _end(self, session: _Session, client_id: int, address: str) -> None:
        errors = redis_client().exceptions
        try:
            # both: ids start over with each start of the server
            session.client.execute_command("CLIENT", "KILL", "ID", client_id, "ADDR", address)
        except errors.ResponseError as error:
            _LOG.warning("A connection that timed out can't be closed at the server: %s", words_of(error))

    def _give_back(self, session: _Session) -> None:
        with self._lock:
            self._used.discard(session)
            if not self._closed:
                self._free.append(session)
                return
        session.client.close()

    def _lose(self, session: _Session) -> None:
        with self._lock:
            self._used.discard(session)
            if session.name is not None:
                self._lost.append(session.name)
        session.client.close()
