"""Functions that take DataFrames, of an engine without epochs: Spark is replaced."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from pystate.common import Types
from pystate.common.errors import ControlError, UserFunctionError
from pystate.core.api.transformations import SinkKind, SinkTransformation
from pystate.runtime.engines.real_time.driver.frame_sinks import FrameSinks
from tests.runtime.plan.programs import keyed, planned, process, source
from tests.waiting import LONGEST_S, wait_until

LONG = Types.LONG()


class Frames:
    def createDataFrame(self, table, schema):  # noqa: N802 - Spark's name
        return table.column(0).to_pylist()


class Bench:
    def __init__(self, function, interval_s=0.0):
        counted = process(keyed(source(output_type=LONG), selector=abs, key_type=LONG), uid="count", output_type=LONG)
        SinkTransformation("ForEachBatch", (counted,), kind=SinkKind.FOR_EACH_BATCH, function=function)
        plan = planned([_root(counted)])
        self.failures = []
        self.sinks = FrameSinks(Frames(), plan, plan.sinks, interval_s, lambda error, trace: self.failures.append(error))
        self.schema = plan.task("count").output(plan.sinks[0].tag).schema()
        self.tag = plan.sinks[0].tag
        self.sinks.start()

    def put(self, *values):
        batch = pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], schema=self.schema)
        self.sinks.put("count", self.tag, batch.serialize().to_pybytes())


def _root(step):
    while step.parents:
        step = step.parents[0]
    return step


def test_what_came_since_the_last_call_comes_together_and_nothing_is_left_out():
    seen, go_on = [], threading.Event()

    def function(frame, number):
        seen.append((frame, number))
        go_on.wait(LONGEST_S)

    one = Bench(function)
    one.put(1)
    wait_until(lambda: seen)
    one.put(2)
    one.put(3, 4)
    handed_over = one.sinks.mark()
    one.put(5)
    assert not handed_over()
    go_on.set()
    assert one.sinks.flush(10)
    assert handed_over()
    assert seen == [([1], 0), ([2, 3, 4, 5], 1)]
    one.sinks.close()


def test_a_function_that_fails_fails_the_attempt_and_nothing_counts_as_handed_over():
    def function(frame, number):
        raise SystemExit(3)

    one = Bench(function)
    one.put(1)
    wait_until(lambda: one.failures)
    (failure,) = one.failures
    assert isinstance(failure, UserFunctionError)
    assert "SystemExit" in failure.message
    assert not one.sinks.flush(0.05)
    one.sinks.close()


def test_subtasks_wait_for_a_function_that_lags(monkeypatch):
    monkeypatch.setattr("pystate.runtime.engines.real_time.driver.frame_sinks.MOST_ROWS", 3)
    go_on, seen, put = threading.Event(), [], []

    def function(frame, number):
        go_on.wait(LONGEST_S)
        seen.extend(frame)

    one = Bench(function)
    one.put(0)

    def send():
        for value in range(1, 20):
            one.put(value)
            put.append(value)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    wait_until(lambda: len(put) >= 3)
    assert not thread.join(0.2)
    assert len(put) < 6
    go_on.set()
    thread.join(LONGEST_S)
    assert one.sinks.flush(10)
    assert seen == list(range(20))
    one.sinks.close()
    with pytest.raises(ControlError, match="over"):
        for value in range(9):
            one.put(value)
