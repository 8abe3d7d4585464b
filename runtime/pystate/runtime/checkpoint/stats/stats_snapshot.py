"""The statistics of a job's checkpoints at one moment: in memory, and in the format of the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pystate.common.text.plain_data import Natural
from pystate.runtime.checkpoint.stats.checkpoint_stats import CheckpointStats, CheckpointStatsCounts, RestoredCheckpointStats
from pystate.runtime.checkpoint.stats.stats_summary import StatsSummary
from pystate.runtime.checkpoint.subtask_metrics import StatsData


@dataclass(frozen=True)
class CheckpointStatsSnapshot:
    """The statistics of a job's checkpoints.

    Attributes:
        summaries: By the names of the fields of `CheckpointsSummary`.
        latest: The last one that is `completed`, a completed `savepoint`, `failed`; None if there is none.
        history: The last checkpoints, the newest first.
    """

    counts: CheckpointStatsCounts
    summaries: Mapping[str, StatsSummary]
    latest: Mapping[str, CheckpointStats | None]
    restored: RestoredCheckpointStats | None
    history: Sequence[CheckpointStats]

    @property
    def latest_completed(self) -> CheckpointStats | None:
        """The last checkpoint or savepoint that completed; None if there is none."""
        done = [stats for kind in ("completed", "savepoint") if (stats := self.latest[kind]) is not None]
        return max(done, key=lambda stats: stats.checkpoint_id, default=None)


@dataclass
class KeptStatistics(StatsData):
    """The same in the format of the file: each checkpoint once, oldest first, referred to by its id."""

    counts: CheckpointStatsCounts
    summaries: dict[str, StatsSummary]
    checkpoints: list[CheckpointStats]
    history: list[Natural]
    latest: dict[str, Natural | None]
    restored: RestoredCheckpointStats | None
