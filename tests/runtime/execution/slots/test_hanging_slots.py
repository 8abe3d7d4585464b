"""Slots and storage that hang: checkpoints expire and epochs begin all the same, and a subtask that hangs is failed."""

import contextlib
import threading
from dataclasses import replace

import pytest

from pystate.common.errors import CheckpointFailedError, JobExecutionError, SubtaskHangsError
from pystate.common.processes.control import AuthenticatedListener, ControlClient, ControlServer
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.engines.micro_batch.driver.epoch_slots import EpochSlots
from pystate.runtime.execution.slots.slot_pool import SlotPool
from tests.runtime.checkpoint.harness import FakeSlots, acknowledge, expire, in_thread, raised
from tests.waiting import LONGEST_S, wait_until

SHORT = {"execution.checkpointing.timeout": "200 ms", "execution.checkpointing.tolerable-failed-checkpoints": "9"}
LONG = {**SHORT, "execution.checkpointing.timeout": "10 min"}
SECRET = b"secret"


def be_patient(one):
    """From now on no checkpoint expires, however slow the machine is."""
    pending, schedule = one.coordinator.pending, one.coordinator._schedule
    pending._settings, schedule._timeout_s = replace(pending._settings, timeout_s=600.0), 600.0


def test_slots_that_never_answer_expire_and_fail_the_attempt_and_epochs_begin(bench):
    one = bench(**LONG)
    one.epoch(0)
    one.slots.block.clear()
    future = one.coordinator.trigger_savepoint(None, hold=False)
    wait_until(lambda: one.slots.snapshots)
    expire(one)
    with pytest.raises(CheckpointFailedError, match="Missing: subtask 0 of 'count', subtask 1 of 'count'"):
        future.result(LONGEST_S)
    wait_until(lambda: one.failures)
    assert isinstance(one.failures[0], SubtaskHangsError), "however many failures are tolerated, and for a savepoint, too"
    begun = in_thread(lambda: one.begin(1))
    begun.join(LONGEST_S)
    assert not begun.is_alive()


def test_only_the_slots_that_hang_are_named(bench):
    one = bench(**LONG)
    one.slots.block.clear()
    future = one.coordinator.trigger_checkpoint()
    wait_until(lambda: one.slots.snapshots)
    acknowledge(one.coordinator, 1, 0)
    expire(one)
    with pytest.raises(CheckpointFailedError, match=r"Missing: subtask 1 of 'count'\.\n"):
        future.result(LONGEST_S)


def test_an_answer_that_comes_late_counts_for_nothing_and_frees_no_other_checkpoint(bench):
    one = bench(**SHORT)
    one.slots.block.clear()
    with pytest.raises(CheckpointFailedError):
        one.coordinator.trigger_checkpoint().result(LONGEST_S)
    wait_until(lambda: one.failures)
    first, one.slots.block = one.slots.block, threading.Event()
    one.coordinator.attempt_over()
    one.start_attempt()
    be_patient(one)
    second = one.coordinator.trigger_checkpoint()
    wait_until(lambda: len(one.slots.snapshots) == 2)
    syncing = one.barriers._syncing
    first.set()  # acknowledges the first one, and ends its call
    wait_until(lambda: [thread.name for thread in threading.enumerate()].count("checkpoint-coordinator-call") == 1)
    assert one.barriers._syncing is syncing
    one.slots.block.set()
    assert second.result(LONGEST_S).checkpoint_id == 2


def test_a_subtask_that_has_its_barrier_and_hangs_in_its_epoch_is_failed(bench):
    one = bench(**LONG)
    one.begin(0)
    future = one.coordinator.trigger_checkpoint()
    wait_until(lambda: not one.barriers.is_open)
    for subtask in (0, 1):
        one.prepared(subtask, 0)
    assert one.attempt.decide(0).checkpoint_id == 1
    one.attempt.slot_finished(1)
    expire(one)
    with pytest.raises(CheckpointFailedError, match=r"Missing: subtask 0 of 'count'\.\n"):
        future.result(LONGEST_S)
    wait_until(lambda: one.failures)
    assert isinstance(one.failures[0], SubtaskHangsError)


@pytest.fixture
def hanging_storage(monkeypatch):
    """Makes a method of storage locations hang the first time, until it is let go on."""
    go_on = threading.Event()

    def hang(name):
        method, calls = getattr(SnapshotLocation, name), []

        def slow(location, *arguments):
            calls.append(location)
            if len(calls) == 1:
                go_on.wait(LONGEST_S)
            return method(location, *arguments)

        monkeypatch.setattr(SnapshotLocation, name, slow)
        return calls

    yield hang, go_on
    go_on.set()


@pytest.mark.parametrize("method", ["create", "write_metadata"])
def test_a_checkpoint_whose_storage_hangs_expires_and_the_next_one_completes_beside_it(bench, hanging_storage, method):
    hang, go_on = hanging_storage
    calls = hang(method)
    one = bench(**SHORT)
    one.epoch(0)
    with pytest.raises(CheckpointFailedError, match=r"within 0\.2 s"):
        one.coordinator.trigger_checkpoint().result(LONGEST_S)
    assert one.failures == []
    be_patient(one)
    one.epoch(1)
    completed = one.coordinator.trigger_checkpoint().result(LONGEST_S)
    assert (completed.checkpoint_id, completed.epoch) == (2, 1)
    go_on.set()
    wait_until(lambda: not calls[0].exists)
    wait_until(lambda: not [name for name in threading.enumerate() if name.name == "checkpoint-coordinator-call"])
    assert not SnapshotLocation(calls[0].uri).exists, "what is written late is deleted"
    assert SnapshotReader(completed.path).metadata.epoch == 1
    assert one.coordinator.latest_snapshot().metadata.checkpoint_id == 2


def test_ids_that_can_not_be_written_down_for_long_hold_up_neither_expiry_nor_whoever_asked(bench, monkeypatch):
    one = bench(**SHORT)
    go_on, give = threading.Event(), one.coordinator._ids.get_and_increment

    def slow():
        go_on.wait(LONGEST_S)
        return give()

    monkeypatch.setattr(one.coordinator._ids, "get_and_increment", slow)
    with pytest.raises(CheckpointFailedError, match=r"could not be triggered within 0\.2 s"):
        one.coordinator.trigger_savepoint(None, hold=False).result(LONGEST_S)
    monkeypatch.setattr(one.coordinator._ids, "get_and_increment", give)
    be_patient(one)
    assert one.coordinator.trigger_savepoint(None, hold=False).result(LONGEST_S).checkpoint_id == 1
    go_on.set()


def test_a_number_that_can_not_be_reserved_for_long_lets_checkpoints_expire(bench, monkeypatch):
    one = bench(**SHORT)
    reserving, go_on = threading.Event(), threading.Event()

    def reserve(epoch):
        reserving.set()
        go_on.wait(LONGEST_S)

    monkeypatch.setattr(one.epochs._numbers, "reserve", reserve)
    begun = in_thread(lambda: raised(lambda: one.begin(0)))
    assert reserving.wait(LONGEST_S), "a savepoint that is asked for before could be taken at once"
    with pytest.raises(CheckpointFailedError):
        one.coordinator.trigger_savepoint(None, hold=False).result(LONGEST_S)
    go_on.set()
    begun.join(LONGEST_S)


class Events:
    def __init__(self):
        self.calls = []

    def handle_slot_call(self, op, arguments):
        raise AssertionError

    def slot_lost(self, slot, reason):
        raise AssertionError

    def slots_hang(self, slots, call, timeout_s):
        self.calls.append((slots, call, timeout_s))


class RawSlot:
    """A slot of which a test says how it answers: None for one that doesn't even read."""

    def __init__(self, pool, index, answer):
        if answer is None:
            self.server = AuthenticatedListener(SECRET, lambda connection: pool.test_over.wait(LONGEST_S), name="deaf")
            host, port = self.server.address
        else:
            self.server = ControlServer(SECRET, answer)
            host, port = self.server.host, self.server.port
        self.server.start()
        client = ControlClient(*pool.description.coordinator, SECRET)
        client.call("register", slot=index, attempt=0, pid=1, task_attempt=0, control=[host, port], data="x")


@pytest.fixture
def three_slots():
    """One that answers, one that reads and never answers, one that reads nothing."""
    events = Events()
    pool = SlotPool("a" * 32, 0, 3, SECRET, events, call_timeout_s=2.0)
    pool.test_over = threading.Event()
    pool.start()
    slots = [
        RawSlot(pool, 0, lambda request: None),
        RawSlot(pool, 1, lambda request: pool.test_over.wait(LONGEST_S) and None),
        RawSlot(pool, 2, None),
    ]
    yield pool, events
    pool.test_over.set()
    pool.close()
    for slot in slots:
        slot.server.close()


def block_sends(client):
    """Fill the buffers of a connection whose peer doesn't read, so that every further send blocks."""

    def fill():
        with contextlib.suppress(Exception):  # the pool closes it at the end
            client.call("notify", filler=bytes(64 << 20))

    in_thread(fill)
    wait_until(client._lock.locked)


def test_several_slots_that_hang_at_once_and_sends_that_block_hold_up_no_expiry(bench, three_slots):
    pool, _ = three_slots
    one = bench(**SHORT)
    one.coordinator.attempt_over()
    one.slots = pool
    one.start_attempt()
    block_sends(pool._slots[2].control)
    with pytest.raises(CheckpointFailedError, match="Missing"):
        one.coordinator.trigger_checkpoint().result(LONGEST_S)
    wait_until(lambda: one.failures)
    assert isinstance(one.failures[0], SubtaskHangsError)
    one.coordinator.attempt_over()
    pool.fail("the attempt ended")
    wait_until(lambda: not [name for name in threading.enumerate() if name.name == "checkpoint-coordinator-call"])
    one.slots = FakeSlots()


def test_slots_whose_functions_do_not_hear_of_a_checkpoint_in_time_are_named(three_slots):
    pool, events = three_slots
    block_sends(pool._slots[2].notifications)
    pool.notify(3, completed=True).result(LONGEST_S)
    assert events.calls == [([1, 2], "hear how checkpoint 3 ended", 2.0)]


def test_slots_that_do_not_finish_an_epoch_in_time_are_named_and_nobody_waits_for_them(three_slots):
    pool, events = three_slots
    block_sends(pool._slots[2].control)
    outcome = []
    finishing = in_thread(lambda: outcome.append(raised(lambda: EpochSlots(pool).finish_epoch(5, {}, None, print))))
    wait_until(lambda: events.calls)
    assert events.calls == [([1, 2], "finish epoch 5", 2.0)]
    pool.fail("the attempt ended")
    finishing.join(LONGEST_S)
    assert isinstance(outcome[0], JobExecutionError)
