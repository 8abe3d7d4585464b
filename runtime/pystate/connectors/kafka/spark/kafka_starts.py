"""The start of a Kafka source without a snapshot, as its reader tells the engine.

By then Spark's `startingOffsets` holds numbers, which don't tell their origin.
"""

from __future__ import annotations

STARTS = "pystate.starts"
"""An option of the reader, which Spark passes over."""

FROM_THE_END = "latest"
"""Partitions may begin where they end: what came before is not read. Also Spark's own `startingOffsets`."""

FROM_THE_GROUP = "committed"
"""Starts at the offsets of the group that the job's checkpoints commit to: what came before the latest one is not read."""
