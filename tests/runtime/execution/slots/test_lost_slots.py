"""Slots that hang, and slots that come back when their attempt is over, as the pool meets them."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import pystate
from pystate.common.errors import ConnectionLostError, ControlError, DriverReplacedError, JobExecutionError
from pystate.common.processes.control import HEARTBEAT_TIMEOUT_S, ControlClient, ControlServer
from pystate.common.processes.processes import can_run
from pystate.runtime.checkpoint.checkpoint_recovery import DurableCheckpointIds
from pystate.runtime.checkpoint.id_counter import CheckpointIdCounter
from pystate.runtime.execution import late_start
from pystate.runtime.execution.late_start import StartTimeoutError
from pystate.runtime.execution.slots import registered_slot, slot_gateways, slot_pool
from pystate.runtime.execution.slots.slot_pool import SlotPool
from pystate.runtime.job_folder.driver_term import DriverTerm
from pystate.runtime.slot.gateway import CoordinatorGateway
from tests.faults.processes import needs_proc
from tests.waiting import LONGEST_S, wait_until

OUR_CODE = Path(pystate.__file__).parent
SECRET = b"secret"


class Events:
    def __init__(self):
        self.calls = []

    def handle_slot_call(self, op, arguments):
        self.calls.append(op)

    def slot_lost(self, slot, reason):
        self.calls.append(f"{slot} lost")

    def slot_died(self, slot, cause):
        self.calls.append(f"{slot} died: {cause}")


class HangingSlot:
    """Registers, and answers no call until it goes on."""

    def __init__(self, pool, pid=1):
        self.go_on = threading.Event()
        self.server = ControlServer(SECRET, lambda request: self.go_on.wait(LONGEST_S) and None)
        self.server.start()
        self.client = ControlClient(*pool.description.coordinator, SECRET)
        self.call("register", pid=pid, task_attempt=0, control=[self.server.host, self.server.port], data="x")

    def call(self, op, **arguments):
        return self.client.call(op, slot=0, attempt=0, **arguments)


@pytest.fixture
def hanging():
    events = Events()
    pool = SlotPool("a" * 32, 0, 1, SECRET, events, unix_sockets=False)  # nobody looks at its process
    pool.start()
    slot = HangingSlot(pool)
    yield pool, slot, events
    slot.go_on.set()
    pool.close()
    slot.server.close()


def in_thread(function):
    outcome = []

    def run():
        try:
            outcome.append(function())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, outcome


def test_who_waits_for_a_slot_that_hangs_is_woken_when_the_attempt_is_given_up(hanging):
    pool, _, _ = hanging
    thread, outcome = in_thread(lambda: pool.deploy([None]))
    time.sleep(0.2)
    assert not outcome
    pool.fail("the attempt ended")
    thread.join(LONGEST_S)
    assert isinstance(outcome[0], JobExecutionError)
    assert "the attempt ended" in outcome[0].message


def test_who_waits_for_a_slot_is_woken_when_the_slot_is_silent(hanging, monkeypatch):
    pool, _, _ = hanging
    monkeypatch.setattr(registered_slot, "HEARTBEAT_TIMEOUT_S", 0.3)
    with pytest.raises(JobExecutionError, match="Slot 0 was lost: it has not been heard of"):
        pool.deploy([None])


def test_a_slot_that_hangs_does_not_hold_up_the_end_of_its_attempt(hanging, monkeypatch):
    pool, slot, events = hanging
    monkeypatch.setattr(slot_gateways, "_SHUTDOWN_S", 0.2)
    slot.call("heartbeat")
    deploying, outcome = in_thread(lambda: pool.deploy([None]))  # holds the connection that is used to say good-bye
    closing, _ = in_thread(pool.close)
    closing.join(LONGEST_S)
    assert not closing.is_alive()
    deploying.join(LONGEST_S)
    assert isinstance(outcome[0], ConnectionLostError)
    with pytest.raises(ControlError, match="Attempt 0 is over"):
        slot.call("heartbeat")  # so that it ends when it goes on
    assert events.calls == []


def test_what_a_slot_says_after_the_end_of_its_attempt_reaches_nobody(hanging):
    pool, slot, events = hanging
    pool.fail("the attempt ended")
    for op in ("task_failed", "epoch_prepared", "task_outcome", "decline", "register"):
        with pytest.raises(ControlError, match="Attempt 0 is over"):
            slot.call(op)
    assert events.calls == []
    slot.call("acknowledge")  # its files must be deleted
    assert events.calls == ["acknowledge"]
    slot.call("heartbeat")  # it is still to be told to end


def test_a_call_whose_connection_breaks_is_made_once_more(monkeypatch):
    heard = []
    server = ControlServer(SECRET, lambda request: heard.append(request["n"]))
    server.start()
    gateway = CoordinatorGateway(lambda: ControlClient(server.host, server.port, SECRET), {"slot": 0})
    gateway.call("say", n=1)
    gateway._idle[0].hang_up()
    gateway.call("say", n=2)
    assert heard == [1, 2]
    assert len(gateway._idle) == 1
    server.close()


def test_a_refusal_keeps_the_connection_and_is_not_repeated():
    calls = []

    def refuse(request):
        calls.append(request)
        message = "no"
        raise ControlError(message)

    server = ControlServer(SECRET, refuse)
    server.start()
    gateway = CoordinatorGateway(lambda: ControlClient(server.host, server.port, SECRET), {"slot": 0})
    with pytest.raises(ControlError, match="no"):
        gateway.call("say")
    assert len(calls) == len(gateway._idle) == 1
    server.close()


def test_the_driver_that_began_last_runs_the_job(tmp_path):
    first, second = (DriverTerm(tmp_path / "term.json") for _ in range(2))
    first.check()  # a job whose files are of an older release
    first.begin()
    first.check()
    second.begin()
    second.check()
    with pytest.raises(DriverReplacedError, match="Another driver"):
        first.check()


def test_two_drivers_of_a_job_give_no_checkpoint_id_twice(tmp_path):
    one: CheckpointIdCounter = DurableCheckpointIds(tmp_path / "ids.json")
    assert one.get_and_increment() == 1
    other = DurableCheckpointIds(tmp_path / "ids.json")
    assert [counter.get_and_increment() for counter in (other, other, one, other, one)] == [2, 3, 4, 5, 6]


def test_the_end_of_a_slot_is_told_before_the_call_that_it_broke(hanging, monkeypatch):
    pool, slot, events = hanging
    monkeypatch.setattr(slot_pool, "_DEATH_NOTICE_S", 30)
    monkeypatch.setattr(slot_pool, "_LAST_WORDS_S", 0.1)
    told = events.slot_lost

    def lost(index, reason):
        told(index, reason)
        pool.fail("the attempt ended")

    events.slot_lost = lost
    slot.call("heartbeat")
    seen = []

    def deploy():
        try:
            pool.deploy([None])
        finally:
            seen.extend(events.calls)

    thread, outcome = in_thread(deploy)
    pool._slots[0].control.hang_up()  # as the system does it for a process that is gone
    thread.join(0.3)
    slot.client.hang_up()
    thread.join(LONGEST_S)
    assert seen == ["0 lost"]
    assert isinstance(outcome[0], (ConnectionLostError, JobExecutionError))


def test_who_waits_for_slots_looks_meanwhile_whether_they_can_come(monkeypatch):
    monkeypatch.setattr(slot_pool, "_LOOK_S", 0.01)
    pool = SlotPool("a" * 32, 0, 1, SECRET, Events())
    looks = []

    def look():
        looks.append(None)
        if len(looks) == 3:
            message = "There is no executor."
            raise JobExecutionError(message)

    with pytest.raises(JobExecutionError, match="There is no executor"):
        pool.wait_registered(60, look)
    with pytest.raises(JobExecutionError, match="0 of 1 slots registered within 0.05 s"):
        pool.wait_registered(0.05)
    pool.close()


@pytest.mark.parametrize(
    ("lack", "busy", "message", "hint"),
    [
        ("Spark runs 1 task", "this machine is busy", "within 0.01 s: Spark runs 1 task.", "give Spark more cores"),
        (None, "this machine is busy", "the longer time that a busy machine has", "this machine is busy"),
        (None, None, "within 0.01 s.", "look at the job's log, or raise pystate.slot.startup-timeout"),
    ],
)
def test_slots_that_do_not_come_lack_cores_where_spark_says_so_and_time_where_the_machine_is_busy(
    monkeypatch, lack, busy, message, hint
):
    monkeypatch.setattr(slot_pool, "_LOOK_S", 0.01)
    monkeypatch.setattr(late_start, "busy_sentence", lambda: busy)
    pool = SlotPool("a" * 32, 0, 1, SECRET, Events())
    with pytest.raises(JobExecutionError) as error:
        pool.wait_registered(0.01, lack=lambda: lack)
    assert message in error.value.message
    assert error.value.hint == hint
    assert isinstance(error.value, StartTimeoutError) == (lack is None), "another try finds no more cores"
    pool.close()


def test_a_slot_that_spark_starts_again_is_refused_and_ends_the_attempt():
    events = Events()
    pool = SlotPool("a" * 32, 0, 1, SECRET, events, unix_sockets=False)
    pool.start()
    again = ControlClient(*pool.description.coordinator, SECRET)
    with pytest.raises(ControlError, match="lost its state"):
        again.call("register", slot=0, attempt=0, pid=2, task_attempt=1, control=["127.0.0.1", 1], data="y")
    assert events.calls == ["0 lost"]
    assert pool.pids == {}
    pool.close()


def test_heartbeats_tell_how_much_state_was_read(hanging):
    pool, slot, _ = hanging
    assert pool.restored_bytes == 0
    slot.call("heartbeat", restored=1 << 20)
    assert pool.restored_bytes == 1 << 20


def test_a_slot_whose_watchdog_writes_without_heartbeats_is_not_silent(hanging, monkeypatch, capsys):
    pool, slot, _ = hanging
    now = [time.monotonic()]
    monkeypatch.setattr(registered_slot, "time", SimpleNamespace(monotonic=lambda: now[0]))
    watchdog = ControlClient(*pool.description.coordinator, SECRET)
    watchdog.call("watchdog", slot=0, attempt=0)
    frame = f'  File "{OUR_CODE}/runtime/slot/subtask.py", line 1 in run'
    held = f'Thread 0x1 (most recent call first):\n  File "/jobs/job.py", line 7 in process_element\n{frame}\n'
    for _ in range(3):
        now[0] += 0.9 * HEARTBEAT_TIMEOUT_S
        os.write(watchdog.fileno(), f"Timeout (0:00:10)!\n{held}\n".encode())
        wait_until(lambda: pool._slots[0]._last_sign == now[0])
        assert pool.silent_slot() is None
    said = capsys.readouterr().err
    assert said.count("interpreter is held, by line 7 in process_element of /jobs/job.py") == 1, "said once"
    now[0] += 1.1 * HEARTBEAT_TIMEOUT_S  # the watchdog has ended, too
    assert pool.silent_slot() == 0


@needs_proc
def test_on_one_machine_a_process_that_runs_is_not_silent_and_a_stopped_one_is(monkeypatch):
    monkeypatch.setattr(registered_slot, "HEARTBEAT_TIMEOUT_S", 0.1)
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    pool = SlotPool("a" * 32, 0, 1, SECRET, Events())
    pool.start()
    slot = HangingSlot(pool, process.pid)
    try:
        time.sleep(0.3)
        assert pool.silent_slot() is None
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: pool.silent_slot() is not None)
        process.send_signal(signal.SIGCONT)
    finally:
        process.kill()
        process.wait()
        slot.go_on.set()
        pool.close()
        slot.server.close()
    assert can_run(process.pid) is False


def test_what_a_slot_wrote_at_last_says_how_it_ended(hanging):
    pool, slot, events = hanging
    slot.call("heartbeat")
    watchdog = ControlClient(*pool.description.coordinator, SECRET)
    watchdog.call("watchdog", slot=0, attempt=0)
    os.write(watchdog.fileno(), b"The process ended itself: os._exit(3)\n\nCurrent thread (most recent call first):\n")
    slot.client.close()
    watchdog.close()
    wait_until(lambda: events.calls)
    assert events.calls == ["0 died: os._exit(3)"]
