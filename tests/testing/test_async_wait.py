"""Asynchronous functions under the public harness: order, capacity, timeouts, retries, errors, epochs, and their end."""

from __future__ import annotations

import asyncio
import functools
import threading
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from pystate.common import Types
from pystate.common.errors import ControlError, JobGraphError, StateDeclarationError, UserFunctionError
from pystate.common.time import Duration, Time
from pystate.core.api.async_function import AsyncFunction, AsyncFunctionDescriptor
from pystate.core.api.async_retry import (
    NO_RETRY_STRATEGY,
    AsyncRetryStrategy,
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
)
from pystate.core.api.state import ValueStateDescriptor
from pystate.datastream.async_retry_predicates import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)
from pystate.testing import KeyedOneInputOperatorTestHarness, OneInputOperatorTestHarness
from tests.waiting import LONGEST_S, wait_until

ORDERED = AsyncFunctionDescriptor.OutputMode.ORDERED
UNORDERED = AsyncFunctionDescriptor.OutputMode.UNORDERED
BOTH = pytest.mark.parametrize("mode", [ORDERED, UNORDERED])
NEVER = Time.milliseconds(0)


class Backwards(AsyncFunction[Any, Any]):
    """Answers the last of so many elements first."""

    def __init__(self, count: int) -> None:
        self._count = count

    def open(self, runtime_context: Any) -> None:
        self.calls: list[Any] = []
        self.closed = False
        self.answered: dict[int, asyncio.Event] = {}

    def close(self) -> None:
        self.closed = True

    async def async_invoke(self, value: Any) -> list[Any]:
        self.calls.append(value)
        own = self.answered.setdefault(value, asyncio.Event())
        if value + 1 < self._count:
            await self.answered.setdefault(value + 1, asyncio.Event()).wait()
        own.set()
        return [value, -value]


class Harness(OneInputOperatorTestHarness):
    def __init__(
        self,
        function: AsyncFunction[Any, Any],
        mode: AsyncFunctionDescriptor.OutputMode = ORDERED,
        *,
        timeout: Time | Duration = NEVER,
        capacity: int = 100,
        strategy: AsyncRetryStrategy[Any] = NO_RETRY_STRATEGY,
    ) -> None:
        super().__init__(AsyncFunctionDescriptor(function, timeout, capacity, strategy, mode))
        self.function: Any = function
        self.open()


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("async-wait")]


@pytest.mark.parametrize(("mode", "order"), [(ORDERED, [0, 1, 2]), (UNORDERED, [2, 1, 0])])
def test_results_go_on_in_the_order_of_elements_or_as_they_come(mode: Any, order: list[int]) -> None:
    with Harness(Backwards(3), mode) as harness:
        harness.process_elements([0, 1, 2], [10, 11, 12])
        assert harness.extract_output() == [result for value in order for result in (value, -value)]
        harness.end_epoch()
    assert harness.function.closed
    assert threads() == []


class Gauge(AsyncFunction[Any, Any]):
    """Counts how many calls are under way at the same time."""

    def __init__(self) -> None:
        self.under_way = self.most = 0

    async def async_invoke(self, value: Any) -> list[Any]:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        for _ in range(value % 7):
            await asyncio.sleep(0)
        self.under_way -= 1
        return [value]


@BOTH
@pytest.mark.parametrize("capacity", [1, 3])
def test_no_more_calls_are_under_way_than_the_capacity(mode: Any, capacity: int) -> None:
    with Harness(Gauge(), mode, capacity=capacity) as harness:
        harness.process_elements(range(50))
        assert sorted(harness.extract_output()) == list(range(50))
        assert harness.function.most == capacity
        if mode is ORDERED:
            assert harness.extract_output() == list(range(50))


class Held(AsyncFunction[Any, Any]):
    """Calls hang, as long as `held` is true."""

    def __init__(self) -> None:
        self.held = True
        self.calls: list[Any] = []
        self.cancelled: list[Any] = []

    async def async_invoke(self, value: Any) -> list[Any]:
        self.calls.append(value)
        try:
            if self.held:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.append(value)
            raise
        return [value]


@BOTH
def test_an_epoch_that_is_rolled_back_cancels_its_calls_and_the_next_one_calls_again(mode: Any) -> None:
    with Harness(Held(), mode) as harness:
        function = harness.function
        harness.process_elements([1, 2])
        wait_until(lambda: len(function.calls) == 2)
        harness.roll_back_epoch()
        wait_until(lambda: function.cancelled == [1, 2])
        function.held = False
        harness.process_elements([1, 2])
        assert sorted(harness.extract_output()) == [1, 2]
        assert function.calls == [1, 2, 1, 2]


@BOTH
def test_the_end_leaves_no_thread_and_no_call_after_though_calls_hang(mode: Any) -> None:
    harness = Harness(Held(), mode, timeout=Time.hours(1))
    harness.process_elements([1, 2])
    wait_until(lambda: len(harness.function.calls) == 2)
    assert len(threads()) == 1
    harness.close()
    assert threads() == []
    assert sorted(harness.function.cancelled) == [1, 2]


@BOTH
def test_who_waits_for_calls_that_hang_can_be_interrupted(mode: Any) -> None:
    with Harness(Held(), mode, capacity=1) as harness:
        raised: list[BaseException] = []

        def run() -> None:
            try:
                harness.process_elements([1, 2])
            except ControlError as error:
                raised.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        wait_until(lambda: harness.function.calls == [1])
        harness._chain.interrupt()
        thread.join(LONGEST_S)
        assert len(raised) == 1
        harness.roll_back_epoch()
        harness.function.held = False
        harness.process_elements([3, 4])  # an interruption ends with its epoch
        assert harness.extract_output() == [3, 4]


class SlowLate(Held):
    def timeout(self, value: Any) -> list[Any]:
        return ["late", value]


@BOTH
def test_a_call_that_takes_too_long_is_cancelled_and_timeout_says_what_comes_of_it(mode: Any) -> None:
    with Harness(SlowLate(), mode, timeout=Duration.of_millis(5)) as harness:
        harness.process_elements([1])
        assert harness.extract_output() == ["late", 1]
        wait_until(lambda: harness.function.cancelled == [1])


def test_without_a_timeout_method_the_task_fails() -> None:
    with Harness(Held(), timeout=Time.milliseconds(5)) as harness:
        harness.process_elements([1])
        with pytest.raises(TimeoutError, match="timed out for input: 1"):
            harness.extract_output()


class Fails(AsyncFunction[Any, Any]):
    def __init__(self, error: BaseException, times: int = 1 << 30) -> None:
        self.error, self.times = error, times
        self.calls: list[Any] = []

    async def async_invoke(self, value: Any) -> list[Any]:
        self.calls.append(value)
        if len(self.calls) <= self.times:
            raise self.error
        return [value]


@BOTH
@pytest.mark.parametrize("error", [ValueError("no"), SystemExit("no"), asyncio.CancelledError("no")])
def test_what_a_call_raises_comes_out_with_its_line_and_the_epoch_can_be_run_again(mode: Any, error: BaseException) -> None:
    with Harness(Fails(error, times=1), mode) as harness:
        with pytest.raises(type(error), match="no") as raised:
            harness.process_elements([1])
            harness.extract_output()
        lines = [frame.line for frame in traceback.extract_tb(raised.value.__traceback__)]
        assert "raise self.error" in lines
        harness.roll_back_epoch()
        harness.process_elements([1])
        assert harness.extract_output() == [1]


def test_an_error_is_not_held_up_by_an_older_call_that_hangs() -> None:
    class SecondFails(Held):
        async def async_invoke(self, value: Any) -> list[Any]:
            if value == 2:
                message = "the second"
                raise ValueError(message)
            return await super().async_invoke(value)

    with Harness(SecondFails(), ORDERED) as harness:
        harness.process_elements([1, 2])
        with pytest.raises(ValueError, match="the second"):
            harness.extract_output()


class Returns(AsyncFunction[Any, Any]):
    def __init__(self, result: Any) -> None:
        self.result = result

    async def async_invoke(self, value: Any) -> Any:
        return self.result


@pytest.mark.parametrize("result", [None, 7])
def test_a_result_that_is_no_list_is_refused(result: Any) -> None:
    with Harness(Returns(result)) as harness:
        harness.process_elements([1])
        with pytest.raises(UserFunctionError, match="is a list, not"):
            harness.extract_output()


HOUR = Time.hours(1)
FIXED = functools.partial(FixedDelayRetryStrategy[Any], backoff_time_millis=1)


@pytest.mark.parametrize("attempts", [2, 3])
def test_calls_are_made_again_as_often_as_the_strategy_says(attempts: int) -> None:
    strategy = FIXED(attempts, result_predicate=None, exception_predicate=has_exception_predicate)
    with Harness(Fails(ValueError("no"), times=3), timeout=HOUR, strategy=strategy) as harness:
        harness.process_elements([1])
        if attempts == 3:
            assert harness.extract_output() == [1]
        else:
            with pytest.raises(ValueError, match="no"):
                harness.extract_output()
        assert harness.function.calls == [1] * (attempts + 1)


def test_calls_are_made_again_for_results_that_are_no_good() -> None:
    strategy = FIXED(2, result_predicate=empty_result_predicate, exception_predicate=None)
    function: Any = Returns([])
    asked = []

    async def growing(value: Any) -> list[Any]:
        asked.append(value)
        return [] if len(asked) < 3 else [value]

    function.async_invoke = growing
    with Harness(function, timeout=HOUR, strategy=strategy) as harness:
        harness.process_elements([1])
        assert harness.extract_output() == [1]
        assert asked == [1, 1, 1]


def test_other_errors_are_not_called_again_and_what_a_predicate_raises_fails_the_task() -> None:
    only_os = FIXED(5, result_predicate=None, exception_predicate=lambda error: exception_type_predicate(error, OSError))
    with Harness(Fails(ValueError("no")), timeout=HOUR, strategy=only_os) as harness:
        harness.process_elements([1])
        with pytest.raises(ValueError, match="no"):
            harness.extract_output()
        assert harness.function.calls == [1]
    broken = FIXED(5, result_predicate=None, exception_predicate=lambda error: error.missing)
    with Harness(Fails(ValueError("no")), timeout=HOUR, strategy=broken) as harness:
        harness.process_elements([1])
        with pytest.raises(AttributeError, match="missing"):
            harness.extract_output()


def test_a_timeout_ends_retries() -> None:
    class Gives(Fails):
        def timeout(self, value: Any) -> list[Any]:
            return ["given up"]

    patient = FixedDelayRetryStrategy[Any](9, 3_600_000, None, has_exception_predicate)
    with Harness(Gives(ValueError("no")), timeout=Time.milliseconds(5), strategy=patient) as harness:
        harness.process_elements([1])
        assert harness.extract_output() == ["given up"]


def test_the_delays_of_the_strategies() -> None:
    growing = ExponentialBackoffDelayRetryStrategy[Any](4, 100, 500, 2.0, None, has_exception_predicate)
    assert [growing.get_backoff_time_millis(attempts) for attempts in (1, 2, 3, 4, 1)] == [100, 200, 400, 500, 100]
    assert [growing.can_retry(attempts) for attempts in (1, 4, 5)] == [True, True, False]
    fixed = AsyncRetryStrategy.fixed_delay(1, 7, None, has_exception_predicate)
    assert (fixed.get_backoff_time_millis(3), fixed.can_retry(1), fixed.can_retry(2)) == (7, True, False)
    assert not AsyncRetryStrategy.no_restart().can_retry(1)
    assert AsyncRetryStrategy.exponential_backoff(1, 2, 3, 4.0, None, None).get_backoff_time_millis(9) == 3
    wrong: list[Callable[[], Any]] = [lambda: FIXED(0, result_predicate=None, exception_predicate=None)]
    wrong.append(lambda: ExponentialBackoffDelayRetryStrategy(1, 1, 1, 0, None, None))
    for make in wrong:
        with pytest.raises(JobGraphError, match="above 0"):
            make()


class Stateful(AsyncFunction[Any, Any]):
    def open(self, runtime_context: Any) -> None:
        runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    async def async_invoke(self, value: Any) -> list[Any]:
        return [value]


def test_keyed_state_is_refused_after_a_key_too() -> None:
    descriptor = AsyncFunctionDescriptor(Stateful(), NEVER, 1, NO_RETRY_STRATEGY, ORDERED)
    with KeyedOneInputOperatorTestHarness(descriptor, abs) as harness:
        with pytest.raises(StateDeclarationError, match="asks for the keyed state 'count'"):
            harness.open()


class StopsTheLoop(AsyncFunction[Any, Any]):
    async def async_invoke(self, value: Any) -> list[Any]:
        asyncio.get_running_loop().stop()
        await asyncio.Event().wait()
        return []


def test_a_function_that_stops_the_loop_fails_its_task_and_holds_nobody_up() -> None:
    with Harness(StopsTheLoop()) as harness:
        with pytest.raises(BaseException) as raised:  # noqa: PT011, B017 - it is either of two
            harness.process_elements([1])
            harness.extract_output()
        assert type(raised.value).__name__ in ("CancelledError", "JobExecutionError")
