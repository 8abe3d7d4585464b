"""What a snapshot says of itself and where its job comes from."""

from dataclasses import replace
from pathlib import Path

from pystate.core.snapshot.handles.handles import ByteStreamStateHandle
from pystate.core.snapshot.handles.input_channel_state import InputChannelStateHandle
from pystate.core.snapshot.metadata import CheckpointType, SavepointFormatType
from pystate.core.snapshot.operator_state import OperatorSubtaskState, TaskState
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.core.snapshot.starting_snapshot import Snapshot
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.checkpoint.pending_checkpoint import PendingCheckpoint
from pystate.runtime.checkpoint.snapshot_metadata import Parent, snapshot_metadata
from pystate.runtime.plan.job_plan import vertex_id
from pystate.runtime.plan.task import TaskInput, TaskSpec
from tests.runtime.checkpoint.harness import JOB
from tests.waiting import LONGEST_S


def test_a_savepoint_says_what_was_said_about_it_and_where_it_comes_from(bench, tmp_path):
    one = bench()
    one.epoch(0)
    completed = one.coordinator.trigger_savepoint(None, hold=False, message="before the upgrade").result(LONGEST_S)

    metadata = SnapshotReader(completed.path).metadata
    assert metadata.message == "before the upgrade"
    assert completed.path.endswith(f"savepoint-aaaaaa-{metadata.snapshot_id}")
    assert (metadata.parent, metadata.parent_id) == (None, None)
    assert metadata.code_fingerprint == JOB.code_fingerprint

    checkpoint = SnapshotReader(one.coordinator.trigger_checkpoint().result(LONGEST_S).path).metadata
    assert (checkpoint.message, checkpoint.snapshot_id) == (None, "aaaaaa-chk-2")


def test_a_snapshot_names_the_one_its_job_was_started_from(bench, tmp_path):
    first = bench()
    parent = first.coordinator.trigger_savepoint(None, hold=False).result(LONGEST_S)
    metadata = SnapshotReader(parent.path).metadata
    moved = tmp_path / "moved"
    Path(parent.path.removeprefix("file:")).rename(moved)
    task = first.coordinator._tasks[0]
    job = replace(JOB, job_id="b" * 32, code_fingerprint="c0de" * 16)
    pending = PendingCheckpoint(
        5,
        0,
        checkpoint_type=CheckpointType.SAVEPOINT,
        format=SavepointFormatType.CANONICAL,
        trigger_timestamp=0,
        tasks=[],
        location=SnapshotLocation("file:/bucket/savepoint-bbbbbb-0123456789ab"),
        message="é",
    )

    child = snapshot_metadata(
        pending, job, [task], Parent.of(Snapshot(SnapshotLocation(str(moved)), metadata, starting=True))
    )

    assert (child.parent, child.parent_id) == (f"file:{moved}", metadata.snapshot_id)
    assert (child.snapshot_id, child.message, child.code_fingerprint) == ("0123456789ab", "é", "c0de" * 16)


def test_what_was_in_flight_to_a_task_without_a_head_is_in_it():
    task = TaskSpec("frames", "ForEachBatch", vertex_id("frames"), 1, 128, [TaskInput(None)])
    location = SnapshotLocation("file:/bucket/chk-1")
    pending = PendingCheckpoint(
        1,
        0,
        checkpoint_type=CheckpointType.CHECKPOINT,
        format=SavepointFormatType.CANONICAL,
        trigger_timestamp=0,
        tasks={("frames", 0)},
        location=location,
    )
    in_flight = InputChannelStateHandle([("count", 0)], [ByteStreamStateHandle(b"12345")])
    state = TaskState({"frames": OperatorSubtaskState(input_channel_state=in_flight)})
    pending.acknowledge("frames", 0, state)

    (operator,) = snapshot_metadata(pending, JOB, [task], None).operators

    assert (operator.uid, operator.name, operator.parallelism) == ("frames", "ForEachBatch", 1)
    assert operator.subtasks[0].input_channel_state == in_flight
