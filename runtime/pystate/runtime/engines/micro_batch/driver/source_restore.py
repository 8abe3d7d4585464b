"""Turns a snapshot into the logs, batch and epoch from which Spark's query continues.

Streams must still read what the offsets in it refer to: a topic may have been deleted and recreated.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
    """The position from which an attempt's query continues.

    Attributes:
        spark_files: Spark's logs at the cut; empty for a start without a snapshot.
        batch_id: Spark's number of the batch at the cut, -1 for none.
        epoch: The epoch number of that batch in this job.
        keep_query_id: Whether sinks see the same query as before.
        with_state: Whether there is a snapshot, whose timers may be due.
        clock: If the first epoch reruns a timer epoch, the time up to which its timers fire, ms since 1970; else None.
        again: The first epoch reruns an epoch with rows.
        rows_clock: The time up to which its timers fire; None if unknown.
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
    """Maps the sources of snapshots to those of one job.

    Args:
        plan: The job's plan.
        sources: The job's sources, in the order Spark reads them.
        allow_non_restored: Whether state of sources that are no longer in the job may be dropped.
        taken_over: The uids of sources that Spark has read so far and that continue in slots.
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
        """Return the position of a start without a snapshot; the first epoch's number is `epoch` + 1.

        Args:
            epoch: The number before that of the first epoch.
            running: The epoch to rerun first.

        Raises:
            RestoreError: The sources of that epoch don't match.
        """
        if running is None:
            return RestoredSources({}, epoch=epoch)
        files = fit_sources(running.files, self._sources, allow_non_restored=self._allow_non_restored)
        return _run_again(RestoredSources(files, epoch=running.epoch - 1), running)

    def from_snapshot(
        self, snapshot: Snapshot, epoch: int, job_id: str, running: RunningEpoch | None = None
    ) -> RestoredSources:
        """Return the position from which a snapshot's sources continue.

        Args:
            snapshot: The snapshot to restore.
            epoch: The number of the snapshot's epoch in this job.
            job_id: The ID of this job; for another job's snapshot, sinks see a new query.
            running: The epoch after the snapshot, to rerun under its number.

        Raises:
            RestoreError: The sources don't match.
            CorruptSnapshotError: The snapshot is damaged.
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
            files, batch_id = {}, -1  # there is no query to continue
        keep_query_id = running is not None or snapshot.metadata.job_id == job_id
        return _run_again(RestoredSources(files, batch_id, epoch, keep_query_id=keep_query_id, with_state=True), running)

    def _check_collections(self, files: dict[str, bytes], batch: int) -> None:
        """Reject collections that differ from those that were read."""
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


IDENTITY_FILE = "sources/{}/pystate-identity"
"""A file next to Spark's own files of a stream, and so included in Spark's part of each snapshot."""


def checked_identities(plan: JobPlan, sources: Sequence[SparkSource], files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return Spark's logs, extended with the identities that their offsets refer to.

    Args:
        plan: The job's plan.
        sources: The sources of the lines in the query's offset log.
        files: Spark's logs at the cut from which an attempt continues.

    Raises:
        PystateError: The identity has changed, or the external system doesn't report it.
    """
    logs, found = {source.uid: source.log for source in sources}, dict(files)
    for source in plan.sources:
        if source.step.identity is not None:
            name = IDENTITY_FILE.format(logs[source.uid])
            found[name] = source.step.identity.check(files.get(name))
    return found
