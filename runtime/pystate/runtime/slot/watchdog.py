"""The watchdog of a slot: heartbeats that don't need the interpreter, and the stack trace of a crash.

A function may block the interpreter for longer than the heartbeat timeout, in native code that doesn't release it. The
watchdog thread of `faulthandler` is native code, too, and continues to write while every Python thread waits. A stopped
process writes nothing. The same connection carries Python's output about a crash, or about a function that ends its process.
"""

from __future__ import annotations

import faulthandler
import os
import traceback
from collections.abc import Callable

from pystate.common.processes.control import ControlClient

SIGN_INTERVAL_S = 10
"""How late a heartbeat must be before the watchdog writes, and the interval of the watchdog's own heartbeats."""
ENDED_ITSELF = "The process ended itself: "

end_process: Callable[[int], None] = os._exit
"""Ends the process at once, without the watchdog's report; for pystate's own use."""


class Watchdog:
    """Writes a slot's heartbeats and the stack trace of its crash to a dedicated connection.

    Args:
        client: The connection; it must not be used for anything else.
        identity: The calling slot and attempt.
    """

    def __init__(self, client: ControlClient, identity: dict[str, int]) -> None:
        self._client = client
        client.call("watchdog", **identity)  # from now on the connection carries plain text
        self._descriptor = client.fileno()
        self._process = os.getpid()
        faulthandler.enable(self._descriptor)
        os._exit = self._tell_and_end  # type: ignore[assignment]

    def reset(self) -> None:
        """Reset the watchdog's timer: the interpreter runs."""
        faulthandler.dump_traceback_later(SIGN_INTERVAL_S, repeat=True, file=self._descriptor)

    def close(self) -> None:
        """Stop writing."""
        faulthandler.cancel_dump_traceback_later()
        faulthandler.disable()
        os._exit = end_process  # type: ignore[assignment]
        self._client.close()

    def _tell_and_end(self, status: int) -> None:
        if os.getpid() == self._process:  # a child process forked by functions may end as it likes
            # innermost first, as faulthandler prints it
            frames = "".join(
                f'  File "{frame.filename}", line {frame.lineno} in {frame.name}\n'
                for frame in reversed(traceback.extract_stack()[:-1])
            )
            text = f"{ENDED_ITSELF}os._exit({status!r})\n\nCurrent thread (most recent call first):\n{frames}"
            try:
                os.write(self._descriptor, text.encode())
            except OSError:
                pass  # the coordinator is lost
        end_process(status)


def keep_from_children(descriptors: list[int]) -> None:
    """Close descriptors in children that functions fork; the caller empties the list before it closes them itself.

    Others notice the end of this process by the end of its connections, of which a child that lives on would have copies.
    """

    def close() -> None:
        if descriptors:
            faulthandler.disable()  # it would write to one of them
        for descriptor in descriptors:
            os.close(descriptor)

    os.register_at_fork(after_in_child=close)
