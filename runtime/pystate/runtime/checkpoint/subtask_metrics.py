"""The metrics of a subtask's part of a checkpoint, and the base of all statistics that outlive a driver."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.common.text.plain_data import Natural, PlainData
from pystate.core.snapshot.plain import unsound


class StatsData(PlainData):
    """The base of statistics classes; raises `CorruptSnapshotError` when read from invalid data."""

    @classmethod
    def plain_error(cls, what: str) -> Exception:
        """Return the error for invalid plain data."""
        return unsound(what)


@dataclass(frozen=True)
class SubtaskCheckpointMetrics(StatsData):
    """The metrics of one subtask for a checkpoint; times in ms, sizes in bytes.

    Attributes:
        ack_timestamp: When it acknowledged, ms since 1970.
        sync_ms: The duration of the synchronous part, which stops processing.
        async_ms: The duration of the asynchronous part.
        start_delay_ms: The time from the trigger to the arrival of the barrier.
        alignment_ms: From the first to the last upstream partition that had delivered its last row; None if unknown.
        checkpointed_size: Bytes written for this checkpoint.
        state_size: The total size of the state.
        processed_data: Bytes processed while the barriers were being aligned.
        persisted_data: Bytes of in-flight records that were written.
        unaligned: 1 if the barrier overtook records, else 0.
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
