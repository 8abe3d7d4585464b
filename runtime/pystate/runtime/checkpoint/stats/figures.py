"""The figures of checkpoints that are summarized over all of a job's."""

from __future__ import annotations

from dataclasses import fields

from pystate.runtime.checkpoint.stats.checkpoint_stats import CheckpointStats
from pystate.runtime.rest.checkpoint_messages import CheckpointsSummary

SUMMARIZED = tuple(one.name for one in fields(CheckpointsSummary))
"""The values that are summarized over all completed checkpoints."""


def summarized(stats: CheckpointStats) -> dict[str, int | None]:
    """Return the values that a completed checkpoint adds to the summary; None adds nothing."""
    found = stats.figures
    values = {name: getattr(found, name) for name in SUMMARIZED}
    return {**values, "end_to_end_duration": max(0, found.end_to_end_duration)}
