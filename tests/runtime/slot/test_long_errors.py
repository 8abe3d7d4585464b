"""Functions that raise errors whose text holds a whole record or more."""

import pytest

from pystate.common.errors import UserFunctionError
from pystate.common.text.bounded_text import MAX_MESSAGE, MAX_TRACE
from pystate.common.user_code.user_frames import user_frame
from pystate.datastream import CheckpointedFunction, KeyedProcessFunction
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from tests.runtime.slot.harness import SlotHarness

TEXT = "beginning " + "x" * 1_000_000 + " end"


class Wordy(KeyedProcessFunction, CheckpointedFunction):
    def __init__(self, place):
        self.place = place

    def process_element(self, value, ctx):
        if self.place == "process_element":
            raise ValueError(TEXT)
        yield value, 1

    def initialize_state(self, context):
        pass

    def snapshot_state(self, context):
        raise ValueError(TEXT)


def check(message):
    assert len(message) < MAX_MESSAGE + 200
    assert "ValueError: beginning" in message
    assert message.endswith(" end")


def test_the_error_of_an_element_is_cut_before_it_goes_anywhere(tmp_path):
    slot = SlotHarness(tmp_path, Wordy("process_element"))
    with pytest.raises(UserFunctionError) as caught:
        slot.run_epoch(0, ["a"])
    check(caught.value.message)
    ((failure, trace),) = slot.coordinator.failures
    check(failure.message)
    assert len(trace) < MAX_TRACE + 200
    assert "in process_element" in user_frame(trace)[0]


def test_the_error_of_a_snapshot_is_cut_too(tmp_path):
    slot = SlotHarness(tmp_path, Wordy("snapshot_state"))
    slot.run_epoch(0, ["a"])
    location = f"file:{tmp_path}/chk-1"
    slot.subtask.snapshot_between_epochs(
        CheckpointBarrier(checkpoint_id=1, epoch=0, location=location, inline_threshold=1 << 20, trigger_timestamp=0)
    )
    check(slot.coordinator.declined[1].message)
    slot.close()
