"""A slot that has registered, and how it shows that it lives."""

from __future__ import annotations

import sys
import time

from pystate.common.processes.control import HEARTBEAT_TIMEOUT_S, Address, ControlClient
from pystate.common.processes.processes import can_run
from pystate.runtime.execution.slots.crash_output import held_at

_KEPT_WORDS = 1 << 16


class RegisteredSlot:
    """One slot of an attempt. The pool holds its lock around every call.

    Args:
        index: Its number.
        control: Calls it.
        notifications: Calls it, too: user code answers these, so nothing else may wait behind them.
        data: Where those who bring records find it.
        pid: Its process.

    Attributes:
        restored: The bytes of old keyed state that it has read.
        words: The last that its process wrote without its interpreter.
        words_end: It writes nothing any more.
    """

    def __init__(self, index: int, control: ControlClient, notifications: ControlClient, data: Address, pid: int) -> None:
        self.index = index
        self.control = control
        self.notifications = notifications
        self.data = data
        self.pid = pid
        self.restored = 0
        self.words = ""
        self.words_end = False
        self._last_heartbeat = self._last_sign = time.monotonic()
        self._is_held = False

    def heartbeat(self, restored: int) -> None:
        """Record a heartbeat."""
        self._last_heartbeat = time.monotonic()
        self._is_held = False
        self.restored = restored

    def sign(self, text: str) -> None:
        """Take what its process writes without its interpreter; nothing at its end."""
        self._last_sign = time.monotonic() if text else self._last_sign
        self.words = (self.words + text)[-_KEPT_WORDS:]
        self.words_end = not text

    def is_late(self) -> bool:
        """Whether its heartbeats have stayed away for too long."""
        return time.monotonic() - self._last_heartbeat > HEARTBEAT_TIMEOUT_S

    def is_silent(self, *, here: bool) -> bool:
        """Whether it gives no other sign of life either; says where it is held up if it does.

        Args:
            here: Whether its process is on this machine.
        """
        if time.monotonic() - self._last_sign > HEARTBEAT_TIMEOUT_S and not (here and can_run(self.pid)):
            return True
        if not self._is_held:  # a stopped or cut off process gives neither sign: this one is only held up
            where = held_at(self.words)
            sys.stderr.write(
                f"WARNING: Slot {self.index} (process {self.pid}) has sent no heartbeat for {HEARTBEAT_TIMEOUT_S:g} s, but "
                f"runs: its interpreter is held, by {where or 'native code'}.\n"
            )
        self._is_held = True
        return False
