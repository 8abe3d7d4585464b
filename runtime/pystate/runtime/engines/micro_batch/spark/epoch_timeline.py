"""What each part of the last epochs took: by Spark's progress reports of its batches, and by a clock for all others."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

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
    """The last epochs; batches as far as somebody has looked: it asks Spark only then, and for the last report alone.

    The first look takes the reports that Spark keeps. Of batches shorter than the time between two looks some are left out.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._epochs: dict[int, dict[str, int]] = {}
        self._looked = False

    def ran(self, began: int, duration: int) -> None:
        """Record an epoch that is no batch of Spark's, which has one part: of sources in slots, of timers, the last one.

        Args:
            began: ms since 1970.
            duration: How long it took, in ms.
        """
        with self._lock:
            self._keep([{"began": began, "duration": duration, **dict.fromkeys(_PARTS, 0), "run": duration}])

    def look(self, query: StreamingQuery | None) -> list[dict[str, int]]:
        """Return the last epochs, oldest first: `began` in ms since 1970, and `duration` and its parts in ms.

        Args:
            query: The query whose batches are epochs; None where Spark reads no source.
        """
        with self._lock:
            if query is not None:
                self._ask(query)
            return list(self._epochs.values())

    def _ask(self, query: StreamingQuery) -> None:
        try:
            # Spark's own: PySpark's reader of reports fails on those without rates or offsets, as first ones are
            told = query._jsq  # noqa: SLF001
            reports = [told.lastProgress()] if self._looked else list(told.recentProgress())[-_MOST_EPOCHS:]
            found = [_epoch(json.loads(report.json())) for report in reports if report is not None]
        except Exception:  # the JVM may be gone; the thread that watches the query detects it
            return
        self._looked = self._looked or bool(reports)
        self._keep([epoch for epoch in found if epoch is not None])

    def _keep(self, found: list[dict[str, int]]) -> None:
        known = {**self._epochs, **{epoch["began"]: epoch for epoch in found}}
        self._epochs = dict(sorted(known.items())[-_MOST_EPOCHS:])


def _epoch(report: Mapping[str, Any]) -> dict[str, int] | None:
    """Return a report as an epoch; None of one without a batch, which Spark makes while there is nothing to read."""
    took = report.get("durationMs") or {}
    if "addBatch" not in took:
        return None
    began = datetime.fromisoformat(str(report["timestamp"]).replace("Z", "+00:00"))
    parts = {name: sum(int(took.get(one, 0)) for one in pieces) for name, pieces in _PARTS.items()}
    whole = max(int(took.get("triggerExecution", 0)), sum(parts.values()))
    return {"began": int(began.timestamp() * 1000), "duration": whole, **parts}
