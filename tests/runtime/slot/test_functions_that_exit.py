"""Functions that call `sys.exit()`, or raise what ends a generator: a failure of the user's code, with its line."""

import sys

import pytest

from pystate.common.errors import PystateError, UserFunctionError
from pystate.datastream import CheckpointedFunction, CheckpointListener, KeyedProcessFunction
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from tests.runtime.slot.harness import SlotHarness


class Exits(KeyedProcessFunction, CheckpointedFunction, CheckpointListener):
    def __init__(self, place):
        self.place = place

    def leave(self, place):
        if place == self.place:
            sys.exit(3)

    def open(self, runtime_context):
        self.leave("open")

    def close(self):
        self.leave("close")

    def process_element(self, value, ctx):
        self.leave("process_element")
        yield value, 1

    def initialize_state(self, context):
        pass

    def snapshot_state(self, context):
        self.leave("snapshot_state")

    def notify_checkpoint_complete(self, checkpoint_id):
        self.leave("notify_checkpoint_complete")


def request(tmp_path):
    return CheckpointBarrier(
        checkpoint_id=1, epoch=0, location=f"file:{tmp_path}/chk-1", inline_threshold=1 << 20, trigger_timestamp=0
    )


def check(failure, trace, place):
    assert isinstance(failure, UserFunctionError)
    assert "SystemExit: 3" in failure.message
    assert f"in {place}\n" in trace


@pytest.mark.parametrize("place", ["process_element", "snapshot_state", "notify_checkpoint_complete"])
def test_a_function_that_exits_fails_its_task_with_its_line(tmp_path, place):
    slot = SlotHarness(tmp_path, Exits(place))
    if place == "process_element":
        with pytest.raises(UserFunctionError, match="SystemExit: 3") as caught:
            slot.run_epoch(0, ["a"])
        assert "can't end its job" in caught.value.hint
    else:
        slot.run_epoch(0, ["a"])
        slot.subtask.snapshot_between_epochs(request(tmp_path))
        slot.subtask.notify(1, completed=True)
    ((failure, trace),) = slot.coordinator.failures
    check(failure, trace, place)
    if place == "snapshot_state":
        assert "SystemExit: 3" in slot.coordinator.declined[1].message, "nobody waits for its part of the checkpoint"
    with pytest.raises(PystateError, match="SystemExit"):
        slot.run_epoch(1, ["a"])
    slot.close()


def test_a_function_that_exits_when_it_is_opened_fails_the_start(tmp_path):
    with pytest.raises(UserFunctionError, match="SystemExit: 3"):
        SlotHarness(tmp_path, Exits("open"))


class Closes(KeyedProcessFunction):
    def process_element(self, value, ctx):
        raise GeneratorExit


def test_a_function_that_raises_the_end_of_a_generator_fails_its_task_with_its_line(tmp_path):
    slot = SlotHarness(tmp_path, Closes())
    with pytest.raises(UserFunctionError, match="GeneratorExit"):
        slot.run_epoch(0, ["a"])
    ((_, trace),) = slot.coordinator.failures
    assert "in process_element\n" in trace
    slot.close()
