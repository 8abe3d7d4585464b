"""Publishes batches of messages, and waits for the broker to acknowledge each."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pystate.common.errors import ExternalSystemError
from pystate.common.overrides import override
from pystate.connectors.async_sink.request import Fate, NotDoneError, Outcome, Request, RequestClient
from pystate.connectors.mqtt.mqtt_connection import MqttConnectionOptions

if TYPE_CHECKING:
    import paho.mqtt.client as mqtt

_REFUSED = {"Topic name invalid", "Payload format invalid", "Packet too large", "Retain not supported"}
_NOT_ALLOWED = "Not authorized"


class _Session:
    """A connection of a thread. Connected again it has the same client id, so that the broker ends the old connection first.

    Args:
        connection: How to connect.
        timeout_s: How long to wait for the broker.
    """

    def __init__(self, connection: MqttConnectionOptions, timeout_s: float) -> None:
        self._connection = connection
        self._timeout_s = timeout_s
        self._client_id = f"pystate-{uuid.uuid4().hex}"
        self._client: mqtt.Client | None = None
        self._changed = threading.Condition()
        self._acknowledged: dict[int, Any] = {}
        self._lost: str | None = None

    def publish(self, batch: Sequence[Request]) -> list[str | None]:
        """Return for each message why the broker refuses it, None for success.

        Raises:
            NotDoneError: The connection was lost, or there was no answer in time.
        """
        client = self._client or self._connect()
        deadline = time.monotonic() + self._timeout_s
        sent = []
        for request in batch:
            topic, payload, retain = request.payload
            sent.append(client.publish(topic, payload, qos=1, retain=retain).mid)
        with self._changed:
            while not all(mid in self._acknowledged for mid in sent):
                left = deadline - time.monotonic()
                if self._lost is not None or left <= 0:
                    raise NotDoneError(self._lost or f"no acknowledgement within {self._timeout_s:g} s")
                self._changed.wait(left)
            reasons = [self._acknowledged.pop(mid) for mid in sent]
        return [str(reason) if reason.is_failure else None for reason in reasons]

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.disconnect()
            client.loop_stop()

    def _connect(self) -> mqtt.Client:
        with self._changed:
            self._lost = None
            self._acknowledged.clear()
        self._client = client = self._connection.client(self._client_id, reconnect_on_failure=False)
        client.on_publish = self._on_publish
        client.on_disconnect = self._on_disconnect
        self._connection.connect(client, self._timeout_s, {}, clean=True)
        return client

    def _on_publish(self, client: Any, _: Any, mid: int, reason: Any, __: Any) -> None:
        with self._changed:
            if client is self._client:
                self._acknowledged[mid] = reason
                self._changed.notify_all()

    def _on_disconnect(self, client: Any, _: Any, __: Any, reason: Any, ___: Any) -> None:
        with self._changed:
            if client is self._client:
                self._lost = f"the connection was lost: {reason}"
                self._changed.notify_all()


class MqttRequestClient(RequestClient):
    """Publishes with QoS 1, by a connection for each thread.

    Args:
        connection: How to connect.
        timeout_s: How long the broker may take to acknowledge a batch.
    """

    def __init__(self, connection: MqttConnectionOptions, timeout_s: float) -> None:
        self._connection = connection
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._free: list[_Session] = []
        self._closed = False

    @override
    def submit(self, batch: Sequence[Request]) -> Sequence[Outcome | None]:
        with self._lock:
            session = self._free.pop() if self._free else _Session(self._connection, self._timeout_s)
        try:
            refusals = session.publish(batch)
        except BaseException:
            session.close()
            raise
        finally:
            with self._lock:
                self._free.append(session)
                closed = self._closed
            if closed:
                session.close()
        return [
            None if words is None else self._outcome(request, words) for request, words in zip(batch, refusals, strict=True)
        ]

    @override
    def close(self) -> None:
        with self._lock:
            self._closed = True
            sessions, self._free = self._free, []
        for session in sessions:
            session.close()

    def _outcome(self, request: Request, words: str) -> Outcome:
        if words == _NOT_ALLOWED:
            message = f"The broker does not let the user publish to {request.key!r}: {words}"
            raise ExternalSystemError(message, where=self._connection.shown(), hint="look at the user's rights (ACL)")
        return Outcome(Fate.REFUSED if words in _REFUSED else Fate.RETRY, words)
