"""The watchdog of a slot: heartbeats that need no interpreter, and the stack trace of a crash.

A function may hold the interpreter for longer than a heartbeat may be late: native code that doesn't let other threads run.
The watchdog thread of `faulthandler` is native code, too, and goes on writing where every Python thread waits. A stopped
process writes nothing. The same way goes what Python says of a crash, and of a function that ends its process.
"""

from __future__ import annotations

import faulthandler
import os
import traceback
from collections.abc import Callable

from pystate.common.processes.control import ControlClient

SIGN_INTERVAL_S = 10
"""How long a heartbeat is late before the watchdog writes, and then from one of its heartbeats to the next."""
ENDED_ITSELF = "The process ended itself: "

end_process: Callable[[int], None] = os._exit
"""Ends the process at once; our own way, which tells nobody."""


class Watchdog:
    """Writes a slot's heartbeats and the stack trace of its crash to a connection of their own.

    Args:
        client: The connection; nothing else may go over it.
        identity: Which slot of which attempt speaks.
    """

    def __init__(self, client: ControlClient, identity: dict[str, int]) -> None:
        self._client = client
        client.call("watchdog", **identity)  # from here on the connection carries plain text
        self._descriptor = client.fileno()
        self._process = os.getpid()
        faulthandler.enable(self._descriptor)
        os._exit = self._tell_and_end  # type: ignore[assignment]

    def reset(self) -> None:
        """Reset the watchdog's timer: the interpreter runs."""
        faulthandler.dump_traceback_later(SIGN_INTERVAL_S, repeat=True, file=self._descriptor)

    def close(self) -> None:
        """Write nothing any more."""
        faulthandler.cancel_dump_traceback_later()
        faulthandler.disable()
        os._exit = end_process  # type: ignore[assignment]
        self._client.close()

    def _tell_and_end(self, status: int) -> None:
        if os.getpid() == self._process:  # a child that functions have forked ends as it likes
            # innermost first, as faulthandler has it
            frames = "".join(
                f'  File "{frame.filename}", line {frame.lineno} in {frame.name}\n'
                for frame in reversed(traceback.extract_stack()[:-1])
            )
            words = f"{ENDED_ITSELF}os._exit({status!r})\n\nCurrent thread (most recent call first):\n{frames}"
            try:
                os.write(self._descriptor, words.encode())
            except OSError:
                pass  # the coordinator is gone
        end_process(status)
