from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pystate.core.snapshot.handles.handles import ByteStreamStateHandle
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.metadata import CheckpointMetadata, CheckpointType, SavepointFormatType
from pystate.core.snapshot.operator_state import OperatorSubtaskState, TaskState
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.checkpoint.pending_checkpoint import AckResult, PendingCheckpoint

TASKS = {("count", 0), ("count", 1), ("map", 0)}


def state(data: bytes, uid: str = "count") -> TaskState:
    handle = KeyedStateHandle(0, 1, "canonical", ByteStreamStateHandle(data))
    return TaskState({uid: OperatorSubtaskState([handle])})


def pending(**changes: Any) -> PendingCheckpoint:
    values: dict[str, Any] = {
        "checkpoint_id": 7,
        "epoch": 41,
        "checkpoint_type": CheckpointType.CHECKPOINT,
        "format": SavepointFormatType.CANONICAL,
        "trigger_timestamp": 900,
        "tasks": TASKS,
        "location": SnapshotLocation("memory://c/chk-7"),
    }
    return PendingCheckpoint(**(values | changes))


def acknowledge_all(checkpoint: PendingCheckpoint) -> None:
    for uid, subtask in TASKS:
        assert checkpoint.acknowledge(uid, subtask, state(b"xx")) is AckResult.SUCCESS


@pytest.fixture
def metadata(make_metadata: Callable[..., CheckpointMetadata]) -> CheckpointMetadata:
    return make_metadata(checkpoint_id=7, epoch=41)


def test_it_collects_what_subtasks_acknowledge() -> None:
    checkpoint = pending()
    assert checkpoint.acknowledge("count", 1, state(b"abc")) is AckResult.SUCCESS
    assert (checkpoint.acknowledged_count, checkpoint.total_count, checkpoint.state_size) == (1, 3, 3)
    assert checkpoint.missing == {("count", 0), ("map", 0)}
    assert checkpoint.operator_states("count", "count") == {1: state(b"abc").operators["count"]}
    assert checkpoint.operator_states("count", "chained") == {}
    assert checkpoint.operator_states("other", "count") == {}
    assert not checkpoint.is_fully_acknowledged


def test_a_repeated_acknowledgement_changes_nothing() -> None:
    checkpoint = pending()
    checkpoint.acknowledge("count", 1, state(b"abc"))
    assert checkpoint.acknowledge("count", 1, state(b"other")) is AckResult.DUPLICATE
    assert checkpoint.operator_states("count", "count") == {1: state(b"abc").operators["count"]}
    assert checkpoint.state_size == 3


@pytest.mark.parametrize(("uid", "subtask"), [("count", 2), ("other", 0)])
def test_an_acknowledgement_of_nobody_is_unknown(uid: str, subtask: int) -> None:
    checkpoint = pending()
    assert checkpoint.acknowledge(uid, subtask, state(b"")) is AckResult.UNKNOWN
    assert checkpoint.acknowledged_count == 0


def test_it_completes_when_all_acknowledged_and_the_source_is_committed(metadata: CheckpointMetadata) -> None:
    checkpoint = pending()
    acknowledge_all(checkpoint)
    assert checkpoint.is_fully_acknowledged
    assert not checkpoint.is_ready
    with pytest.raises(ValueError, match="source position unknown"):
        checkpoint.complete(metadata, 2000)
    checkpoint.mark_source_committed(metadata.source_position)
    assert checkpoint.is_ready
    assert checkpoint.source_position == metadata.source_position
    assert checkpoint.complete(metadata, 2000) == CompletedCheckpoint(metadata, "memory://c/chk-7", 2000)


def test_the_source_may_be_committed_before_the_last_acknowledgement(metadata: CheckpointMetadata) -> None:
    checkpoint = pending()
    checkpoint.mark_source_committed(metadata.source_position)
    with pytest.raises(ValueError, match="0 of 3 subtasks"):
        checkpoint.complete(metadata, 2000)
    acknowledge_all(checkpoint)
    assert checkpoint.is_ready


def test_it_completes_without_an_epoch_where_an_engine_has_none(make_metadata: Callable[..., CheckpointMetadata]) -> None:
    checkpoint = pending(epoch=None)
    acknowledge_all(checkpoint)
    assert not checkpoint.is_ready
    checkpoint.mark_source_committed(None)
    assert checkpoint.is_ready
    assert checkpoint.barrier((None, ""), 0).epoch is None
    assert checkpoint.complete(make_metadata(checkpoint_id=7, epoch=-1), 2000).epoch == -1


def test_another_checkpoints_metadata_is_refused(make_metadata: Callable[..., CheckpointMetadata]) -> None:
    checkpoint = pending()
    acknowledge_all(checkpoint)
    checkpoint.mark_source_committed(None)
    for wrong in (make_metadata(checkpoint_id=8, epoch=41), make_metadata(checkpoint_id=7, epoch=40)):
        with pytest.raises(ValueError, match="not that of 7"):
            checkpoint.complete(wrong, 2000)


def test_after_an_abort_late_acknowledgements_are_discarded(metadata: CheckpointMetadata) -> None:
    checkpoint = pending()
    checkpoint.acknowledge("map", 0, state(b"1"))
    assert checkpoint.abort(CheckpointFailureReason.CHECKPOINT_EXPIRED)
    assert checkpoint.acknowledge("count", 0, state(b"1")) is AckResult.DISCARDED
    assert not checkpoint.abort(CheckpointFailureReason.CHECKPOINT_SUBSUMED)
    assert checkpoint.failure_reason is CheckpointFailureReason.CHECKPOINT_EXPIRED
    assert checkpoint.missing == {("count", 0), ("count", 1)}
    with pytest.raises(ValueError, match="CHECKPOINT_EXPIRED"):
        checkpoint.complete(metadata, 2000)


def test_a_completed_checkpoint_is_over(metadata: CheckpointMetadata) -> None:
    checkpoint = pending()
    acknowledge_all(checkpoint)
    checkpoint.mark_source_committed(None)
    checkpoint.complete(metadata, 2000)
    assert checkpoint.acknowledge("map", 0, state(b"")) is AckResult.DISCARDED
    assert not checkpoint.abort(CheckpointFailureReason.CHECKPOINT_EXPIRED)
    with pytest.raises(ValueError, match="it is complete"):
        checkpoint.complete(metadata, 2000)


def test_a_job_without_subtasks_waits_for_the_source_alone() -> None:
    checkpoint = pending(tasks=())
    assert not checkpoint.is_ready
    checkpoint.mark_source_committed(None)
    assert checkpoint.is_ready


def test_a_subtask_hangs_that_neither_acknowledges_nor_is_in_a_slot_that_answers() -> None:
    checkpoint = pending(tasks=[(uid, slot) for uid in ("count", "map") for slot in range(3)])
    assert checkpoint.deadlines(10) == []
    checkpoint.hand_out(100.0)
    assert checkpoint.deadlines(10) == [110.0]
    checkpoint.slot_answered(0)
    checkpoint.acknowledge("count", 1, state(b""))
    assert checkpoint.failure(109.0, 10, syncing=False) is None
    reason, error, hangs = checkpoint.failure(110.0, 10, syncing=False) or (None, None, None)
    assert (reason, hangs) == (CheckpointFailureReason.CHECKPOINT_EXPIRED, True)
    assert "Missing: subtask 2 of 'count', subtask 1 of 'map', subtask 2 of 'map'." in str(error)
    checkpoint.slot_answered(1)
    checkpoint.slot_answered(2)
    assert checkpoint.failure(200.0, 10, syncing=False) is None
    assert checkpoint.deadlines(10) == []
