"""The server in a slot for the driver's proxy and for clients that query slots directly (Flink's KvStateServer)."""

from __future__ import annotations

from itertools import cycle
from typing import Any

from pystate.common.configuration.groups.queryable_state_options import QueryableStateOptions
from pystate.common.errors import ControlError, PystateError
from pystate.common.processes.connection_limiter import places
from pystate.common.processes.control import AuthenticatedListener, Peer, loop_socket
from pystate.common.processes.request_loop import RequestLoop
from pystate.common.time import current_time_ms
from pystate.core.queryable.kv_state_frames import pack_reply, unpack_request
from pystate.core.queryable.kv_state_messages import Consistency, QueryOutcome, StateAnswer, reads_from_plain
from pystate.core.queryable.ports import next_free
from pystate.core.queryable.rate_limiter import RateLimiter
from pystate.core.queryable.server.kv_state_registry import KvStateRegistry

_MOST_CALLERS = 512
_MAX_FRAME_BYTES = 8 << 20
"""More than the proxy requests at once."""


class KvStateServer:
    """Serves one slot's registry to callers that prove that they know the secret.

    Args:
        registry: The slot's registry.
        secret: The secret that a caller must prove that it knows.
        host: The address to bind to.
        ports: The ports given by the option.
        threads: The number of requests answered concurrently.
        reads_per_second: The rate limit for reads; 0 for no limit.

    Attributes:
        address: The address on which it listens.

    Raises:
        ControlError: None of the ports is free.
    """

    def __init__(
        self,
        registry: KvStateRegistry,
        secret: bytes,
        *,
        host: str,
        ports: range,
        threads: int = 1,
        reads_per_second: int = 0,
    ) -> None:
        self._registry = registry
        self._rate = RateLimiter(reads_per_second)
        where, name = QueryableStateOptions.SERVER_PORT_RANGE.key, "queryable-state-accept"
        self._listener = next_free(
            ports, where, lambda port: AuthenticatedListener(secret, self._serve, host=host, ports=port, name=name)
        )
        address = self._listener.address
        self.address = str(address[0]), int(address[1])
        self._loops = [
            RequestLoop(
                name="queryable-state-server", most=places(_MOST_CALLERS), frame_bytes=_MAX_FRAME_BYTES, gives_way=True
            )
            for _ in range(threads)
        ]
        self._next_loop = cycle(self._loops)

    def start(self) -> None:
        """Start to answer."""
        for loop in self._loops:
            loop.start()
        self._listener.start()

    def close(self) -> None:
        """Stop answering, and close all connections."""
        self._listener.close()
        for loop in self._loops:
            loop.close()

    def _serve(self, connection: Peer) -> None:
        next(self._next_loop).add(loop_socket(connection), self._answer)

    def _answer(self, payload: bytes) -> bytes:
        request = unpack_request(payload)
        try:
            reply = {"ok": True, "value": self._handle(request), "now": current_time_ms()}
        except PystateError as error:
            reply = {"ok": False, "error": error.to_dict()}
        except Exception as error:  # the caller must get an answer whatever went wrong
            reply = {"ok": False, "error": {"class": type(error).__name__, "message": str(error)}}
        return pack_reply(reply)

    def _handle(self, request: dict[str, Any]) -> list[Any]:
        op = request.get("op")
        if op == "states":
            return [state.to_plain() for state in self._registry.states()]
        if op != "read":
            message = f"A slot's queryable state does not know the op {op!r}."
            raise ControlError(message)
        try:
            consistency, reads = Consistency(request["consistency"]), reads_from_plain(request["reads"])
        except (ValueError, TypeError, LookupError) as error:
            message = f"This is no request for state: {error}"
            raise ControlError(message) from error
        if not self._rate.take(len(reads)):
            return [_OVERLOADED.to_plain()] * len(reads)
        return [answer.to_plain() for answer in self._registry.read(consistency, reads)]


_OVERLOADED = StateAnswer(QueryOutcome.OVERLOADED, message="More is asked of the slot's state than it answers a second.")
