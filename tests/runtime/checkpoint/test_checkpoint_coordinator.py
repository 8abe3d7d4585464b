"""The life of checkpoints, with slots and Spark replaced: what completes, what a failure leaves, who is told."""

import threading
import time
from concurrent.futures import Future

import pytest

from pystate.common.errors import CheckpointFailedError, DriverReplacedError
from pystate.common.job_status import JobStatus
from pystate.core.snapshot.metadata import SavepointFormatType
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from tests.runtime.checkpoint.harness import SUBTASKS, acknowledge, expire, in_thread
from tests.waiting import LONGEST_S, wait_until


def test_a_native_savepoint_is_asked_of_the_slots_and_says_so(bench):
    one = bench()
    native = one.coordinator.trigger_savepoint(None, hold=False, format=SavepointFormatType.NATIVE).result(LONGEST_S)
    canonical = one.coordinator.trigger_savepoint(None, hold=False).result(LONGEST_S)
    one.coordinator.trigger_checkpoint().result(LONGEST_S)
    assert [request.native for request in one.slots.snapshots] == [True, False, False]
    assert [request.shared for request in one.slots.snapshots] == [None, None, None]
    formats = [SnapshotReader(done.path).metadata.format for done in (native, canonical)]
    assert formats == [SavepointFormatType.NATIVE, SavepointFormatType.CANONICAL]


def test_listeners_hear_of_what_functions_may_commit_after(bench):
    one, heard = bench(), []
    one.coordinator.completed_listeners.append(lambda completed: heard.append(completed.checkpoint_id))
    one.coordinator.trigger_savepoint(None, hold=False).result(LONGEST_S)
    one.coordinator.trigger_checkpoint().result(LONGEST_S)
    one.coordinator.trigger_savepoint(None, hold=True).result(LONGEST_S)
    assert heard == [2, 3]


def test_a_savepoint_before_the_first_epoch_is_empty_and_complete(bench):
    completed = bench().coordinator.trigger_savepoint(None, hold=False).result(LONGEST_S)
    assert completed.epoch == -1
    assert SnapshotReader(completed.path).metadata.source_position.sources == []


def test_a_checkpoint_is_complete_only_when_spark_has_committed_its_epoch(bench):
    one = bench()
    one.begin(0)
    future = one.coordinator.trigger_savepoint(None, hold=False)
    wait_until(lambda: not one.barriers.is_open)
    one.end(0, commit=False)
    for subtask in SUBTASKS:
        acknowledge(one.coordinator, 1, subtask)
    time.sleep(0.1)
    assert not future.done()
    one.spark.commit(0)
    assert future.result(LONGEST_S).epoch == 0


@pytest.mark.parametrize("damaged", [{"state": {"count": {}}}, {"metrics": {"sync_ms": -1}}], ids=["state", "metrics"])
def test_an_acknowledgement_that_can_not_be_read_fails_the_checkpoint_at_once_and_says_whose(bench, damaged):
    one = bench()
    one.begin(0)
    future = one.coordinator.trigger_savepoint(None, hold=False)
    wait_until(lambda: not one.barriers.is_open)
    one.end(0)
    assert acknowledge(one.coordinator, 1, 1, **damaged) == "DISCARDED"
    with pytest.raises(CheckpointFailedError, match=r"(?s)damaged.*subtask 1 of 'count'"):
        future.result(LONGEST_S)


def test_a_checkpoint_that_a_newer_one_overtakes_is_subsumed_a_savepoint_is_not(bench):
    one = bench(**{"execution.checkpointing.max-concurrent-checkpoints": "3"})
    triggers = [one.coordinator.trigger_checkpoint, lambda: one.coordinator.trigger_savepoint(None, hold=False)]
    futures = []
    for epoch, trigger in enumerate([*triggers, one.coordinator.trigger_checkpoint]):
        one.begin(epoch)
        futures.append(trigger())
        wait_until(lambda: not one.barriers.is_open)
        one.end(epoch)
    *older, newest = futures
    for subtask in SUBTASKS:
        acknowledge(one.coordinator, 3, subtask)
    assert newest.result(LONGEST_S).checkpoint_id == 3
    with pytest.raises(CheckpointFailedError, match="Checkpoint 3 completed first"):
        older[0].result(LONGEST_S)
    assert not older[1].done()
    for subtask in SUBTASKS:
        acknowledge(one.coordinator, 2, subtask)
    assert older[1].result(LONGEST_S).checkpoint_id == 2


def test_a_checkpoint_whose_metadata_is_being_written_when_its_attempt_ends_is_what_the_next_attempt_starts_from(
    bench, monkeypatch
):
    one = bench()
    writing, go_on = threading.Event(), threading.Event()
    write_metadata = SnapshotLocation.write_metadata

    def slow(location, data):
        writing.set()
        go_on.wait(LONGEST_S)
        write_metadata(location, data)

    monkeypatch.setattr(SnapshotLocation, "write_metadata", slow)
    one.epoch(0)
    future = one.coordinator.trigger_checkpoint()
    assert writing.wait(LONGEST_S)
    one.coordinator.attempt_over()
    found = []
    waiting = in_thread(lambda: found.append(one.coordinator.latest_snapshot()))
    waiting.join(0.2)
    assert waiting.is_alive()
    assert not future.done()
    go_on.set()
    waiting.join(LONGEST_S)
    completed = future.result(LONGEST_S)
    assert found[0].metadata.checkpoint_id == completed.checkpoint_id
    assert SnapshotReader(completed.path)


def test_a_checkpoint_whose_metadata_can_not_be_written_keeps_nobody_waiting(bench, monkeypatch):
    one = bench()

    def broken(location, data):
        raise RuntimeError

    monkeypatch.setattr(SnapshotLocation, "write_metadata", broken)
    one.epoch(0)
    with pytest.raises(CheckpointFailedError, match="RuntimeError"):
        one.coordinator.trigger_checkpoint().result(LONGEST_S)
    one.coordinator.attempt_over()
    assert one.coordinator.latest_snapshot() is None


def test_a_checkpoint_whose_id_can_not_be_written_down_keeps_nobody_waiting_and_is_seen(bench, monkeypatch, capfd):
    one = bench()

    def unreachable():
        message = "SlowDown"
        raise OSError(message)

    with monkeypatch.context() as storage:
        storage.setattr(one.coordinator._ids, "get_and_increment", unreachable)
        with pytest.raises(CheckpointFailedError, match="The id of the next checkpoint can't be written down: SlowDown"):
            one.coordinator.trigger_savepoint(None, hold=False).result(LONGEST_S)
        with pytest.raises(CheckpointFailedError, match="SlowDown"):
            one.coordinator.trigger_checkpoint().result(LONGEST_S)
    assert one.coordinator.trigger_savepoint(None, hold=False).result(LONGEST_S).checkpoint_id == 1
    assert one.failures == []
    counts = one.coordinator.statistics()["counts"]
    assert (counts["failed"], counts["total"]) == (2, 3)
    assert capfd.readouterr().err.count("no checkpoint was triggered. The id of the next checkpoint can't be written") == 2


def test_a_failed_savepoint_leaves_nothing_after_and_does_not_fail_the_job(bench, tmp_path):
    one = bench()
    one.slots.decline = True
    with pytest.raises(CheckpointFailedError, match="no"):
        one.coordinator.trigger_savepoint(None, hold=False).result(LONGEST_S)
    wait_until(lambda: list((tmp_path / "sp").iterdir()) == [])
    assert one.failures == []
    assert one.coordinator.statistics()["counts"]["failed"] == 1


def test_a_failed_checkpoint_fails_the_attempt_when_none_is_tolerated(bench):
    one = bench()
    one.slots.decline = True
    with pytest.raises(CheckpointFailedError):
        one.coordinator.trigger_checkpoint().result(LONGEST_S)
    wait_until(lambda: one.failures)


def test_an_expired_checkpoint_fails_and_what_comes_late_is_deleted(bench, tmp_path):
    one = bench(**{"execution.checkpointing.tolerable-failed-checkpoints": "5"})
    one.begin(0)
    future = one.coordinator.trigger_checkpoint()
    wait_until(lambda: not one.barriers.is_open)
    barrier = one.end(0)
    expire(one)
    with pytest.raises(CheckpointFailedError, match=r"did not complete within 600 s\. Missing: subtask \d of "):
        future.result(LONGEST_S)
    late = tmp_path / "ck" / ("a" * 32) / "chk-1"
    wait_until(lambda: not late.exists())
    late.mkdir()
    (late / "state").write_text("late")
    assert acknowledge(one.coordinator, barrier.checkpoint_id, 0) == "UNKNOWN"
    wait_until(lambda: not late.exists())


def test_periodic_checkpoints_come_by_themselves_and_only_the_newest_is_kept(bench, tmp_path):
    one = bench(**{"execution.checkpointing.interval": "20 ms"})
    barrier = one.epoch(0)
    for subtask in SUBTASKS if barrier is not None else ():  # the first one may be due while the epoch runs
        acknowledge(one.coordinator, barrier.checkpoint_id, subtask)
    wait_until(lambda: one.coordinator.statistics()["counts"]["completed"] >= 3)
    kept = sorted(path.name for path in (tmp_path / "ck" / ("a" * 32)).iterdir() if path.name.startswith("chk-"))
    assert len(kept) <= 2, "the newest, and the one under way"


def test_a_new_attempt_starts_from_the_latest_checkpoint_never_from_a_savepoint(bench):
    one = bench()
    one.epoch(0)
    one.coordinator.trigger_checkpoint().result(LONGEST_S)
    one.epoch(1)
    one.coordinator.trigger_savepoint(None, hold=False).result(LONGEST_S)
    assert one.coordinator.latest_snapshot().metadata.epoch == 0


def test_a_job_that_ends_deletes_its_checkpoints_unless_told_to_retain_them(bench, tmp_path):
    one = bench(**{"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"})
    one.epoch(0)
    path = one.coordinator.trigger_checkpoint().result(LONGEST_S).path
    one.coordinator.close(JobStatus.CANCELED)
    assert SnapshotReader(path).metadata.epoch == 0


@pytest.mark.parametrize(
    ("status", "failed", "said"),
    [
        (JobStatus.CANCELED, 0, "The job was stopped or cancelled, or has finished, before"),
        (JobStatus.FINISHED, 0, "The job was stopped or cancelled, or has finished, before"),
        (JobStatus.FAILED, 1, "The job ended or restarted before"),
    ],
)
def test_a_checkpoint_under_way_when_the_job_ends_has_failed_only_if_the_job_has(bench, status, failed, said):
    one = bench()
    one.begin(0)
    future = one.coordinator.trigger_checkpoint()
    wait_until(lambda: not one.barriers.is_open)
    one.coordinator.close(status)
    with pytest.raises(CheckpointFailedError, match=said):
        future.result(LONGEST_S)
    statistics = one.coordinator.statistics()
    assert (statistics["counts"]["failed"], statistics["counts"]["total"]) == (failed, failed)
    assert len(statistics["history"]) == failed
    assert statistics["counts"]["in_progress"] == 0


def test_a_savepoint_that_a_cancel_has_given_up_is_listed(bench):
    one = bench()
    one.begin(0)
    one.coordinator.trigger_savepoint(None, hold=False)
    wait_until(lambda: not one.barriers.is_open)
    one.coordinator.close(JobStatus.CANCELED)
    assert one.coordinator.statistics()["counts"]["failed"] == 1


def test_cancelled_without_retention_nothing_is_left_and_the_checkpoint_is_listed_as_deleted(bench, tmp_path):
    one = bench()
    one.epoch(0)
    one.coordinator.trigger_checkpoint().result(LONGEST_S)
    assert [listed["discarded"] for listed in one.coordinator.statistics()["history"]] == [False]
    one.coordinator.close(JobStatus.CANCELED)
    assert [listed["discarded"] for listed in one.coordinator.statistics()["history"]] == [True]
    assert [path.name for path in (tmp_path / "ck" / ("a" * 32)).iterdir() if path.name.startswith("chk")] == []


def test_functions_hear_of_a_checkpoint_once_its_metadata_is_there_and_whoever_asked_for_it_after_them(bench):
    one = bench()
    one.epoch(0)
    one.slots.telling = Future()
    future = one.coordinator.trigger_checkpoint()
    wait_until(lambda: one.slots.told == [(1, True)])
    assert one.coordinator.latest_snapshot().location.exists
    time.sleep(0.05)
    assert not future.done()
    (listed,) = one.coordinator.statistics()["history"]
    assert listed["completion_timestamp"] >= listed["latest_ack_timestamp"]
    assert "notification_timestamp" not in listed
    one.slots.telling.set_result(True)
    assert future.result(LONGEST_S).heard
    (listed,) = one.coordinator.statistics()["history"]
    assert listed["notification_timestamp"] >= listed["completion_timestamp"]


def test_a_slot_that_is_lost_while_functions_are_told_holds_nobody_up(bench):
    one = bench()
    one.epoch(0)
    one.slots.telling = Future()
    future = one.coordinator.trigger_checkpoint()
    wait_until(lambda: one.slots.told == [(1, True)])
    one.slots.telling.cancel()
    assert not future.result(LONGEST_S).heard
    assert "notification_timestamp" not in one.coordinator.statistics()["history"][0]


def test_functions_hear_of_a_savepoint_only_if_the_job_ends_at_it(bench):
    one = bench()
    one.epoch(0)
    one.coordinator.trigger_savepoint(None, hold=False).result(LONGEST_S)
    assert one.slots.told == []
    one.coordinator.trigger_savepoint(None, hold=True).result(LONGEST_S)
    assert one.slots.told == [(2, True)]


def test_functions_hear_of_a_checkpoint_that_was_given_up(bench):
    one = bench()
    one.epoch(0)
    one.slots.decline = True
    with pytest.raises(CheckpointFailedError):
        one.coordinator.trigger_checkpoint().result(LONGEST_S)
    assert one.slots.told == [(1, False)]


def test_a_completed_checkpoint_of_somebody_else_is_neither_overwritten_nor_deleted(bench, tmp_path):
    one = bench(**{"execution.checkpointing.create-subdir": "false"})
    foreign = SnapshotLocation(str(tmp_path / "ck" / "chk-1"))
    foreign.create()
    foreign.write_metadata(b"somebody else's")
    with pytest.raises(CheckpointFailedError, match="not overwritten"):
        one.coordinator.trigger_checkpoint().result(LONGEST_S)
    assert foreign.read_metadata() == b"somebody else's"

    # at the last moment, too
    write_metadata = SnapshotLocation.write_metadata
    one.epoch(0)
    with pytest.MonkeyPatch.context() as patched:
        calls = []

        def first_overtaken(location, data):
            if not calls:
                calls.append(location)
                write_metadata(SnapshotLocation(location.uri), b"the other's")
            write_metadata(location, data)

        patched.setattr(SnapshotLocation, "write_metadata", first_overtaken)
        with pytest.raises(CheckpointFailedError, match="two drivers"):
            one.coordinator.trigger_checkpoint().result(LONGEST_S)
    assert SnapshotLocation(str(tmp_path / "ck" / "chk-2")).read_metadata() == b"the other's"


def replaced():
    message = "Another driver has taken the job over."
    raise DriverReplacedError(message)


def test_a_driver_that_was_replaced_shows_its_epoch_to_no_sink_and_begins_no_checkpoint(bench):
    one = bench()
    one.epoch(0)
    one.coordinator.check_term = replaced
    one.begin(1)
    for subtask in SUBTASKS:
        one.prepared(subtask, 1)
    with pytest.raises(DriverReplacedError):
        one.attempt.check_all_prepared(1)
    with pytest.raises(CheckpointFailedError, match="Another driver"):
        one.coordinator.trigger_checkpoint().result(LONGEST_S)
    wait_until(lambda: one.failures)
    assert "Another driver" in one.failures[0].message


def test_a_driver_that_is_replaced_while_a_checkpoint_is_under_way_does_not_complete_it(bench):
    one = bench()
    one.begin(0)
    future = one.coordinator.trigger_checkpoint()
    wait_until(lambda: not one.barriers.is_open)
    barrier = one.end(0)
    one.coordinator.check_term = replaced
    for subtask in SUBTASKS:
        acknowledge(one.coordinator, barrier.checkpoint_id, subtask)
    with pytest.raises(CheckpointFailedError, match="Another driver"):
        future.result(LONGEST_S)
    assert one.coordinator.latest_snapshot() is None
    wait_until(lambda: one.failures)


def test_a_driver_that_was_replaced_does_not_write_down_an_epoch_that_is_to_be_run_again(bench, tmp_path):
    one = bench(**{"execution.checkpointing.every-epoch": "true"})
    one.coordinator.check_term = replaced
    with pytest.raises(DriverReplacedError):
        one.begin(0)
    assert one.epochs.running_epoch(None) is None


def test_an_epoch_asks_for_the_term_once(bench):
    one = bench()
    one.epoch(0)
    asked = []
    one.coordinator.check_term = lambda: asked.append(True)
    one.begin(1)
    assert asked == []
    for subtask in SUBTASKS:
        one.prepared(subtask, 1)
    one.attempt.check_all_prepared(1)
    one.attempt.decide(1)
    one.finish(1)
    assert asked == [True]
