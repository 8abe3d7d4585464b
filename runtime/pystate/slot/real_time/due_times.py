"""When time alone brings something about in a subtask, and so when it has to be awake."""

from __future__ import annotations

from pystate.common.time import current_time_ms
from pystate.slot.operator_chain import OperatorChain


class DueTimes:
    """Those of one subtask: timers by the clock, and assigners that become idle, which the next tasks want to know.

    Args:
        chain: Of the subtask.
    """

    def __init__(self, chain: OperatorChain) -> None:
        self._chain = chain
        self._seen = 0

    def see(self) -> None:
        """Take note that all that is due by now is seen to; called in front of that."""
        self._seen = current_time_ms()

    def next(self) -> int | None:
        """Return when the next one is due, ms since 1970; None for never. It may be past."""
        timer, idle = self._chain.next_processing_time_timer(), self._chain.assigners.next_idle(self._seen)
        return timer if idle is None else idle if timer is None else min(timer, idle)
