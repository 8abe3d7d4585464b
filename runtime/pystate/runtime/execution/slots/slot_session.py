"""Serves a slot's connections to the driver: one carries its heartbeats, another one the watchdog's output."""

from __future__ import annotations

import os
import threading
from typing import Any, Protocol

from pystate.common.errors import ControlError
from pystate.common.overrides import override
from pystate.common.processes.control import ControlSession, Peer, loop_socket
from pystate.common.processes.request_loop import RequestLoop

FREQUENT_CALLS = frozenset({"heartbeat", "acknowledge"})
"""The ops that all slots call again and again, each over a connection of its own, and that never wait for anything."""


class SlotListener(Protocol):
    """Receives requests and events of slot sessions."""

    def handle(self, request: dict[str, Any]) -> Any:
        """Answer one request of a slot."""

    def watchdog_output(self, index: int, text: str) -> None:
        """Process output of a slot's watchdog; empty at the end."""

    def session_closed(self, slot: int) -> None:
        """Handle a closed heartbeat connection of a slot."""


class SlotSession(ControlSession):
    """A slot's connection; the one that carries heartbeats lives as long as the slot.

    One that begins with a frequent call carries no others: the loop serves it from its second request on, with those of
    all other slots.

    Args:
        pool: Receives requests and events.
        loop: Serves connections with frequent calls.
    """

    def __init__(self, pool: SlotListener, loop: RequestLoop) -> None:
        super().__init__(pool.handle)
        self._pool = pool
        self._loop = loop
        self._frequent = False
        self._moved = False
        self._heartbeats_of: int | None = None
        self._watchdog_of: int | None = None

    @override
    def handle(self, request: dict[str, Any]) -> Any:
        op = request.get("op")
        if self._moved and op not in FREQUENT_CALLS:
            message = f"A connection that carries {', '.join(sorted(FREQUENT_CALLS))} takes no {op!r}."
            raise ControlError(message)
        self._frequent = op in FREQUENT_CALLS
        if op == "heartbeat":
            self._heartbeats_of = request.get("slot")
        answer = super().handle(request)
        if op == "watchdog":
            self._watchdog_of = request.get("slot")
        return answer

    @override
    def takes_over(self, connection: Peer) -> bool:
        if self._frequent:
            self._moved = True
            self._loop.add(loop_socket(connection), self.answer_frame, self._ended)
            return True
        if self._watchdog_of is None:
            return False
        text = b""
        try:
            while text := os.read(connection.fileno(), 1 << 16):
                self._pool.watchdog_output(self._watchdog_of, text.decode(errors="replace"))
        finally:
            self._pool.watchdog_output(self._watchdog_of, "")
        return True

    @override
    def closed(self) -> None:
        """Report the slot as lost if this was its heartbeat connection, and it is not the loop's by now."""
        if not self._moved:
            self._report_end()

    def _ended(self) -> None:
        # beside the loop: the report waits for the slot's last words
        threading.Thread(target=self._report_end, name="slot-ended", daemon=True).start()

    def _report_end(self) -> None:
        if self._heartbeats_of is not None:
            self._pool.session_closed(self._heartbeats_of)
