"""Input sorted by key: detects the end of each key, fires its timers and forgets its state (Flink's BATCH mode).

Source: Flink's BatchExecutionInternalTimeService and BatchExecutionKeyedStateBackend, which hold state and timers of one key
at a time.
"""

from __future__ import annotations

from collections.abc import Hashable

from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.keys.key_context import NO_KEY
from pystate.runtime.slot.event_time.chain_time import MAX_WATERMARK, MIN_WATERMARK, ChainTime
from pystate.runtime.slot.operators.operator import Operator


class SortedKeys:
    """The current key of a subtask whose input is sorted by key.

    Args:
        head: The keyed operator.
        backend: Its state backend, which holds only the state of the current key, in the overlay of the only epoch.
        time: The chain's time.
    """

    def __init__(self, head: Operator, backend: KeyedStateBackend, time: ChainTime) -> None:
        self._head = head
        self._backend = backend
        self._time = time

    def begin(self, key: Hashable, key_group: int) -> None:
        """End the previous key and begin a new one."""
        self.end()
        self._backend.key_context.set_current_key(key, key_group)

    def end(self) -> None:
        """Fire all timers of the current key, event-time timers first, and forget its state."""
        time = self._time
        if self._backend.key_context.active_key is NO_KEY:
            return
        time.watermark, time.quiesced = MAX_WATERMARK, True
        try:
            self._head.advance_watermark(MAX_WATERMARK)
            self._head.advance_processing_time(MAX_WATERMARK)
        finally:
            time.watermark, time.quiesced = MIN_WATERMARK, False
        self._backend.rollback_epoch()
