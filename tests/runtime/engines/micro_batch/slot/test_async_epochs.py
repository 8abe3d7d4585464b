"""Epochs whose calls of an `AsyncFunction` fail, hang, or are made again."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import pytest

from pystate.common.errors import PystateError
from pystate.common.time import Time
from pystate.core.api.async_function import AsyncFunction, AsyncFunctionDescriptor
from pystate.core.api.async_retry import NO_RETRY_STRATEGY
from pystate.core.api.operator_kind import OperatorKind
from pystate.runtime.engines.micro_batch.slot.epoch_ledger import TaskOutcome
from pystate.runtime.engines.micro_batch.slot.protocol import receive_admission
from pystate.runtime.plan.chain import Chain, ChainNode, OperatorSpec
from tests.runtime.engines.micro_batch.slot.test_epoch_transaction import half_an_epoch, in_thread
from tests.runtime.slot.harness import OUT, SlotHarness, send_batches
from tests.waiting import LONGEST_S, wait_until


class Lookup(AsyncFunction):
    """Answers with what it got; hangs at "hang" as long as that is held, raises at "water"."""

    held = True

    def __init__(self):
        self.calls = Counter()
        self.cancelled = Counter()

    async def async_invoke(self, value):
        word, _ = value
        self.calls[word] += 1
        try:
            if word == "hang" and Lookup.held:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled[word] += 1
            raise
        if word == "water":
            message = "poisoned water"
            raise ValueError(message)
        return [value]


@pytest.fixture
def function():
    Lookup.held = True
    return Lookup()


@pytest.fixture
def slot(tmp_path, function):
    mode = AsyncFunctionDescriptor.OutputMode.ORDERED
    descriptor = AsyncFunctionDescriptor(function, Time.hours(1), 2, NO_RETRY_STRATEGY, mode)
    node = ChainNode(OperatorSpec("lookup", "lookup", OperatorKind.ASYNC_WAIT, descriptor), outputs=[OUT])
    harness = SlotHarness(tmp_path, chain=Chain(children=[node]))
    yield harness
    harness.close()
    # a thread that was told to end may take a moment
    wait_until(lambda: not any(thread.name.startswith("async-wait") for thread in threading.enumerate()))


def test_an_epoch_ends_when_its_calls_have(slot, function):
    words = ["a", "b", "a", "c", "a"]
    assert slot.run_epoch(0, words) == [("a", 1), ("b", 1), ("a", 2), ("c", 1), ("a", 3)]
    assert slot.bring(1, ["a"]) == [("a", 4)]
    assert slot.bring(1, ["a"], stage=2) == [("a", 4)]  # an epoch that is asked again doesn't call again
    assert function.calls == {"a": 4, "b": 1, "c": 1}


def test_an_epoch_that_is_rolled_back_calls_again(slot, function):
    slot.coordinator.outcomes[0] = TaskOutcome.FAILED
    assert slot.bring(0, ["a", "b"], attempt=0) == [("a", 1), ("b", 1)]
    assert slot.run_epoch(0, ["a", "b"], attempt=1) == [("a", 1), ("b", 1)]
    assert function.calls == {"a": 2, "b": 2}


def test_a_newer_attempt_fences_one_whose_calls_hang_after_all_of_its_rows(slot, function):
    hanging = slot.connect(slot.header(0, attempt=0))
    receive_admission(hanging)
    send_batches(hanging, [(0, slot.batch(["a", "hang"]))])
    wait_until(lambda: function.calls["hang"])
    Lookup.held = False
    assert slot.run_epoch(0, ["a", "hang"], attempt=1) == [("a", 1), ("hang", 1)]
    assert function.cancelled == {"hang": 1}
    assert function.calls == {"a": 2, "hang": 2}
    assert slot.run_epoch(1, ["hang"]) == [("hang", 2)]
    hanging.close()


def test_a_newer_attempt_fences_one_that_waits_for_capacity(slot, function):
    hanging = half_an_epoch(slot, 0, ["hang", "hang", "hang", "a"], attempt=0)
    wait_until(lambda: function.calls["hang"] == 2)
    Lookup.held = False
    assert slot.run_epoch(0, ["a"], attempt=1) == [("a", 1)]
    assert function.cancelled == {"hang": 2}
    hanging.close()


def test_what_a_call_raises_fails_the_task_with_the_users_line(slot, function):
    with pytest.raises(PystateError, match="poisoned water"):
        slot.run_epoch(0, ["a", "water"])
    ((error, trace),) = slot.coordinator.failures
    assert "ValueError: poisoned water" in error.message
    first, line = trace.splitlines()[1:3]
    assert __file__ in first
    assert "in async_invoke" in first
    assert line.strip() == "raise ValueError(message)"


def test_the_end_of_a_slot_ends_calls_that_hang_and_the_epoch_that_waits_for_them(slot, function):
    thread, result = in_thread(lambda: slot.bring(0, ["hang"]))
    wait_until(lambda: function.calls["hang"])
    slot.close()
    thread.join(LONGEST_S)
    assert not thread.is_alive()
    assert "error" in result
    assert function.cancelled == {"hang": 1}
    assert slot.subtask._claim is None  # it was rolled back before the end
    assert slot.coordinator.failures == []
