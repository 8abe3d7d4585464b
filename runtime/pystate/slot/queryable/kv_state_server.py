"""Answers the driver's proxy in a slot (Flink's KvStateServer)."""

from __future__ import annotations

import threading
from typing import Any

from pystate.common.control import ControlServer
from pystate.common.errors import ControlError
from pystate.common.queryable_state_options import QueryableStateOptions
from pystate.queryable.messages import Consistency, reads_from_plain
from pystate.queryable.ports import next_free
from pystate.slot.queryable.kv_state_registry import KvStateRegistry


class KvStateServer:
    """Serves one slot's registry to whoever proves the job's secret.

    Args:
        registry: The slot's states.
        secret: What a caller must prove.
        host: The address to bind to.
        ports: As the option says.
        threads: How many requests are answered at once.

    Raises:
        ControlError: None of the ports is free.
    """

    def __init__(self, registry: KvStateRegistry, secret: bytes, *, host: str, ports: range, threads: int = 1) -> None:
        self._registry = registry
        self._turns = threading.BoundedSemaphore(threads)
        where = QueryableStateOptions.SERVER_PORT_RANGE.key
        self._server = next_free(ports, where, lambda port: ControlServer(secret, self._handle, host, ports=port))
        self.address = self._server.host, self._server.port

    def start(self) -> None:
        """Begin to answer."""
        self._server.start()

    def close(self) -> None:
        """Stop answering."""
        self._server.close()

    def _handle(self, request: dict[str, Any]) -> Any:
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
        with self._turns:
            answers = self._registry.read(consistency, reads)
        return [answer.to_plain() for answer in answers]
