"""Flushes changes to the state: at barriers, and often enough for queries of live state."""

from __future__ import annotations

import threading
import time

from pystate.core.state.base.committed_states import CommittedStates
from pystate.runtime.slot.chain.operator_chain import OperatorChain

FLUSH_S = 0.5
"""How often changes go to the state backend between barriers, where queries of live state see them."""


class ChangeFlush:
    """Flushes changes to the state backend of one subtask; each flush counts as an epoch.

    Args:
        chain: The subtask's operator chain.
        versions: The versions of the state that queries can read; None if there are none.

    Attributes:
        is_pending: Whether there are changes since the last flush.
    """

    def __init__(self, chain: OperatorChain, versions: CommittedStates | None) -> None:
        self.is_pending = False
        self._chain = chain
        self._versions = versions
        self._version = 0
        self._flushed = time.monotonic()

    def begin(self, checkpoint_id: int | None, checkpoint_timestamp: int | None) -> None:
        """Begin with restored state.

        Args:
            checkpoint_id: The restored checkpoint; None for none.
            checkpoint_timestamp: When it was triggered, ms since 1970.
        """
        if self._versions is not None:
            self._versions.begin(self._version, checkpoint_id, checkpoint_timestamp)

    def flush_if_due(self, changed: threading.Condition) -> None:
        """Flush changes that have waited long enough.

        Args:
            changed: The subtask's condition, held during the flush.
        """
        if self.is_pending and time.monotonic() - self._flushed > FLUSH_S:
            with changed:
                self.flush()

    def flush(self) -> None:
        """Flush all changes to the state."""
        began = time.perf_counter()
        self._chain.finish_epoch()
        self._version += 1
        if self._versions is not None:
            self._versions.epoch_finished(self._version)
        self._chain.metrics.sample_gauges()
        self._chain.metrics.epoch_finished(int((time.perf_counter() - began) * 1000))
        self._flushed, self.is_pending = time.monotonic(), False
