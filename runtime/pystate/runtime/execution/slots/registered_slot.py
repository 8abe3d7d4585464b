"""A registered slot, and its signs of life."""

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
        control: The client for calls.
        notifications: The client for notifications: user code handles them, so no other call may queue behind them.
        data: Its address for records.
        pid: Its process id.

    Attributes:
        restored: The bytes of keyed state that it has restored.
        words: The last output of its watchdog.
        words_end: Whether that output has ended.
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
        """Process output of its watchdog; empty at the end."""
        self._last_sign = time.monotonic() if text else self._last_sign
        self.words = (self.words + text)[-_KEPT_WORDS:]
        self.words_end = not text

    def is_late(self) -> bool:
        """Whether its heartbeats are overdue."""
        return time.monotonic() - self._last_heartbeat > HEARTBEAT_TIMEOUT_S

    def is_silent(self, *, here: bool) -> bool:
        """Whether it gives no other sign of life either; if it does, logs where it is held up.

        Args:
            here: Whether its process is on this machine.
        """
        if time.monotonic() - self._last_sign > HEARTBEAT_TIMEOUT_S and not (here and can_run(self.pid)):
            return True
        if not self._is_held:  # a stopped or disconnected process gives neither sign: this one is only held up
            where = held_at(self.words)
            sys.stderr.write(
                f"WARNING: Slot {self.index} (process {self.pid}) has sent no heartbeat for {HEARTBEAT_TIMEOUT_S:g} s, but "
                f"runs: its interpreter is held, by {where or 'native code'}.\n"
            )
        self._is_held = True
        return False
