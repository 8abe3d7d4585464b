"""The timestamp assigners of a chain, and the event time of functions downstream of them."""

from __future__ import annotations

from collections.abc import Callable

from pystate.runtime.plan.chain import Chain
from pystate.runtime.plan.event_time import assigners_after_head, assigners_upstream
from pystate.runtime.slot.event_time.chain_time import ChainTime
from pystate.runtime.slot.operators.timestamps import TimestampsAndWatermarks


class ChainAssigners:
    """The operators that assign timestamps inside a task.

    Args:
        chain: The task's chain.
        time: The chain's time.

    Attributes:
        by_uid: The assigners, once created; the last in the chain is created first.
    """

    def __init__(self, chain: Chain, time: ChainTime) -> None:
        self.by_uid: dict[str, TimestampsAndWatermarks] = {}
        self._time = time
        self._upstream = assigners_upstream(chain)
        self._after_head = assigners_after_head(chain)

    def after_head(self) -> list[TimestampsAndWatermarks]:
        """Return the assigners that see each element while the head emits it."""
        return [assigner for uid, assigner in self.by_uid.items() if uid in self._after_head]

    def on_periodic_emit(self) -> None:
        """Have the assigners emit their watermarks to the functions downstream."""
        for assigner in self.by_uid.values():
            assigner.on_periodic_emit()

    def next_idle(self, after: int) -> int | None:
        """Return when the next assigner after a time becomes idle, ms since 1970; None for none."""
        times = [assigner.next_idle() for assigner in self.by_uid.values()] if self.by_uid else ()
        return min((at for at in times if at is not None and at > after), default=None)

    def watermark_for(self, uid: str) -> Callable[[], int] | None:
        """Return the function that gives an operator its event time; None if that is the task's.

        Downstream of a union of the chain's own branches it is the lowest of their watermarks, idle or not.
        """
        upstream = self._upstream.get(uid)
        if upstream is None:
            return None

        def watermark() -> int:
            return min(self._time.watermark if one is None else self.by_uid[one].current_watermark for one in upstream)

        return watermark
