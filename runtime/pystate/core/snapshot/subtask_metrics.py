"""What a subtask measured while it took its part of a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.common.text.plain_data import Natural
from pystate.core.snapshot.stats_data import StatsData


@dataclass(frozen=True)
class SubtaskCheckpointMetrics(StatsData):
    """What one subtask measured at a checkpoint; times in ms, sizes in bytes.

    Attributes:
        ack_timestamp: When it acknowledged, ms since 1970.
        sync_ms: How long the part took that stops processing.
        async_ms: How long the part took that doesn't.
        start_delay_ms: From the trigger to the moment the barrier was there.
        alignment_ms: From the first to the last upstream partition that had delivered its last row; None if unknown.
        checkpointed_size: Bytes written for this checkpoint.
        state_size: Bytes of state it stands for.
        processed_data: Bytes processed while the barriers were being aligned.
        persisted_data: Bytes of records in flight that were written.
        unaligned: 1 where the barrier overtook records, else 0.
        buffered_data: Bytes held back while the barriers were being aligned.
    """

    ack_timestamp: Natural
    sync_ms: Natural
    async_ms: Natural
    start_delay_ms: Natural
    alignment_ms: Natural | None
    checkpointed_size: Natural
    state_size: Natural
    processed_data: Natural = 0
    persisted_data: Natural = 0
    unaligned: Natural = 0
    buffered_data: Natural = 0
