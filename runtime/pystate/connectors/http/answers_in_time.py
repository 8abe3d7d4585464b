"""Connections on which a whole answer, head and body, has the time that else each single read has."""

from __future__ import annotations

import http.client
import io
import socket
import time
from typing import Any

from pystate.common.overrides import override


class _ReadInTime(io.RawIOBase):
    """Reads from a socket until a deadline: a service that sends a byte now and then has no more time than others.

    Args:
        connected: The socket, with its timeout, which is the time.
        inner: What reads from it.
    """

    def __init__(self, connected: socket.socket, inner: io.RawIOBase) -> None:
        self._socket, self._inner = connected, inner
        time_s = connected.gettimeout()
        self._deadline = None if time_s is None else time.monotonic() + time_s

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Any, /) -> int | None:
        if self._deadline is not None:
            left = self._deadline - time.monotonic()
            if left <= 0:
                message = "an answer had no end in time"
                raise TimeoutError(message)
            self._socket.settimeout(left)
        return self._inner.readinto(buffer)

    @override
    def close(self) -> None:
        self._inner.close()
        super().close()


class _AnswerInTime(http.client.HTTPResponse):
    """An answer of which all bytes have one deadline."""

    def __init__(self, sock: socket.socket, *args: Any, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        self.fp: Any = io.BufferedReader(_ReadInTime(sock, self.fp.detach()))


def pool_manager(urllib3: Any, **settings: Any) -> Any:
    """Return a PoolManager of such connections.

    Args:
        urllib3: The package.
        settings: Arguments of the PoolManager.
    """
    manager = urllib3.PoolManager(**settings)
    manager.pool_classes_by_scheme = {
        scheme: type(pool.__name__, (pool,), {"ConnectionCls": _of_answers_in_time(pool.ConnectionCls)})
        for scheme, pool in manager.pool_classes_by_scheme.items()
    }
    return manager


def _of_answers_in_time(connection: Any) -> Any:
    return type(connection.__name__, (connection,), {"response_class": _AnswerInTime})
