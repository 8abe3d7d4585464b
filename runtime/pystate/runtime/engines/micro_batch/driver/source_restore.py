"""From a snapshot to the logs with which Spark's query goes on: which files, which batch, which epoch."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from pystate.core.snapshot.starting_snapshot import Snapshot
from pystate.runtime.engines.micro_batch.driver.running_epoch import RunningEpoch
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import (
    NO_OFFSET,
    SparkSource,
    captured_sources,
    fit_sources,
    source_offsets,
    unpack_archive,
)
from pystate.runtime.plan.job_plan import JobPlan
from pystate.runtime.spark.spark_collection_source import check_collection_offset


@dataclass
class RestoredSources:
    """Where an attempt's query goes on.

    Attributes:
        spark_files: Spark's logs at the cut; empty for a start from nothing.
        batch_id: Spark's number of the batch at the cut, -1 for none.
        epoch: The epoch number that batch gets in this job.
        keep_query_id: Whether the query stays the same to sinks.
        with_state: Whether there is a snapshot, whose timers may be due.
        clock: The first epoch is one that the clock brought about, to be run again: up to when its timers fire, ms since
            1970. None where it is none.
        again: The first epoch is one of rows, to be run again.
        rows_clock: Up to when its timers fire; None where that isn't known.
    """

    spark_files: dict[str, bytes]
    batch_id: int = -1
    epoch: int = -1
    keep_query_id: bool = True
    with_state: bool = False
    clock: int | None = None
    again: bool = False
    rows_clock: int | None = None


class SourceRestore:
    """Fits the sources of snapshots to those of one job.

    Args:
        plan: The job.
        sources: The job's sources, in the order Spark reads them.
        allow_non_restored: Whether sources that the job has no more may be left behind.
        taken_over: The uids of those that go on in slots, where Spark has read them so far.
    """

    def __init__(
        self,
        plan: JobPlan,
        sources: list[SparkSource],
        *,
        allow_non_restored: bool,
        taken_over: Collection[str] = frozenset(),
    ) -> None:
        self._plan = plan
        self._sources = sources
        self._allow_non_restored = allow_non_restored
        self._taken_over = taken_over

    def nothing(self, epoch: int, running: RunningEpoch | None = None) -> RestoredSources:
        """Return the start from nothing; the first epoch's number is `epoch` + 1.

        Args:
            epoch: As said.
            running: The first epoch, to be run again.

        Raises:
            RestoreError: Its sources don't fit.
        """
        if running is None:
            return RestoredSources({}, epoch=epoch)
        files = fit_sources(running.files, self._sources, allow_non_restored=self._allow_non_restored)
        return _run_again(RestoredSources(files, epoch=running.epoch - 1), running)

    def from_snapshot(
        self, snapshot: Snapshot, epoch: int, job_id: str, running: RunningEpoch | None = None
    ) -> RestoredSources:
        """Return where a snapshot's sources go on.

        Args:
            snapshot: What to restore.
            epoch: The number that the snapshot's epoch gets in this job.
            job_id: This job; sinks see a query of its own where the snapshot is another job's.
            running: The epoch behind the snapshot, to be run again under its number.

        Raises:
            RestoreError: They don't fit.
            CorruptSnapshotError: It is damaged.
        """
        position = snapshot.metadata.source_position
        files: dict[str, bytes] = {}
        batch_id = -1
        if position is not None:
            batch_id = position.epoch
            files = unpack_archive(snapshot.location.read_whole(position.files))
            self._check_collections(files, batch_id)
        if running is not None:
            epoch = running.epoch - 1
            files = {**files, **running.files}
        if files:
            allow, taken = self._allow_non_restored, self._taken_over
            files = fit_sources(files, self._sources, allow_non_restored=allow, taken_over=taken)
        if not self._sources and self._taken_over:
            files, batch_id = {}, -1  # there is no query to go on
        keep_query_id = running is not None or snapshot.metadata.job_id == job_id
        return _run_again(RestoredSources(files, batch_id, epoch, keep_query_id=keep_query_id, with_state=True), running)

    def _check_collections(self, files: dict[str, bytes], batch: int) -> None:
        """Refuse to go on in collections that are not those that were read."""
        offsets = source_offsets(files[f"offsets/{batch}"]) if files else []
        read = {old.uid: offset for old, offset in zip(captured_sources(files), offsets, strict=True)}
        for source in self._plan.sources:
            offset = read.get(source.uid, NO_OFFSET)
            if source.step.collection is not None and offset != NO_OFFSET:
                check_collection_offset(source.step, offset)


def _run_again(restored: RestoredSources, running: RunningEpoch | None) -> RestoredSources:
    if running is None:
        return restored
    return replace(restored, clock=running.clock, again=running.clock is None, rows_clock=running.rows_clock)
