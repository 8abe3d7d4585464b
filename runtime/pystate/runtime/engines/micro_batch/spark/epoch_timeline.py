"""What each part of the last epochs took, by Spark's progress reports of its micro-batches."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pystate.common.bounded_dict import BoundedDict

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_MOST_EPOCHS = 60
_PARTS = {
    "sources": ("latestOffset", "getBatch"),
    "planning": ("queryPlanning",),
    "log": ("walCommit", "commitOffsets"),
    "run": ("addBatch",),
}
"""Parts of an epoch -> Spark's names for their pieces: `run` is what reads, computes and hands results on."""


class EpochTimeline:
    """The last epochs, as far as somebody has looked: it asks Spark only then, and for the last report alone.

    The first look takes the reports that Spark keeps. Of epochs shorter than the time between two looks some are left out.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._epochs: BoundedDict[int, dict[str, int]] = BoundedDict(_MOST_EPOCHS)

    def look(self, query: StreamingQuery) -> list[dict[str, int]]:
        """Return the last epochs, oldest first: `began` in ms since 1970, and `duration` and its parts in ms."""
        with self._lock:
            try:
                # Spark's own: PySpark's reader of reports fails on those without rates or offsets, as first ones are
                told = query._jsq  # noqa: SLF001
                reports = [told.lastProgress()] if len(self._epochs) else list(told.recentProgress())[-_MOST_EPOCHS:]
                found = [_epoch(json.loads(report.json())) for report in reports if report is not None]
            except Exception:  # the JVM may be gone; the thread that watches the query detects it
                found = []
            for epoch in found:
                if epoch is not None and epoch["began"] not in self._epochs:
                    self._epochs.put(epoch["began"], epoch)
            return [epoch for _, epoch in self._epochs.items()]


def _epoch(report: Mapping[str, Any]) -> dict[str, int] | None:
    """Return a report as an epoch; None of one without a batch, which Spark makes while there is nothing to read."""
    took = report.get("durationMs") or {}
    if "addBatch" not in took:
        return None
    began = datetime.fromisoformat(str(report["timestamp"]).replace("Z", "+00:00"))
    parts = {name: sum(int(took.get(one, 0)) for one in pieces) for name, pieces in _PARTS.items()}
    whole = max(int(took.get("triggerExecution", 0)), sum(parts.values()))
    return {"began": int(began.timestamp() * 1000), "duration": whole, **parts}
