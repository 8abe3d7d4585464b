"""Progress and duration of a restore."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class RestoreReport:
    """Reports the restore of an attempt's state.

    Attributes:
        checkpoint_id: The checkpoint the state is from.
        total: Bytes of keyed state that the slots read in all.
    """

    checkpoint_id: int
    total: int
    started: float = field(default_factory=time.monotonic)

    def progress(self, done: int) -> dict[str, Any]:
        """Return its progress, for the status; `done` is in bytes."""
        return {"checkpoint_id": self.checkpoint_id, "bytes": min(done, self.total), "total": self.total}

    def sentence(self, attempt: int) -> str:
        """Return the sentence for its completion."""
        seconds = time.monotonic() - self.started
        megabytes = self.total / 1e6
        return f"Attempt {attempt} restored checkpoint {self.checkpoint_id} ({megabytes:,.1f} MB) in {seconds:.1f} s."
