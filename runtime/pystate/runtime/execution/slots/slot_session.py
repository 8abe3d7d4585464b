"""Serves a slot's connections to the driver: one carries its heartbeats, another one the watchdog's output."""

from __future__ import annotations

import os
from typing import Any, Protocol

from pystate.common.processes.control import ControlSession, Peer


class SlotListener(Protocol):
    """Receives requests and events of slot sessions."""

    def handle(self, request: dict[str, Any]) -> Any:
        """Answer one request of a slot."""

    def watchdog_output(self, index: int, text: str) -> None:
        """Process output of a slot's watchdog; empty at the end."""

    def session_closed(self, slot: int) -> None:
        """Handle a closed heartbeat connection of a slot."""


class SlotSession(ControlSession):
    """A slot's connection; the one that carries heartbeats lives as long as the slot."""

    def __init__(self, pool: SlotListener) -> None:
        super().__init__(pool.handle)
        self._pool = pool
        self._heartbeats_of: int | None = None
        self._watchdog_of: int | None = None

    def handle(self, request: dict[str, Any]) -> Any:
        """Answer one request."""
        if request.get("op") == "heartbeat":
            self._heartbeats_of = request.get("slot")
        answer = super().handle(request)
        if request.get("op") == "watchdog":
            self._watchdog_of = request.get("slot")
        return answer

    def takes_over(self, connection: Peer) -> bool:
        """Read the output of a slot's watchdog, which isn't a request."""
        if self._watchdog_of is None:
            return False
        text = b""
        try:
            while text := os.read(connection.fileno(), 1 << 16):
                self._pool.watchdog_output(self._watchdog_of, text.decode(errors="replace"))
        finally:
            self._pool.watchdog_output(self._watchdog_of, "")
        return True

    def closed(self) -> None:
        """Report the slot as lost if this was its heartbeat connection."""
        if self._heartbeats_of is not None:
            self._pool.session_closed(self._heartbeats_of)
