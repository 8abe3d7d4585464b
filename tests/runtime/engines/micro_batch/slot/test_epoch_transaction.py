"""An epoch changes state exactly once, whatever the exchanges do."""

import threading

import pytest

from pystate.common import Types
from pystate.common.errors import ControlError, PystateError
from pystate.common.processes.control import hang_up
from pystate.core.snapshot.handles.handles import FileStateHandle
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.datastream import KeyedProcessFunction, ValueStateDescriptor
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.engines.micro_batch.slot.epoch_ledger import TaskOutcome
from pystate.runtime.engines.micro_batch.slot.prepared_epoch import PreparedEpoch
from pystate.runtime.engines.micro_batch.slot.protocol import Admission, receive_admission
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator
from tests.runtime.slot.harness import UID, SlotHarness, counted, send_batches
from tests.waiting import LONGEST_S, wait_until

FAR = 1 << 45


@pytest.fixture(params=["hashmap", "rocksdb, spilling"])
def slot(tmp_path, request):
    if request.param == "hashmap":
        harness = SlotHarness(tmp_path)
    else:
        harness = SlotHarness(tmp_path, state_backend="rocksdb", configuration={"pystate.state.epoch-memory": "1 b"})
    yield harness
    harness.coordinator.hold.set()
    harness.close()


def in_thread(run):
    result = {}

    def target():
        try:
            result["value"] = run()
        except BaseException as error:
            result["error"] = error

    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread, result


def half_an_epoch(slot, epoch, words, **who):
    """Send some rows of an epoch and no end."""
    connection = slot.connect(slot.header(epoch, **who))
    assert receive_admission(connection) is Admission.SEND
    batch = slot.batch(words)
    connection.send_bytes((0).to_bytes(4, "big"))  # the index of the input
    connection.send_bytes(batch.schema.serialize())
    connection.send_bytes(batch.serialize())
    return connection


def test_state_goes_on_from_epoch_to_epoch(slot):
    assert slot.run_epoch(0, ["a", "b", "a", "a"]) == counted(["a", "b", "a", "a"])
    assert slot.run_epoch(1, ["a"]) == [("a", 4)]
    assert [(told.epoch, told.rows_in, told.rows_out) for told in slot.coordinator.prepared] == [(0, 4, 4), (1, 1, 1)]


class Alarm(KeyedProcessFunction):
    """Has a timer for each word in a far future, as many milliseconds after it as the word is long."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(FAR + len(value))

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp - FAR


def test_an_epoch_tells_its_earliest_timer_and_fires_those_that_its_header_says_are_due(tmp_path):
    slot = SlotHarness(tmp_path, Alarm())
    assert slot.run_epoch(0, ["four", "two", "sixsix"]) == []
    assert slot.run_epoch(1, clock=FAR + 5) == [("two", 3), ("four", 4)]
    assert slot.run_epoch(2, clock=FAR + 5) == [], "each once"
    assert slot.run_epoch(3, clock=FAR + 6) == [("sixsix", 6)]
    assert [told.next_timer for told in slot.coordinator.prepared] == [FAR + 3, FAR + 6, FAR + 6, None]
    slot.close()


def test_an_empty_epoch_ends_like_any_other(slot):
    assert slot.run_epoch(0) == []
    assert slot.coordinator.prepared == [PreparedEpoch(0, 1, 0, rows_read=0, rows_in=0, rows_out=0)]


def test_an_epoch_that_is_asked_for_again_is_not_run_again(slot):
    first = slot.bring(0, ["a", "a"], attempt=0)
    assert slot.bring(0, ["a", "a"], attempt=1) == first, "a retry of the task"
    slot.finish(0)
    assert slot.bring(0, ["a", "a"], stage=2, attempt=2) == first, "a second action"
    assert slot.run_epoch(1, ["a"]) == [("a", 3)]


def test_an_attempt_that_spark_does_not_count_leaves_no_trace_however_completely_its_rows_came(slot):
    """Where Spark's side of a task breaks, the rows just end, and the task sends its trailer."""
    slot.run_epoch(0, ["a"])
    slot.coordinator.outcomes[7] = TaskOutcome.FAILED
    assert slot.bring(1, ["a"], attempt=7) == [("a", 2)], "half of the epoch"
    assert slot.bring(1, ["a", "b", "a"], attempt=8) == [("a", 2), ("b", 1), ("a", 3)]
    slot.finish(1)
    assert slot.coordinator.asked == [7]
    assert slot.run_epoch(2, ["a", "b"], attempt=9) == [("a", 4), ("b", 2)]


def test_a_later_attempt_waits_until_spark_has_said_what_became_of_the_one_that_brought_the_rows(slot):
    slot.coordinator.outcomes[7] = TaskOutcome.RUNNING
    slot.bring(0, ["a"], attempt=7)
    later, result = in_thread(lambda: slot.bring(0, ["a", "b"], attempt=8))
    wait_until(lambda: len(slot.coordinator.asked) > 3)
    assert later.is_alive()
    slot.coordinator.outcomes[7] = TaskOutcome.FAILED
    later.join(LONGEST_S)
    assert result["value"] == [("a", 1), ("b", 1)]


@pytest.mark.parametrize("outcome", [TaskOutcome.RUNNING, TaskOutcome.UNKNOWN])
def test_a_task_attempt_of_which_spark_says_nothing_holds_nobody_for_ever(slot, monkeypatch, outcome):
    monkeypatch.setattr("pystate.runtime.engines.micro_batch.slot.micro_batch_subtask.OUTCOME_TIMEOUT_S", 0.05)
    slot.coordinator.outcomes[7] = outcome
    slot.bring(0, ["a"], attempt=7)
    with pytest.raises(ControlError, match="does not say what became of task 7"):
        slot.bring(0, ["a"], attempt=8)


def test_only_the_attempt_that_was_proven_whole_can_be_finished(slot):
    slot.bring(0, ["a"], attempt=3)
    with pytest.raises(ControlError, match="can't finish epoch 0 of task 4"):
        slot.subtask.finish_epoch(0, 4, None)
    with pytest.raises(ControlError, match="can't finish epoch 1 of task 3"):
        slot.subtask.finish_epoch(1, 3, None)
    slot.finish(0)
    slot.finish(0)  # the driver has lost the answer
    assert slot.run_epoch(1, ["a"]) == [("a", 2)]


def test_no_snapshot_is_taken_and_no_later_epoch_begun_while_one_is_prepared(slot, tmp_path):
    slot.run_epoch(0, ["a"])
    slot.bring(1, ["a"])
    with pytest.raises(ControlError, match="stands at epoch 0"):
        slot.subtask.snapshot_between_epochs(request(tmp_path, 1, 0))
    with pytest.raises(ControlError, match="unconfirmed"):
        slot.bring(2, ["a"])


def test_the_kept_output_can_be_fetched_until_the_next_epoch_begins(slot):
    slot.run_epoch(0, ["a"])
    assert slot.fetch(0) == [("a", 1)]
    assert slot.fetch(0) == [("a", 1)]
    slot.run_epoch(1, ["b"])
    with pytest.raises(ControlError, match="epoch 0 is not kept"):
        slot.fetch(0)


def test_a_task_that_dies_half_way_leaves_no_trace(slot):
    slot.run_epoch(0, ["a"])
    half_an_epoch(slot, 1, ["a", "b"]).close()
    wait_until(lambda: slot.subtask._claim is None)
    assert slot.run_epoch(1, ["a"], attempt=1) == [("a", 2)]


def test_what_an_epoch_beyond_its_memory_left_on_disk_is_dropped_with_it(tmp_path):
    slot = SlotHarness(tmp_path, state_backend="rocksdb", configuration={"pystate.state.epoch-memory": "1 b"})
    slot.run_epoch(0, ["a"])
    spilled = half_an_epoch(slot, 1, ["a", "b"])
    wait_until(lambda: slot.subtask.chain.backend.has_spilled)
    spilled.close()
    wait_until(lambda: slot.subtask._claim is None)
    assert not slot.subtask.chain.backend.has_spilled
    assert slot.run_epoch(1, ["a", "b"], attempt=1) == [("a", 2), ("b", 1)]
    slot.close()


def test_a_task_that_dies_before_its_trailer_leaves_no_trace_even_if_all_rows_are_in(slot):
    connection = slot.connect(slot.header(0))
    receive_admission(connection)
    send_batches(connection, [(0, slot.batch(["a"]))])
    connection.close()
    wait_until(lambda: slot.subtask._claim is None)
    assert slot.run_epoch(0, ["a"], attempt=1) == [("a", 1)]


def test_a_newer_attempt_fences_an_older_one_that_hangs(slot):
    hanging = half_an_epoch(slot, 0, ["a", "a"], attempt=0)
    assert slot.run_epoch(0, ["a"], attempt=1) == [("a", 1)]
    with pytest.raises((EOFError, OSError)):
        hanging.recv_bytes()


def test_an_older_attempt_that_comes_late_is_refused(slot):
    newer = half_an_epoch(slot, 0, ["a"], attempt=5)
    with pytest.raises(ControlError, match="stale"):
        slot.run_epoch(0, ["a"], attempt=4)
    newer.close()


def test_a_second_action_at_the_same_time_waits_for_the_first_and_gets_its_output(slot):
    slot.coordinator.outcomes[0] = TaskOutcome.RUNNING
    assert slot.bring(0, ["a"], stage=1, attempt=0) == [("a", 1)]
    second, second_result = in_thread(lambda: slot.bring(0, ["a"], stage=2, attempt=1))
    wait_until(lambda: len(slot.coordinator.asked) > 3)
    assert second.is_alive()
    slot.coordinator.outcomes[0] = TaskOutcome.SUCCEEDED
    second.join(LONGEST_S)
    assert second_result["value"] == [("a", 1)]
    slot.finish(0)
    assert slot.run_epoch(1, ["a"]) == [("a", 2)]


def test_a_second_action_takes_over_if_the_first_dies(slot):
    dying = half_an_epoch(slot, 0, ["a", "a"], stage=1)
    second, result = in_thread(lambda: slot.bring(0, ["a"], stage=2))
    second.join(0.1)
    assert second.is_alive()
    hang_up(dying)
    second.join(LONGEST_S)
    assert result["value"] == [("a", 1)]


def test_an_attempt_that_has_sent_all_is_too_late_to_be_fenced_and_the_newer_gets_its_output(slot):
    slot.coordinator.hold.clear()
    first, first_result = in_thread(lambda: slot.bring(0, ["a"], attempt=0))
    wait_until(lambda: slot.subtask._claim is not None and slot.subtask._claim.at_end)
    newer, newer_result = in_thread(lambda: slot.bring(0, ["a"], attempt=1))
    newer.join(0.1)
    slot.coordinator.hold.set()
    for thread in (first, newer):
        thread.join(LONGEST_S)
    assert first_result["value"] == newer_result["value"] == [("a", 1)]


def test_headers_of_another_job_attempt_or_subtask_are_refused(slot):
    with pytest.raises(ControlError, match="serves attempt 0"):
        slot.run_epoch(0, ["a"], execution=1)
    with pytest.raises(ControlError, match="serves attempt 0"):
        slot.run_epoch(0, ["a"], job_id="d" * 32)
    assert slot.run_epoch(0, ["a"]) == [("a", 1)]


def test_a_row_that_belongs_to_another_subtask_is_refused_before_it_touches_state(tmp_path):
    slot = SlotHarness(tmp_path, index=0, parallelism=2)
    words = [f"w{i}" for i in range(50)]
    mine = [word for word in words if slot.codec.key_group(word, 16) < 8]
    foreign = [word for word in words if slot.codec.key_group(word, 16) >= 8]
    with pytest.raises(PystateError, match="reached subtask 0"):
        slot.run_epoch(0, [mine[0], mine[1], foreign[0]])
    assert slot.run_epoch(0, mine, attempt=1) == counted(mine)
    slot.close()


def test_what_user_code_raises_is_told_with_its_own_frames_and_fails_all_further_asks(slot):
    slot.run_epoch(0, ["a"])
    with pytest.raises(PystateError, match="ValueError: poisoned"):
        slot.run_epoch(1, ["a", "poison"])
    ((error, trace),) = slot.coordinator.failures
    assert error.where == "count (uid count), subtask 0, key 'poison'"
    first_frame = next(line for line in trace.splitlines() if line.startswith("  File"))
    assert "in process_element" in first_frame, "the user's own frames come first, ours are left out"
    with pytest.raises(PystateError, match="poisoned"):
        slot.run_epoch(1, ["a"], attempt=1)
    assert [told.epoch for told in slot.coordinator.prepared] == [0]


def test_an_exchange_that_still_sends_gets_to_the_error_that_ended_its_epoch(slot):
    for attempt in range(3):
        with pytest.raises(PystateError, match="poisoned"):
            slot.run_epoch(0, ["poison", *(f"word-{i}" for i in range(20_000))], attempt=attempt)


class Appending(KeyedProcessFunction):
    """Changes its value in place, with update() for upper-case words only."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LIST(Types.STRING())))

    def process_element(self, value, ctx):
        seen = self.seen.value()
        if seen is None:
            seen = []
            self.seen.update(seen)
        seen.append(value)
        if value.isupper():
            self.seen.update(seen)
        yield ctx.get_current_key(), len(seen)


def test_a_value_changed_in_place_in_an_epoch_that_is_rolled_back_is_as_before(tmp_path):
    slot = SlotHarness(tmp_path, Appending())
    assert slot.run_epoch(0, ["a", "A"]) == [("a", 1), ("A", 1)]
    half_an_epoch(slot, 1, ["a", "A"]).close()
    wait_until(lambda: slot.subtask._claim is None)
    assert slot.run_epoch(1, ["a", "A"], attempt=1) == [("a", 2), ("A", 2)]
    slot.close()


def request(tmp_path, checkpoint_id, epoch):
    location = SnapshotLocation(f"file:{tmp_path}/chk-{checkpoint_id}")
    location.create()
    return CheckpointBarrier(checkpoint_id, location.uri, inline_threshold=0, trigger_timestamp=0, epoch=epoch)


def restored_from(*places):
    """Return what a subtask finds of the keyed state of (slot, checkpoint) pairs, all handles of all of them."""
    found = []
    for slot, checkpoint in places:
        state, _ = slot.coordinator.acknowledged[checkpoint.checkpoint_id]
        location = checkpoint.location
        found += [
            KeyedStateHandle(
                keyed.start_key_group,
                keyed.end_key_group,
                keyed.format,
                FileStateHandle(f"{location}/{keyed.handle.path}", keyed.handle.size, keyed.handle.crc32),
            )
            for keyed in state.operators[UID].keyed_state
        ]
    return {UID: RestoredOperator(location, keyed_state=found)}


def test_a_barrier_takes_the_state_at_the_end_of_its_epoch(slot, tmp_path):
    slot.run_epoch(0, ["a"])
    barrier = request(tmp_path, 1, 1)
    slot.run_epoch(1, ["a", "b"], barrier=barrier)
    slot.run_epoch(2, ["a"])
    restored = SlotHarness(tmp_path, restored=restored_from((slot, barrier)), finished_epoch=1, name="restored")
    assert restored.run_epoch(2, ["a", "b", "c"]) == [("a", 3), ("b", 2), ("c", 1)]
    restored.close()


def test_a_snapshot_between_epochs_stands_at_the_last_finished_one(slot, tmp_path):
    slot.run_epoch(0, ["a"])
    between = request(tmp_path, 1, 0)
    slot.subtask.snapshot_between_epochs(between)
    restored = SlotHarness(tmp_path, restored=restored_from((slot, between)), finished_epoch=0, name="restored")
    assert restored.run_epoch(1, ["a"]) == [("a", 2)]
    restored.close()


def test_a_subtask_that_stands_elsewhere_declines_a_snapshot(slot, tmp_path):
    slot.run_epoch(0, ["a"])
    with pytest.raises(ControlError, match="stands at epoch 0, not 7"):
        slot.subtask.snapshot_between_epochs(request(tmp_path, 1, 7))


def test_a_snapshot_that_can_not_be_written_is_declined(slot, tmp_path):
    slot.run_epoch(0, ["a"])
    barrier = request(tmp_path, 1, 0)
    (tmp_path / "chk-1").rmdir()
    (tmp_path / "chk-1").write_text("in the way")
    slot.subtask.snapshot_between_epochs(barrier)
    assert slot.coordinator.acknowledged == {}
    assert slot.coordinator.reasons == {1: CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION}


@pytest.mark.parametrize("parallelism", [1, 3])
def test_state_of_two_subtasks_is_spread_over_another_number(tmp_path, parallelism):
    words = [f"w{i}" for i in range(200)]
    places = []
    for index in range(2):
        slot = SlotHarness(tmp_path, index=index, parallelism=2, name=f"old-{index}")
        mine = [word for word in words if slot.codec.key_group(word, 16) // 8 == index]
        slot.run_epoch(0, mine * 2)
        barrier = request(tmp_path, index, 0)
        slot.subtask.snapshot_between_epochs(barrier)
        places.append((slot, barrier))
        slot.close()
    found = []
    handles = restored_from(*places)
    for index in range(parallelism):
        slot = SlotHarness(
            tmp_path, index=index, parallelism=parallelism, restored=handles, finished_epoch=0, name=f"new-{index}"
        )
        mine = [word for word in words if slot.codec.key_group(word, 16) * parallelism // 16 == index]
        found += slot.run_epoch(1, mine)
        slot.close()
    assert sorted(found) == sorted((word, 3) for word in words)


def test_a_large_epoch_is_spilled_and_comes_back_whole(tmp_path):
    slot = SlotHarness(tmp_path)
    object.__setattr__(slot.subtask._environment, "kept_output_bytes", 1000)
    words = [f"word-{i % 97}" for i in range(60_000)]
    connection = slot.connect(slot.header(0))
    assert receive_admission(connection) is Admission.SEND
    connection.close()
    wait_until(lambda: slot.subtask._claim is None)
    assert slot.run_epoch(0, words, attempt=1) == counted(words)
    assert slot.subtask._kept.spilled_bytes > 0
    slot.close()
