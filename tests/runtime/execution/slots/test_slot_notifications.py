"""How the driver's slot pool tells slots what became of a checkpoint."""

import threading

import pytest

from pystate.common.errors import ControlError
from pystate.common.processes.control import ControlClient, ControlServer
from pystate.runtime.execution.slots.slot_pool import SlotPool
from tests.waiting import LONGEST_S

SECRET = b"secret"


class NoEvents:
    def handle_slot_call(self, op, arguments):
        raise AssertionError

    def slot_lost(self, slot, reason):
        raise AssertionError


class FakeSlot:
    """Answers the coordinator's calls; `go_on` holds its notifications back."""

    def __init__(self, pool, index):
        self.told = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.server = ControlServer(SECRET, self.handle)
        self.server.start()
        client = ControlClient(*pool.description.coordinator, SECRET)
        address = [self.server.host, self.server.port]
        client.call("register", slot=index, attempt=0, pid=1, task_attempt=0, control=address, data="x")

    def handle(self, request):
        if request["op"] == "notify":
            self.go_on.wait(LONGEST_S)
            self.told.append((request["checkpoint_id"], request["completed"]))
        elif request["op"] == "deploy":
            return None
        elif request["op"] != "shutdown":
            message = "unknown"
            raise ControlError(message)


@pytest.fixture
def pool_and_slots():
    pool = SlotPool("a" * 32, 0, 2, SECRET, NoEvents())
    pool.start()
    slots = [FakeSlot(pool, index) for index in range(2)]
    yield pool, slots
    for slot in slots:
        slot.go_on.set()
    pool.close()
    for slot in slots:
        slot.server.close()


def test_all_slots_are_told_in_the_order_of_the_checkpoints(pool_and_slots):
    pool, slots = pool_and_slots
    expected = [(number, number % 3 == 0) for number in range(20)]
    for future in [pool.notify(number, completed=completed) for number, completed in expected]:
        future.result(LONGEST_S)
    assert [slot.told for slot in slots] == [expected, expected]


def test_a_function_that_takes_its_time_holds_up_neither_the_other_slots_nor_other_calls(pool_and_slots):
    pool, (slow, quick) = pool_and_slots
    slow.go_on.clear()
    told = pool.notify(1, completed=True)
    pool.deploy([None, None])
    while not quick.told:
        pass
    assert not told.done()
    slow.go_on.set()
    told.result(LONGEST_S)
    assert slow.told == [(1, True)]


def test_a_slot_that_is_gone_is_not_told_and_nobody_waits_for_it(pool_and_slots):
    pool, (gone, there) = pool_and_slots
    gone.server.close()
    pool.notify(1, completed=True).result(LONGEST_S)
    assert there.told == [(1, True)]


def test_after_the_end_of_the_attempt_nobody_is_told(pool_and_slots):
    pool, slots = pool_and_slots
    pool.close()
    pool.notify(1, completed=True).result(LONGEST_S)
    assert [slot.told for slot in slots] == [[], []]
