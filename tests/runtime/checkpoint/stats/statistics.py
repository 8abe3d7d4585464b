"""Statistics of checkpoints as a driver writes them."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pystate.common.files.home import write_file_atomically
from pystate.core.snapshot.metadata import CheckpointType, SavepointFormatType
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.checkpoint.pending_checkpoint import PendingCheckpoint
from pystate.runtime.checkpoint.stats.file import encode_statistics
from pystate.runtime.checkpoint.stats.tracker import CheckpointStatsTracker
from pystate.runtime.checkpoint.subtask_metrics import SubtaskCheckpointMetrics
from tests.runtime.checkpoint.stats.tasks import COUNT, TOTAL


def metrics(ack_timestamp: int, size: int = 9330, **changes: Any) -> SubtaskCheckpointMetrics:
    measured = {"sync_ms": 4, "async_ms": 5, "start_delay_ms": 34, "alignment_ms": 0, **changes}
    return SubtaskCheckpointMetrics(ack_timestamp, **{"checkpointed_size": size, "state_size": 5 * size, **measured})


class Statistics:
    """Checkpoints of a job of two operators, with two subtasks and one.

    Args:
        history_size: How many are listed.
        folder: Where checkpoints are.
        savepoints: Where savepoints are.
    """

    def __init__(self, history_size: int = 10, folder: str = "/ckpt", savepoints: str = "/sp") -> None:
        self._folder = folder
        self.savepoints = savepoints
        self.now = int(time.time() * 1000)
        self.tracker = CheckpointStatsTracker(history_size, lambda: self.now)
        self.tracker.describe_tasks([COUNT, TOTAL])
        self._pending: dict[int, PendingCheckpoint] = {}

    def trigger(self, number: int, *, savepoint: bool = False, at: int | None = None) -> Statistics:
        kind = CheckpointType.SAVEPOINT if savepoint else CheckpointType.CHECKPOINT
        self._pending[number] = PendingCheckpoint(
            number,
            40 + number,
            checkpoint_type=kind,
            format=SavepointFormatType.CANONICAL,
            trigger_timestamp=self.now if at is None else at,
            tasks=[("count", 0), ("count", 1), ("total", 0)],
            location=SnapshotLocation(
                f"file:{self.savepoints}/savepoint-{number}" if savepoint else f"file:{self._folder}/chk-{number}"
            ),
        )
        self.tracker.report_pending(self._pending[number])
        return self

    def acknowledge(self, number: int, uid: str, subtask: int, after: int = 110, **changes: Any) -> Statistics:
        at = self._pending[number].trigger_timestamp + after
        self.tracker.report_ack(number, uid, subtask, metrics(at, **changes))
        return self

    def complete(self, number: int) -> Statistics:
        pending = self._pending[number]
        done: Any = SimpleNamespace(
            checkpoint_id=number, epoch=pending.epoch, path=pending.location.uri, completion_timestamp=self.now
        )
        self.tracker.report_completed(done)
        return self

    def complete_and_notify(self, number: int, completed: int, notified: int) -> Statistics:
        """Complete a checkpoint and notify its functions, so many ms after its trigger."""
        self.now = self._pending[number].trigger_timestamp + completed
        self.complete(number)
        self.now = self._pending[number].trigger_timestamp + notified
        self.tracker.report_notified(number)
        return self

    def run(self, *numbers: int, **options: Any) -> Statistics:
        for number in numbers:
            self.trigger(number, **options)
            for uid, subtask in (("count", 0), ("count", 1), ("total", 0)):
                self.acknowledge(number, uid, subtask)
            self.complete(number)
        return self

    def fail(self, number: int, reason: CheckpointFailureReason, message: str | None = None) -> Statistics:
        self.tracker.report_failed(self._pending[number], reason, message)
        return self

    def write(self, path: Path) -> Statistics:
        write_file_atomically(path, encode_statistics(self.tracker.to_plain()))
        return self
