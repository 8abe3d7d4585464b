"""What an epoch keeps of a timer at which a function fails."""

from __future__ import annotations

import pytest
from pyspark import cloudpickle

from pystate.common.errors import PystateError
from pystate.datastream import KeyedProcessFunction
from pystate.runtime.job_folder.failing_record import FailingRecord, StepKind
from tests.runtime.slot.harness import SlotHarness


class Alarm(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(10)
        yield value, 1

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), 1 // (timestamp - 10)


@pytest.mark.parametrize("kept", ["1", "0"])
def test_a_timer_of_an_epoch_before_that_fires_by_the_clock_of_this_one(tmp_path, kept):
    slot = SlotHarness(tmp_path, Alarm(), configuration={"pystate.debug.keep-failing-records": kept})
    try:
        slot.run_epoch(0, ["a"], clock=5)
        with pytest.raises(PystateError, match="ZeroDivisionError"):
            slot.bring(1, [], clock=20)
        (data,) = slot.coordinator.records
    finally:
        slot.close()

    if kept == "0":
        assert data is None
        return
    record = FailingRecord.from_bytes(data, "here")
    assert record.timer == ("PROCESSING_TIME", 10)
    assert cloudpickle.loads(record.key) == "a"
    assert [(step.kind, step.time) for step in record.steps] == [(StepKind.CLOCK, 20)]
    assert record.state, "with the timer in it"
