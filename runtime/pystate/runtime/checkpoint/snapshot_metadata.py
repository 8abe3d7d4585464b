"""Writes the final files of a checkpoint: the source positions, and `_metadata` as the last one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pystate.common.configuration.sensitive_keys import without_secrets
from pystate.core.snapshot.metadata import CheckpointMetadata
from pystate.core.snapshot.metadata_file import write_metadata
from pystate.core.snapshot.operator_state import OperatorState
from pystate.core.snapshot.starting_snapshot import Snapshot
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation, snapshot_id_of
from pystate.core.state.keys.keys import KEY_ENCODING
from pystate.runtime.checkpoint.pending_checkpoint import PendingCheckpoint
from pystate.runtime.checkpoint.source_cut import SourceCut
from pystate.runtime.plan.task import TaskSpec

SOURCE_LOGS = "spark-logs"


@dataclass(frozen=True)
class JobDescription:
    """The description of the job in each of its snapshots."""

    job_id: str
    name: str
    parallelism: int
    configuration: dict[str, str]
    pystate_version: str
    spark_version: str
    code_fingerprint: str | None = None


@dataclass(frozen=True)
class Parent:
    """The reference to the snapshot that a job was started from, in the job's own snapshots.

    Attributes:
        uri: Its directory at that time.
        snapshot_id: Its short id; None if unknown.
    """

    uri: str
    snapshot_id: str | None

    @staticmethod
    def of(snapshot: Snapshot) -> Parent:
        """Return the reference to a snapshot."""
        metadata, uri = snapshot.metadata, snapshot.location.uri
        return Parent(uri, metadata.snapshot_id or snapshot_id_of(uri, metadata.job_id))


def write_snapshot(
    pending: PendingCheckpoint,
    location: SnapshotLocation,
    cut: SourceCut,
    job: JobDescription,
    tasks: list[TaskSpec],
    parent: Parent | None,
    inline_threshold: int,
    settled: Callable[[CheckpointMetadata], CheckpointMetadata] = lambda metadata: metadata,
) -> CheckpointMetadata:
    """Write the final files of a fully acknowledged checkpoint; return its metadata.

    Args:
        pending: The checkpoint, with its acknowledgements.
        location: The snapshot's directory.
        cut: The source positions.
        job: The description of the job.
        tasks: The job's tasks.
        parent: The snapshot the job was started from, or None.
        inline_threshold: Up to this many bytes of the sources' logs go into the metadata.
        settled: Replaces handles in the metadata by the final ones.

    Raises:
        PystateError: The storage failed; then there is no `_metadata`.
    """
    archive = cut.archive()
    handle = location.write_state(SOURCE_LOGS, lambda file: file.write(archive) and None, inline_threshold)
    pending.mark_source_committed(cut.position(handle))
    metadata = settled(snapshot_metadata(pending, job, tasks, parent))
    location.write_metadata(write_metadata(metadata))
    return metadata


def snapshot_metadata(
    pending: PendingCheckpoint, job: JobDescription, tasks: list[TaskSpec], parent: Parent | None
) -> CheckpointMetadata:
    """Return the content of `_metadata`."""
    operators = [state for task in tasks for state in _operator_states(pending, task)]
    return CheckpointMetadata(
        checkpoint_id=pending.checkpoint_id,
        checkpoint_type=pending.checkpoint_type,
        format=pending.format,
        timestamp_ms=pending.trigger_timestamp,
        job_id=job.job_id,
        job_name=job.name,
        epoch=pending.cut_epoch,
        parallelism=job.parallelism,
        max_parallelism=max(task.max_parallelism for task in tasks),
        operators=operators,
        source_position=pending.source_position,
        parent=None if parent is None else parent.uri,
        parent_id=None if parent is None else parent.snapshot_id,
        snapshot_id=snapshot_id_of(pending.location.uri, job.job_id),
        message=pending.message,
        code_fingerprint=job.code_fingerprint,
        configuration=without_secrets(job.configuration),
        pystate_version=job.pystate_version,
        spark_version=job.spark_version,
    )


def _operator_states(pending: PendingCheckpoint, task: TaskSpec) -> list[OperatorState]:
    """Return the state of a task's operators: of a keyed head always, of others if they have any.

    A task that stands for itself has what was in flight to it.
    """
    states = []
    if task.stands_for_itself:
        subtasks = pending.operator_states(task.uid, task.uid)
        if subtasks:
            numbers = task.parallelism, task.max_parallelism
            states.append(OperatorState(task.uid, task.name, *numbers, subtasks=subtasks))
    for operator in task.operators:
        subtasks = pending.operator_states(task.uid, operator.uid)
        key = task.key if operator is task.head else None
        if key is not None or subtasks:
            states.append(
                OperatorState(
                    uid=operator.uid,
                    name=operator.name,
                    parallelism=task.parallelism,
                    max_parallelism=task.max_parallelism,
                    key_type=None if key is None or key.key_type is None else key.key_type.to_plain(),
                    key_encoding=None if key is None else KEY_ENCODING,
                    subtasks=subtasks,
                )
            )
    return states
