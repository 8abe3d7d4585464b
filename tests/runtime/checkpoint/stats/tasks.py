"""The operators that statistics of tests are of. It imports little: each of the many fake drivers starts with it."""

from __future__ import annotations

from pystate.runtime.checkpoint.stats.checkpoint_stats import CheckpointedTask

COUNT = CheckpointedTask("count", "a" * 32, "count -> print")
TOTAL = CheckpointedTask("total", "b" * 32, "total")
