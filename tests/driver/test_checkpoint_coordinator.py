"""The coordinator with slots and Spark replaced: where barriers stand, what completes, what a failure leaves."""

import threading
import time
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from pystate.checkpoint.metadata import CheckpointType, SavepointFormatType, TaskState
from pystate.checkpoint.pending_checkpoint import PendingCheckpoint
from pystate.checkpoint.reader import SnapshotReader
from pystate.checkpoint.stats import SubtaskCheckpointMetrics
from pystate.checkpoint.storage import SnapshotLocation
from pystate.common import Types
from pystate.common.configuration import Configuration
from pystate.common.errors import CheckpointFailedError, ControlError, DriverReplacedError
from pystate.common.job_status import JobStatus
from pystate.driver.checkpoint_coordinator import CheckpointCoordinator
from pystate.driver.epoch_numbers import EpochNumbers
from pystate.driver.epoch_tracker import AttemptOverError
from pystate.driver.restored_state import Snapshot
from pystate.driver.running_checkpoint import CheckpointRequest
from pystate.driver.slot_calls import answer_slot_call
from pystate.driver.snapshot_metadata import JobDescription, Parent, snapshot_metadata
from pystate.slot.records import KeyColumn
from pystate.slot.task import TaskInput, TaskSpec
from pystate.spark.job_plan import vertex_id
from pystate.spark.spark_checkpoint import SparkCheckpointDirectory, SparkSource

JOB = JobDescription("a" * 32, "job", 2, {}, "0", "4.3.0")
SUBTASKS = [0, 1]


class FakeSpark:
    """Spark's side: a checkpoint directory that a test fills batch by batch."""

    def __init__(self, root):
        self.root = root
        self.directory = SparkCheckpointDirectory(root, [SparkSource("source", 0, 0)])
        for log in ("offsets", "commits"):
            (root / log).mkdir(parents=True)
        (root / "metadata").write_text('{"id":"query"}')

    def plan(self, batch):
        (self.root / "offsets" / str(batch)).write_text(f'v1\n{{}}\n{{"offset":{batch}}}')

    def commit(self, batch):
        (self.root / "commits" / str(batch)).write_text("v1\n{}")


class FakeSlots:
    """The slots: snapshots between epochs are acknowledged, or declined."""

    def __init__(self):
        self.coordinator = None
        self.snapshots = []
        self.decline = False
        self.block = threading.Event()
        self.block.set()
        self.told = []
        self.telling = None  # a future that holds a notification back

    def notify(self, checkpoint_id, *, completed):
        self.told.append((checkpoint_id, completed))
        done = self.telling or Future()
        if self.telling is None:
            done.set_result(None)
        return done

    def snapshot(self, request):
        self.snapshots.append(request)
        self.block.wait(10)
        if self.decline:
            message = "no"
            raise ControlError(message)
        for subtask in SUBTASKS:
            acknowledge(self.coordinator, request.checkpoint_id, subtask)


def acknowledge(coordinator, checkpoint_id, subtask):
    metrics = SubtaskCheckpointMetrics(
        ack_timestamp=int(time.time() * 1000),
        sync_ms=1,
        async_ms=2,
        start_delay_ms=3,
        alignment_ms=None,
        checkpointed_size=0,
        state_size=0,
    )
    arguments = {"uid": "count", "subtask": subtask, "checkpoint_id": checkpoint_id}
    state = TaskState().to_plain()
    return answer_slot_call(coordinator, "acknowledge", {**arguments, "state": state, "metrics": metrics.to_plain()})


class Bench:
    def __init__(self, tmp_path, options):
        defaults = {
            "execution.checkpointing.dir": str(tmp_path / "ck"),
            "execution.checkpointing.savepoint-dir": str(tmp_path / "sp"),
        }
        self.spark = FakeSpark(tmp_path / "spark")
        self.slots = FakeSlots()
        self.failures = []
        self.coordinator = CheckpointCoordinator(
            JOB,
            Configuration({**defaults, **options}),
            EpochNumbers(tmp_path / "epochs.json"),
            tmp_path / "checkpoints.json",
        )
        self.slots.coordinator = self.coordinator
        task = TaskSpec(
            uid="count",
            name="count",
            vertex_id=vertex_id("count"),
            parallelism=2,
            max_parallelism=128,
            inputs=[TaskInput(Types.STRING(), KeyColumn("value", Types.STRING()))],
        )
        self.coordinator.start([task], None)
        self.start_attempt()

    def start_attempt(self):
        self.coordinator.attempt_started(self.slots, self.spark.directory, -1, -1, self.failures.append)

    def ask(self, subtask, epoch):
        arguments = {"uid": "count", "subtask": subtask, "epoch": epoch, "stage": 7}
        return answer_slot_call(self.coordinator, "epoch_decision", arguments)

    def finished(self, subtask, epoch):
        arguments = {"uid": "count", "subtask": subtask, "epoch": epoch, "rows_in": 0, "rows_out": 0, "busy_ms": 0}
        answer_slot_call(self.coordinator, "epoch_finished", arguments)

    def begin(self, epoch):
        self.spark.plan(epoch)
        self.coordinator.begin_epoch(epoch, epoch)

    def end(self, epoch, commit=True):
        decisions = [self.ask(subtask, epoch) for subtask in SUBTASKS]
        for subtask in SUBTASKS:
            self.finished(subtask, epoch)
        self.coordinator.finish_epoch(epoch, epoch)
        if commit:
            self.spark.commit(epoch)
        return decisions

    def epoch(self, number):
        self.begin(number)
        return self.end(number)


@pytest.fixture
def bench(tmp_path):
    made = []

    def make(**options):
        made.append(Bench(tmp_path, {key.replace("__", "-"): value for key, value in options.items()}))
        return made[-1]

    yield make
    for one in made:
        one.slots.block.set()
        one.coordinator.close(JobStatus.CANCELED)


def test_a_savepoint_of_an_idle_job_stands_at_the_last_finished_epoch_and_waits_for_no_data(bench, tmp_path):
    one = bench()
    one.epoch(0)
    completed = one.coordinator.trigger_savepoint(None, hold=False).result(10)
    assert (completed.epoch, completed.checkpoint_id) == (0, 1)
    assert completed.path.startswith(f"file:{tmp_path}/sp/savepoint-aaaaaa-")
    reader = SnapshotReader(completed.path)
    assert reader.metadata.source_position.epoch == 0
    assert [source["offset"] for source in reader.metadata.source_position.sources] == ['{"offset":0}']


def test_a_native_savepoint_is_asked_of_the_slots_and_says_so(bench):
    one = bench()
    native = one.coordinator.trigger_savepoint(None, hold=False, format=SavepointFormatType.NATIVE).result(10)
    canonical = one.coordinator.trigger_savepoint(None, hold=False).result(10)
    one.coordinator.trigger_checkpoint().result(10)
    assert [request.native for request in one.slots.snapshots] == [True, False, False]
    assert [request.shared for request in one.slots.snapshots] == [None, None, None]
    formats = [SnapshotReader(done.path).metadata.format for done in (native, canonical)]
    assert formats == [SavepointFormatType.NATIVE, SavepointFormatType.CANONICAL]


def test_a_savepoint_before_the_first_epoch_is_empty_and_complete(bench):
    completed = bench().coordinator.trigger_savepoint(None, hold=False).result(10)
    assert completed.epoch == -1
    assert SnapshotReader(completed.path).metadata.source_position.sources == []


def test_while_an_epoch_runs_the_barrier_rides_on_it_and_all_subtasks_get_the_same_answer(bench):
    one = bench()
    one.begin(0)
    future = one.coordinator.trigger_savepoint(None, hold=False)
    wait_until(lambda: one.coordinator._running.rider is not None)
    decisions = one.end(0)
    assert [decision["checkpoint_id"] for decision in decisions] == [1, 1]
    assert one.slots.snapshots == []
    for subtask in SUBTASKS:
        assert acknowledge(one.coordinator, 1, subtask) == "SUCCESS"
    assert future.result(10).epoch == 0


def test_a_barrier_is_too_late_for_an_epoch_that_a_subtask_has_ended_and_stands_behind_it(bench):
    one = bench()
    one.begin(0)
    assert one.ask(0, 0) is None
    one.finished(0, 0)
    future = one.coordinator.trigger_savepoint(None, hold=False)
    wait_until(lambda: one.coordinator._running.rider is not None)
    assert one.ask(1, 0) is None, "the other subtask gets the answer of the first"
    one.finished(1, 0)
    one.coordinator.finish_epoch(0, 0)
    one.spark.commit(0)
    assert future.result(10).epoch == 0
    assert len(one.slots.snapshots) == 1


def test_a_checkpoint_is_complete_only_when_spark_has_committed_its_epoch(bench):
    one = bench()
    one.begin(0)
    future = one.coordinator.trigger_savepoint(None, hold=False)
    wait_until(lambda: one.coordinator._running.rider is not None)
    one.end(0, commit=False)
    for subtask in SUBTASKS:
        acknowledge(one.coordinator, 1, subtask)
    time.sleep(0.1)
    assert not future.done()
    one.spark.commit(0)
    assert future.result(10).epoch == 0


def test_a_checkpoint_that_a_newer_one_overtakes_is_subsumed_a_savepoint_is_not(bench):
    one = bench(**{"execution.checkpointing.max-concurrent-checkpoints": "3"})
    triggers = [one.coordinator.trigger_checkpoint, lambda: one.coordinator.trigger_savepoint(None, hold=False)]
    futures = []
    for epoch, trigger in enumerate([*triggers, one.coordinator.trigger_checkpoint]):
        one.begin(epoch)
        futures.append(trigger())
        wait_until(lambda: one.coordinator._running.rider is not None)
        one.end(epoch)
    *older, newest = futures
    for subtask in SUBTASKS:
        acknowledge(one.coordinator, 3, subtask)
    assert newest.result(10).checkpoint_id == 3
    with pytest.raises(CheckpointFailedError, match="Checkpoint 3 completed first"):
        older[0].result(10)
    assert not older[1].done()
    for subtask in SUBTASKS:
        acknowledge(one.coordinator, 2, subtask)
    assert older[1].result(10).checkpoint_id == 2


def test_a_checkpoint_whose_metadata_is_being_written_when_its_attempt_ends_is_what_the_next_attempt_starts_from(
    bench, monkeypatch
):
    one = bench()
    writing, go_on = threading.Event(), threading.Event()
    write_metadata = SnapshotLocation.write_metadata

    def slow(location, data):
        writing.set()
        go_on.wait(10)
        write_metadata(location, data)

    monkeypatch.setattr(SnapshotLocation, "write_metadata", slow)
    one.epoch(0)
    future = one.coordinator.trigger_checkpoint()
    assert writing.wait(10)
    one.coordinator.attempt_over()
    found = []
    waiting = in_thread(lambda: found.append(one.coordinator.latest_snapshot()))
    waiting.join(0.2)
    assert waiting.is_alive()
    assert not future.done()
    go_on.set()
    waiting.join(10)
    completed = future.result(10)
    assert found[0].metadata.checkpoint_id == completed.checkpoint_id
    assert SnapshotReader(completed.path)


def test_a_checkpoint_whose_metadata_can_not_be_written_keeps_nobody_waiting(bench, monkeypatch):
    one = bench()

    def broken(location, data):
        raise RuntimeError

    monkeypatch.setattr(SnapshotLocation, "write_metadata", broken)
    one.epoch(0)
    with pytest.raises(CheckpointFailedError, match="RuntimeError"):
        one.coordinator.trigger_checkpoint().result(10)
    one.coordinator.attempt_over()
    assert one.coordinator.latest_snapshot() is None


EVERY_EPOCH = {"execution.checkpointing.every-epoch": "true"}


def test_a_barrier_that_is_to_stand_between_epochs_rides_on_the_epoch_that_is_about_to_begin(bench):
    one = bench()
    one.epoch(0)
    coordinator = one.coordinator
    with coordinator._lock:
        coordinator._beginning = True
        entry = coordinator._prepared(
            CheckpointRequest(CheckpointType.SAVEPOINT, location=coordinator._storage.savepoint_location(None))
        )
        coordinator._running.add_rider(entry)
        # the loop had chosen this before the epoch was about to begin
        coordinator._snapshot_between_epochs(entry)
        assert one.slots.snapshots == []
        coordinator._live_tracker().begin(1)
        coordinator._beginning = False
    one.spark.plan(1)
    assert [decision["checkpoint_id"] for decision in one.end(1)] == [1, 1]
    for subtask in SUBTASKS:
        acknowledge(coordinator, 1, subtask)
    assert entry.request.future.result(10).epoch == 1


def test_a_savepoint_that_is_asked_for_while_an_epoch_with_its_barrier_begins_waits_for_it(bench, monkeypatch):
    one = bench(**EVERY_EPOCH)
    writing, go_on = threading.Event(), threading.Event()
    capture_running = SparkCheckpointDirectory.capture_running

    def slow(directory, batch):
        writing.set()
        go_on.wait(10)
        return capture_running(directory, batch)

    monkeypatch.setattr(SparkCheckpointDirectory, "capture_running", slow)
    begun = in_thread(lambda: one.begin(0))
    assert writing.wait(10)
    savepoint = one.coordinator.trigger_savepoint(None, hold=False)
    time.sleep(0.1)
    assert one.slots.snapshots == []
    go_on.set()
    begun.join(10)
    decisions = one.end(0)
    assert [decision["savepoint"] for decision in decisions] == [False, False]
    for subtask in SUBTASKS:
        acknowledge(one.coordinator, decisions[0]["checkpoint_id"], subtask)
    assert savepoint.result(10).epoch == 0
    wait_until(lambda: one.coordinator.statistics()["counts"]["completed"] == 2)


def test_an_epoch_with_its_barrier_waits_for_a_savepoint_that_is_being_triggered(bench, monkeypatch):
    one = bench(**EVERY_EPOCH)
    creating, go_on = threading.Event(), threading.Event()
    create = SnapshotLocation.create

    def slow(location):
        if "savepoint" in location.uri:
            creating.set()
            go_on.wait(10)
        create(location)

    monkeypatch.setattr(SnapshotLocation, "create", slow)
    savepoint = one.coordinator.trigger_savepoint(None, hold=False)
    assert creating.wait(10)
    begun = in_thread(lambda: one.begin(0))
    begun.join(0.2)
    assert begun.is_alive()
    go_on.set()
    assert savepoint.result(10).epoch == -1
    begun.join(10)
    decisions = one.end(0)
    assert [decision["savepoint"] for decision in decisions] == [False, False]


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
    begun.join(10)
    assert not begun.is_alive()
    assert future.result(10).epoch == 0
    one.end(1)


def test_no_epoch_begins_behind_the_savepoint_of_a_stop(bench):
    one = bench()
    one.epoch(0)
    completed = one.coordinator.trigger_savepoint(None, hold=True).result(10)
    errors = []
    begun = in_thread(lambda: errors.append(raised(lambda: one.begin(1))))
    begun.join(0.3)
    assert begun.is_alive(), "the epoch waits"
    one.coordinator.attempt_over()
    begun.join(10)
    assert isinstance(errors[0], AttemptOverError)
    assert completed.epoch == 0


def test_if_the_savepoint_of_a_stop_fails_the_job_goes_on(bench):
    one = bench()
    one.epoch(0)
    one.slots.decline = True
    with pytest.raises(CheckpointFailedError):
        one.coordinator.trigger_savepoint(None, hold=True).result(10)
    one.slots.decline = False
    one.epoch(1)
    assert one.coordinator.trigger_savepoint(None, hold=False).result(10).epoch == 1


def test_a_failed_savepoint_leaves_nothing_behind_and_does_not_fail_the_job(bench, tmp_path):
    one = bench()
    one.slots.decline = True
    with pytest.raises(CheckpointFailedError, match="no"):
        one.coordinator.trigger_savepoint(None, hold=False).result(10)
    assert list((tmp_path / "sp").iterdir()) == []
    assert one.failures == []
    assert one.coordinator.statistics()["counts"]["failed"] == 1


def test_a_failed_checkpoint_fails_the_attempt_when_none_is_tolerated(bench):
    one = bench()
    one.slots.decline = True
    with pytest.raises(CheckpointFailedError):
        one.coordinator.trigger_checkpoint().result(10)
    wait_until(lambda: one.failures)


def test_an_expired_checkpoint_fails_and_what_comes_late_is_deleted(bench, tmp_path):
    one = bench(**{"execution.checkpointing.timeout": "100 ms", "execution.checkpointing.tolerable-failed-checkpoints": "5"})
    one.begin(0)
    future = one.coordinator.trigger_checkpoint()
    wait_until(lambda: one.coordinator._running.rider is not None)
    (decision, _) = one.end(0)
    with pytest.raises(CheckpointFailedError, match=r"did not complete within 0\.1 s"):
        future.result(10)
    late = tmp_path / "ck" / ("a" * 32) / "chk-1"
    late.mkdir()
    (late / "state").write_text("late")
    assert acknowledge(one.coordinator, decision["checkpoint_id"], 0) == "UNKNOWN"
    wait_until(lambda: not late.exists())


def test_periodic_checkpoints_come_by_themselves_and_only_the_newest_is_kept(bench, tmp_path):
    one = bench(**{"execution.checkpointing.interval": "20 ms"})
    one.epoch(0)
    wait_until(lambda: one.coordinator.statistics()["counts"]["completed"] >= 3)
    kept = sorted(path.name for path in (tmp_path / "ck" / ("a" * 32)).iterdir() if path.name.startswith("chk-"))
    assert len(kept) <= 2, "the newest, and the one under way"


def test_what_waits_in_an_attempt_that_ends_is_told(bench):
    one = bench()
    one.begin(0)
    future = one.coordinator.trigger_savepoint(None, hold=False)
    wait_until(lambda: one.coordinator._running.rider is not None)
    one.coordinator.attempt_over()
    with pytest.raises(CheckpointFailedError, match="ended or restarted"):
        future.result(10)
    with pytest.raises(AttemptOverError):
        one.ask(0, 0)


def test_a_new_attempt_starts_from_the_latest_checkpoint_never_from_a_savepoint(bench):
    one = bench()
    one.epoch(0)
    one.coordinator.trigger_checkpoint().result(10)
    one.epoch(1)
    one.coordinator.trigger_savepoint(None, hold=False).result(10)
    assert one.coordinator.latest_snapshot().metadata.epoch == 0


def test_an_epoch_that_a_subtask_never_ran_can_not_end(bench):
    one = bench()
    one.begin(0)
    one.ask(0, 0)
    one.finished(0, 0)
    with pytest.raises(ControlError, match=r"never ran it: \[\('count', 1\)\]"):
        one.coordinator.check_all_finished(0)


def test_a_job_that_ends_deletes_its_checkpoints_unless_told_to_retain_them(bench, tmp_path):
    one = bench(**{"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"})
    one.epoch(0)
    path = one.coordinator.trigger_checkpoint().result(10).path
    one.coordinator.close(JobStatus.CANCELED)
    assert SnapshotReader(path).metadata.epoch == 0


def test_cancelled_without_retention_nothing_is_left(bench, tmp_path):
    one = bench()
    one.epoch(0)
    one.coordinator.trigger_checkpoint().result(10)
    one.coordinator.close(JobStatus.CANCELED)
    assert [path.name for path in (tmp_path / "ck" / ("a" * 32)).iterdir() if path.name.startswith("chk")] == []


def test_progress_counts_the_records_that_subtasks_report(bench):
    one = bench()
    one.begin(0)
    for subtask in SUBTASKS:
        one.ask(subtask, 0)
        arguments = {"uid": "count", "subtask": subtask, "epoch": 0, "rows_in": 3, "rows_out": 2, "busy_ms": 0}
        answer_slot_call(one.coordinator, "epoch_finished", arguments)
    one.coordinator.finish_epoch(0, 0)
    progress = one.coordinator.progress()
    assert (progress["epoch"], progress["records_in"], progress["records_out"]) == (0, 6, 4)


def test_epoch_numbers_are_never_given_twice(tmp_path):
    numbers = EpochNumbers(tmp_path / "epochs.json")
    assert numbers.resume_above(-1) == -1
    numbers.reserve(0)
    numbers.reserve(7)
    after_a_crash = EpochNumbers(tmp_path / "epochs.json")
    assert after_a_crash.resume_above(5) >= 7
    assert after_a_crash.resume_above(10**6) == 10**6


def wait_until(condition, timeout=10):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def in_thread(run):
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def raised(run):
    try:
        run()
    except Exception as error:
        return error
    return None


def test_functions_hear_of_a_checkpoint_once_its_metadata_is_there_and_whoever_asked_for_it_after_them(bench):
    one = bench()
    one.epoch(0)
    one.slots.telling = Future()
    future = one.coordinator.trigger_checkpoint()
    wait_until(lambda: one.slots.told == [(1, True)])
    assert one.coordinator.latest_snapshot().location.exists
    time.sleep(0.05)
    assert not future.done()
    one.slots.telling.set_result(None)
    assert future.result(10).checkpoint_id == 1


def test_a_slot_that_is_lost_while_functions_are_told_holds_nobody_up(bench):
    one = bench()
    one.epoch(0)
    one.slots.telling = Future()
    future = one.coordinator.trigger_checkpoint()
    wait_until(lambda: one.slots.told == [(1, True)])
    one.slots.telling.cancel()
    assert future.result(10).checkpoint_id == 1


def test_functions_hear_of_a_savepoint_only_if_the_job_ends_behind_it(bench):
    one = bench()
    one.epoch(0)
    one.coordinator.trigger_savepoint(None, hold=False).result(10)
    assert one.slots.told == []
    one.coordinator.trigger_savepoint(None, hold=True).result(10)
    assert one.slots.told == [(2, True)]


def test_functions_hear_of_a_checkpoint_that_was_given_up(bench):
    one = bench()
    one.epoch(0)
    one.slots.decline = True
    with pytest.raises(CheckpointFailedError):
        one.coordinator.trigger_checkpoint().result(10)
    assert one.slots.told == [(1, False)]


def test_a_completed_checkpoint_of_somebody_else_is_neither_overwritten_nor_deleted(bench, tmp_path):
    one = bench(**{"execution.checkpointing.create-subdir": "false"})
    foreign = SnapshotLocation(str(tmp_path / "ck" / "chk-1"))
    foreign.create()
    foreign.write_metadata(b"somebody else's")
    with pytest.raises(CheckpointFailedError, match="not overwritten"):
        one.coordinator.trigger_checkpoint().result(10)
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
            one.coordinator.trigger_checkpoint().result(10)
    assert SnapshotLocation(str(tmp_path / "ck" / "chk-2")).read_metadata() == b"the other's"


def test_a_late_word_of_an_attempt_that_is_over_does_not_end_the_next_one(bench):
    one = bench()
    old = one.coordinator._pool
    one.coordinator.attempt_over(old)
    one.slots = FakeSlots()
    one.slots.coordinator = one.coordinator
    one.start_attempt()
    one.coordinator.attempt_over(old)
    one.epoch(0)
    assert one.coordinator.trigger_checkpoint().result(10).epoch == 0


def test_a_driver_that_was_replaced_begins_no_epoch_and_no_checkpoint(bench):
    one = bench()
    one.epoch(0)

    def replaced():
        message = "Another driver has taken the job over."
        raise DriverReplacedError(message)

    one.coordinator._check_term = replaced
    with pytest.raises(DriverReplacedError):
        one.begin(1)
    with pytest.raises(CheckpointFailedError, match="Another driver"):
        one.coordinator.trigger_checkpoint().result(10)
    wait_until(lambda: one.failures)
    assert "Another driver" in one.failures[0].message


def test_a_savepoint_says_what_was_said_about_it_and_where_it_comes_from(bench, tmp_path):
    one = bench()
    one.epoch(0)
    completed = one.coordinator.trigger_savepoint(None, hold=False, message="before the upgrade").result(10)

    metadata = SnapshotReader(completed.path).metadata
    assert metadata.message == "before the upgrade"
    assert completed.path.endswith(f"savepoint-aaaaaa-{metadata.snapshot_id}")
    assert (metadata.parent, metadata.parent_id) == (None, None)
    assert metadata.code_fingerprint == JOB.code_fingerprint

    checkpoint = SnapshotReader(one.coordinator.trigger_checkpoint().result(10).path).metadata
    assert (checkpoint.message, checkpoint.snapshot_id) == (None, "aaaaaa-chk-2")


def test_a_snapshot_names_the_one_its_job_was_started_from(bench, tmp_path):
    first = bench()
    parent = first.coordinator.trigger_savepoint(None, hold=False).result(10)
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
        location="s3://bucket/savepoint-bbbbbb-0123456789ab",
        message="é",
    )

    child = snapshot_metadata(
        pending, job, [task], Parent.of(Snapshot(SnapshotLocation(str(moved)), metadata, starting=True))
    )

    assert (child.parent, child.parent_id) == (f"file:{moved}", metadata.snapshot_id)
    assert (child.snapshot_id, child.message, child.code_fingerprint) == ("0123456789ab", "é", "c0de" * 16)
