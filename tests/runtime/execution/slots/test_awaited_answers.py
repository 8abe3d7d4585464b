"""Calls to many slots wait for their answers on one thread."""

import threading
from types import SimpleNamespace

import pytest

from pystate.common.errors import ControlError, JobExecutionError
from pystate.common.processes.control import ControlClient, ControlServer
from pystate.runtime.execution.slots.slot_gateways import SlotGateways
from tests.waiting import LONGEST_S, wait_until

SECRET = b"s" * 64
SLOTS = 24


class Bench:
    """Slots that answer when they may."""

    def __init__(self):
        self.may_answer, self.called, self.alive = threading.Event(), [], True
        self.server = ControlServer(SECRET, self.handle)
        self.server.start()
        self.slots = [
            SimpleNamespace(index=index, control=ControlClient(self.server.host, self.server.port, SECRET))
            for index in range(SLOTS)
        ]
        self.gateways = SlotGateways(
            lambda: self.slots, lambda *_: None, self.check, lambda: None, at_once=SLOTS, timeout_s=None
        )

    def handle(self, request):
        self.called.append(request["slot"])
        assert self.may_answer.wait(LONGEST_S)
        if request["op"] == "fail":
            message = "no"
            raise ControlError(message)
        return request["slot"] * 2

    def check(self):
        if not self.alive:
            message = "given up"
            raise JobExecutionError(message)

    def call_all(self, op="double"):
        return self.gateways.call_all(op, lambda index: {"slot": index})


@pytest.fixture
def bench():
    made = Bench()
    yield made
    made.may_answer.set()
    for slot in made.slots:
        slot.control.close()
    made.gateways.close()
    made.server.close()


def waiting():
    return [thread for thread in threading.enumerate() if thread.name.startswith("slot-call")]


def test_no_thread_waits_for_a_slot_each(bench):
    answers = {}
    caller = threading.Thread(target=lambda: answers.update(bench.call_all()))
    caller.start()
    wait_until(lambda: len(bench.called) == SLOTS)
    assert waiting() == []
    bench.may_answer.set()
    caller.join(LONGEST_S)
    assert answers == {index: index * 2 for index in range(SLOTS)}


def test_a_slot_that_another_thread_calls_is_called_after_that(bench):
    other = threading.Thread(target=lambda: bench.slots[3].control.call("double", slot=99))
    other.start()
    wait_until(lambda: bench.called == [99])
    caller = threading.Thread(target=bench.call_all)
    caller.start()
    wait_until(lambda: len(bench.called) == SLOTS)
    assert 3 not in bench.called
    bench.may_answer.set()
    caller.join(LONGEST_S)
    other.join(LONGEST_S)
    assert bench.called[-1] == 3


def test_the_answers_of_a_call_that_was_given_up_are_read_before_the_next_call(bench):
    bench.alive = False
    with pytest.raises(JobExecutionError, match="given up"):
        bench.call_all()
    bench.alive = True
    bench.may_answer.set()
    assert bench.call_all() == {index: index * 2 for index in range(SLOTS)}


def test_what_a_slot_says_against_it_and_a_lost_slot_are_raised(bench):
    bench.may_answer.set()
    with pytest.raises(ControlError, match="no"):
        bench.call_all("fail")
    assert bench.call_all()[1] == 2
    bench.slots[5].control.hang_up()
    with pytest.raises(ControlError, match="connection was lost"):
        bench.call_all()
