"""Lets sources in slots continue where Spark stopped: from a snapshot of the micro-batch engine, or of an older version."""

from __future__ import annotations

from typing import Any

from pystate.common.configuration.groups.execution_options import ExecutionEngine, ExecutionOptions
from pystate.common.errors import RestoreError
from pystate.connectors.operators.source_operator import SourceOperator
from pystate.connectors.read_by_spark import GoesOnAfterSpark
from pystate.core.snapshot.starting_snapshot import Snapshot
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import (
    NO_OFFSET,
    captured_sources,
    source_log,
    source_offsets,
    unpack_archive,
)
from pystate.runtime.plan.chain import function_object
from pystate.runtime.plan.job_plan import JobPlan


def go_on_after_spark(plan: JobPlan, snapshot: Snapshot | None, *, allow_non_restored: bool) -> None:
    """Set the start positions of sources before an attempt is deployed, for a job without Spark sources.

    Args:
        plan: The job's plan.
        snapshot: The snapshot that the attempt starts from, or None.
        allow_non_restored: Whether state of sources that are no longer in the job may be dropped.

    Raises:
        RestoreError: A source was read by Spark and can't continue here, or is no longer in the job.
        CorruptSnapshotError: The snapshot is damaged.
    """
    sources = own_sources(plan)
    taken = take_over_from_spark(plan, snapshot)
    for uid, positions in _read_by_spark(snapshot).items():
        found = sources.get(uid)
        if uid in taken:
            continue
        if found is None:
            if allow_non_restored:
                continue
            message = f"The job has no source {uid!r}, of which the snapshot says how far it was read."
            hint = "give the source its old uid, or leave it behind with --allowNonRestoredState"
            raise RestoreError(message, hint=hint)
        if any(offset != NO_OFFSET for offset, _ in positions):
            message = f"The source {uid!r} was read by Spark, in batches; the real-time engine can't go on where that was."
            hint = f"set {ExecutionOptions.ENGINE.key} = {ExecutionEngine.MICRO_BATCH.value}, or give the source another uid"
            raise RestoreError(message, hint=hint)


def take_over_from_spark(plan: JobPlan, snapshot: Snapshot | None) -> set[str]:
    """Set the start positions of sources in slots that can continue where Spark stopped, before an attempt is deployed.

    Args:
        plan: The job's plan.
        snapshot: The snapshot that the attempt starts from, or None.

    Returns:
        The uids of the sources that Spark had read in the snapshot.

    Raises:
        RestoreError: A source can't continue there.
        CorruptSnapshotError: The snapshot is damaged.
    """
    sources = {uid: source for uid, source in own_sources(plan).items() if isinstance(source, GoesOnAfterSpark)}
    for source in sources.values():
        source.begin_anew()
    taken = set()
    for uid, positions in _read_by_spark(snapshot).items():
        if uid not in sources or len(positions) > 1:
            continue
        taken.add(uid)
        offset, log = positions[0]
        if offset != NO_OFFSET:
            sources[uid].go_on_after(offset, log)
    return taken


def own_sources(plan: JobPlan) -> dict[str, Any]:
    """Return a job's sources in slots by uid, each a `SourceFunction` or a `Source`."""
    return {
        task.uid: operator.source
        for task in plan.own_sources
        if task.head is not None and isinstance(operator := function_object(task.head.function), SourceOperator)
    }


def _read_by_spark(snapshot: Snapshot | None) -> dict[str, list[tuple[str, dict[str, bytes]]]]:
    """Return by source uid the offset of each of its streams, and the files of its log."""
    position = None if snapshot is None else snapshot.metadata.source_position
    if snapshot is None or position is None or position.epoch < 0:
        return {}
    files = unpack_archive(snapshot.location.read_whole(position.files))
    read: dict[str, list[tuple[str, dict[str, bytes]]]] = {}
    offsets = source_offsets(files[f"offsets/{position.epoch}"])
    for source, offset in zip(captured_sources(files), offsets, strict=True):
        read.setdefault(source.uid, []).append((offset, source_log(files, source.log)))
    return read
