"""Where barriers stand among epochs, and which epochs wait for them: slots and Spark are replaced."""

import threading
import time

import pytest

from pystate.common.errors import CheckpointFailedError, ControlError
from pystate.core.snapshot.metadata import CheckpointType
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.checkpoint.checkpoint_request import CheckpointRequest
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.checkpoint.live_attempt import AttemptOverError
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import SparkCheckpointDirectory, unpack_archive
from tests.runtime.checkpoint.harness import SUBTASKS, FakeSlots, acknowledge, in_thread, raised
from tests.runtime.checkpoint.parts import EVERY_EPOCH
from tests.waiting import LONGEST_S, wait_until


def test_a_savepoint_of_an_idle_job_stands_at_the_last_finished_epoch_and_waits_for_no_data(bench, tmp_path):
    one = bench()
    one.epoch(0)
    completed = one.coordinator.trigger_savepoint(None, hold=False).result(LONGEST_S)
    assert (completed.epoch, completed.checkpoint_id) == (0, 1)
    assert completed.path.startswith(f"file:{tmp_path}/sp/savepoint-aaaaaa-")
    reader = SnapshotReader(completed.path)
    assert reader.metadata.source_position.epoch == 0
    assert [source["offset"] for source in reader.metadata.source_position.sources] == ['{"offset":0}']


def test_while_an_epoch_runs_the_barrier_rides_on_it_and_all_subtasks_get_the_same_answer(bench):
    one = bench()
    one.begin(0)
    future = one.coordinator.trigger_savepoint(None, hold=False)
    wait_until(lambda: not one.barriers.is_open)
    assert one.end(0).checkpoint_id == 1
    assert one.slots.snapshots == []
    for subtask in SUBTASKS:
        assert acknowledge(one.coordinator, 1, subtask) == "SUCCESS"
    assert future.result(LONGEST_S).epoch == 0


def test_a_barrier_is_too_late_for_an_epoch_that_is_told_to_finish_and_stands_after_it(bench):
    one = bench()
    one.begin(0)
    for subtask in SUBTASKS:
        one.prepared(subtask, 0)
    assert one.attempt.decide(0) is None
    future = one.coordinator.trigger_savepoint(None, hold=False)
    wait_until(lambda: not one.barriers.is_open)
    assert one.attempt.decide(0) is None, "the answer stays"
    one.finish(0)
    assert future.result(LONGEST_S).epoch == 0
    assert len(one.slots.snapshots) == 1


def test_a_barrier_that_is_to_stand_between_epochs_rides_on_the_epoch_that_is_about_to_begin(bench):
    one = bench()
    one.epoch(0)
    coordinator, barriers = one.coordinator, one.barriers
    barriers.await_turn(lambda: None)
    entry = coordinator.prepare(
        CheckpointRequest(CheckpointType.SAVEPOINT, location=coordinator._storage.savepoint_location(None))
    )
    assert coordinator.pending.wait_for_place(entry)
    # the coordinator's thread had chosen this before it was the epoch's turn
    coordinator._thread.place(entry)
    assert one.slots.snapshots == []
    one.attempt.begin(1, None)
    barriers.turn_over()
    one.spark.plan(1)
    assert one.end(1).checkpoint_id == 1
    for subtask in SUBTASKS:
        acknowledge(coordinator, 1, subtask)
    assert entry.request.future.result(LONGEST_S).epoch == 1


def test_a_savepoint_that_is_asked_for_while_an_epoch_with_its_barrier_begins_waits_for_it(bench, monkeypatch):
    one = bench(**EVERY_EPOCH)
    writing, go_on = threading.Event(), threading.Event()
    capture_running = SparkCheckpointDirectory.capture_running

    def slow(directory, batch):
        writing.set()
        go_on.wait(LONGEST_S)
        return capture_running(directory, batch)

    monkeypatch.setattr(SparkCheckpointDirectory, "capture_running", slow)
    begun = in_thread(lambda: one.begin(0))
    assert writing.wait(LONGEST_S)
    savepoint = one.coordinator.trigger_savepoint(None, hold=False)
    time.sleep(0.1)
    assert one.slots.snapshots == []
    go_on.set()
    begun.join(LONGEST_S)
    barrier = one.end(0)
    assert not barrier.savepoint
    for subtask in SUBTASKS:
        acknowledge(one.coordinator, barrier.checkpoint_id, subtask)
    assert savepoint.result(LONGEST_S).epoch == 0
    wait_until(lambda: one.coordinator.statistics()["counts"]["completed"] == 2)


def test_an_epoch_with_its_barrier_waits_for_a_savepoint_that_is_being_triggered(bench, monkeypatch):
    one = bench(**EVERY_EPOCH)
    creating, go_on = threading.Event(), threading.Event()
    create = SnapshotLocation.create

    def slow(location):
        if "savepoint" in location.uri:
            creating.set()
            go_on.wait(LONGEST_S)
        create(location)

    monkeypatch.setattr(SnapshotLocation, "create", slow)
    savepoint = one.coordinator.trigger_savepoint(None, hold=False)
    assert creating.wait(LONGEST_S)
    begun = in_thread(lambda: one.begin(0))
    begun.join(0.2)
    assert begun.is_alive()
    go_on.set()
    assert savepoint.result(LONGEST_S).epoch == -1
    begun.join(LONGEST_S)
    assert not one.end(0).savepoint


def test_the_next_epoch_waits_for_the_synchronous_part_of_a_snapshot_between_epochs(bench):
    one = bench()
    one.epoch(0)
    one.slots.block.clear()
    future = one.coordinator.trigger_savepoint(None, hold=False)
    wait_until(lambda: one.slots.snapshots)
    begun = in_thread(lambda: one.begin(1))
    begun.join(0.2)
    assert begun.is_alive()
    one.slots.block.set()
    begun.join(LONGEST_S)
    assert not begun.is_alive()
    assert future.result(LONGEST_S).epoch == 0
    one.end(1)


def test_no_epoch_begins_after_the_savepoint_of_a_stop(bench):
    one = bench()
    one.epoch(0)
    completed = one.coordinator.trigger_savepoint(None, hold=True).result(LONGEST_S)
    errors = []
    begun = in_thread(lambda: errors.append(raised(lambda: one.begin(1))))
    begun.join(0.3)
    assert begun.is_alive(), "the epoch waits"
    one.coordinator.attempt_over()
    begun.join(LONGEST_S)
    assert isinstance(errors[0], AttemptOverError)
    assert completed.epoch == 0


def test_if_the_savepoint_of_a_stop_fails_the_job_goes_on(bench):
    one = bench()
    one.epoch(0)
    one.slots.decline = True
    with pytest.raises(CheckpointFailedError):
        one.coordinator.trigger_savepoint(None, hold=True).result(LONGEST_S)
    one.slots.decline = False
    one.epoch(1)
    assert one.coordinator.trigger_savepoint(None, hold=False).result(LONGEST_S).epoch == 1


def test_what_waits_in_an_attempt_that_ends_is_told(bench):
    one = bench()
    one.begin(0)
    future = one.coordinator.trigger_savepoint(None, hold=False)
    wait_until(lambda: not one.barriers.is_open)
    one.coordinator.attempt_over()
    with pytest.raises(CheckpointFailedError, match="ended or restarted"):
        future.result(LONGEST_S)
    with pytest.raises(AttemptOverError):
        one.prepared(0, 0)


def test_a_savepoint_that_loses_against_the_end_of_the_job_says_so(bench):
    one = bench()
    one.begin(0)
    future = one.coordinator.trigger_savepoint(None, hold=False)
    wait_until(lambda: not one.barriers.is_open)
    one.coordinator.attempt_over(job_ends=True)
    with pytest.raises(CheckpointFailedError, match="The job was stopped or cancelled, or has finished, before"):
        future.result(LONGEST_S)


def test_an_epoch_that_a_subtask_never_ran_can_not_end(bench):
    one = bench()
    one.begin(0)
    one.prepared(0, 0)
    with pytest.raises(ControlError, match=r"never ran it: \[\('count', 1\)\]"):
        one.attempt.check_all_prepared(0)
    with pytest.raises(ControlError, match=r"missing are \[\('count', 1\)\]"):
        one.attempt.decide(0)


def test_progress_counts_the_records_that_subtasks_report(bench):
    one = bench()
    one.begin(0)
    for subtask in SUBTASKS:
        one.prepared(subtask, 0, rows_in=3, rows_out=2)
    one.attempt.decide(0)
    one.finish(0)
    progress = one.epochs.progress()
    assert (progress["epoch"], progress["records_in"], progress["records_out"]) == (0, 6, 4)


def test_a_late_word_of_an_attempt_that_is_over_does_not_end_the_next_one(bench):
    one = bench()
    old = one.slots
    one.coordinator.attempt_over(old)
    one.slots = FakeSlots()
    one.slots.coordinator = one.coordinator
    one.start_attempt()
    one.coordinator.attempt_over(old)
    one.epoch(0)
    assert one.coordinator.trigger_checkpoint().result(LONGEST_S).epoch == 0


def test_spark_may_delete_the_commit_of_a_checkpoints_epoch_before_its_state_is_written(bench, monkeypatch):
    one = bench()
    here, is_committed = threading.current_thread(), one.spark.directory.is_committed

    def seen_here_only(batch):  # the coordinator's own thread looks too late
        return threading.current_thread() is here and is_committed(batch)

    monkeypatch.setattr(one.spark.directory, "is_committed", seen_here_only)
    one.begin(0)
    future = one.coordinator.trigger_checkpoint()
    wait_until(lambda: not one.barriers.is_open)
    one.end(0)
    one.begin(1)  # Spark begins it after its commit of the one before
    for log in ("commits", "offsets"):
        (one.spark.root / log / "0").unlink()
    for subtask in SUBTASKS:
        acknowledge(one.coordinator, 1, subtask)
    completed = future.result(LONGEST_S)
    reader = SnapshotReader(completed.path)
    with reader.location.open(reader.metadata.source_position.files) as logs:
        assert {"commits/0", "offsets/0"} <= unpack_archive(logs.read()).keys()


def test_while_it_is_an_epochs_turn_no_barrier_is_placed_before_it(parts):
    one = parts()
    entry = one.running()
    one.barriers.await_turn(lambda: None)
    assert one.pending.wait_for_place(entry)
    assert one.barriers.place(entry) is None
    one.epochs.begin(0, None)
    one.barriers.turn_over()
    assert one.barriers.place(entry) is None
    one.prepared(0)
    assert [one.epochs.decide(0).epoch for _ in range(2)] == [0, 0]


def test_an_epoch_whose_number_can_not_be_reserved_leaves_the_turn_to_barriers(parts):
    one = parts()
    entry = one.running()

    def fail():
        raise OSError

    with pytest.raises(OSError):  # noqa: PT011
        one.barriers.await_turn(fail)
    assert one.pending.wait_for_place(entry)
    assert one.barriers.place(entry) is not None


def test_a_savepoint_in_progress_tells_for_how_long_the_epoch_has_run_that_it_waits_for(parts):
    one = parts()
    one.clock.now = 3.0
    one.in_turn(0)
    one.clock.now = 12.0
    progress = one.coordinator.savepoint_progress()
    assert (progress["waits_for_epoch"], progress["epoch_running"]) == (0, 9000)


def test_a_checkpoint_does_not_expire_while_it_waits_for_the_end_of_an_epoch_and_says_so(parts, tmp_path):
    one = parts()
    entry = one.running()
    one.in_turn(0)
    assert one.pending.wait_for_place(entry)
    one.clock.now = 10_000.0
    assert one.schedule.next_step() is None
    assert one.tracker.to_rest()["history"][0]["waits_for_epoch"] == 0
    one.prepared(0)
    one.epochs.decide(0)
    for subtask in SUBTASKS:
        one.epochs.slot_finished(subtask)
    one.epochs.subtasks_finished(0)
    one.clock.now = 20_000.0  # its sinks take their time
    assert one.schedule.next_step() is None
    (tmp_path / "spark" / "offsets" / "0").write_text('v1\n{}\n{"offset":0}')
    one.epochs.finish_epoch(0, 0)
    assert "waits_for_epoch" not in one.tracker.to_rest()["history"][0]
    one.clock.now = 20_599.0
    assert one.schedule.next_step() is None
    one.clock.now = 20_600.0
    step = one.schedule.next_step()
    assert (step.reason, step.fails_attempt) == (CheckpointFailureReason.CHECKPOINT_EXPIRED, False)


def test_the_time_of_a_checkpoint_between_epochs_runs_from_its_trigger_and_again_from_its_place(parts):
    one = parts()
    entry = one.running()
    assert one.pending.wait_for_place(entry)
    assert entry.deadline == 600.0
    one.clock.now = 5.0
    one.barriers.place(entry)
    assert entry.deadline == 605.0


def test_a_checkpoint_whose_place_in_the_sources_can_not_be_read_could_not_be_triggered(bench):
    one = bench()
    one.begin(0)
    future = one.coordinator.trigger_savepoint(None, hold=False)
    wait_until(lambda: not one.barriers.is_open)
    (one.spark.root / "offsets" / "0").unlink()
    one.end(0, commit=False)
    with pytest.raises(CheckpointFailedError):
        future.result(LONGEST_S)
    (failed,) = one.coordinator.statistics()["history"]
    assert failed["failure_message"].startswith(CheckpointFailureReason.TRIGGER_CHECKPOINT_FAILURE.message)


def test_slots_that_say_no_between_two_epochs_decline_and_those_that_can_not_be_asked_do_not(bench, monkeypatch):
    one = bench(**{"execution.checkpointing.tolerable-failed-checkpoints": "9"})
    one.slots.decline = True
    with pytest.raises(CheckpointFailedError):
        one.coordinator.trigger_checkpoint().result(LONGEST_S)

    def broken(_):
        raise RuntimeError

    monkeypatch.setattr(one.slots, "snapshot", broken)
    with pytest.raises(CheckpointFailedError, match="could not be asked"):
        one.coordinator.trigger_checkpoint().result(LONGEST_S)
    told = [failed["failure_message"].split(".")[0] for failed in one.coordinator.statistics()["history"]]
    assert told == ["The checkpoint could not be triggered", "A subtask declined the checkpoint"]


def test_the_last_epoch_waits_for_rows_that_are_to_be_run_again_which_may_begin(bench):
    one = bench()
    one.start_attempt(rows_first=True)
    last = []
    waiting = in_thread(lambda: last.append(one.attempt.begin_last()))
    waiting.join(0.2)
    assert last == []
    one.epoch(0)
    waiting.join(LONGEST_S)
    assert last == [(1, 0)]


def test_the_last_epoch_waits_for_the_one_that_runs_and_no_other_begins_after_it(bench):
    one = bench()
    one.begin(0)
    last = []
    waiting = in_thread(lambda: last.append(one.attempt.begin_last()))
    wait_until(lambda: one.barriers._drains)
    assert one.attempt._tracker.running == 0
    one.end(0)
    waiting.join(LONGEST_S)
    assert last == [(1, 0)]
    errors = []
    begun = in_thread(lambda: errors.append(raised(lambda: one.begin(2))))
    one.end(1, commit=False, batch=0)
    completed = one.coordinator.trigger_savepoint(None, hold=True).result(LONGEST_S)
    assert completed.epoch == 1, "Spark has no batch of its own for it"
    assert begun.is_alive(), "the epoch waits"
    one.coordinator.attempt_over()
    begun.join(LONGEST_S)
    assert isinstance(errors[0], AttemptOverError)
