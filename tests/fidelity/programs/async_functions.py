"""Asynchronous functions: ordered and unordered, with timeouts and with retries. PyFlink has them in streaming mode only."""

from pyflink.common import Time, Types
from pyflink.datastream import AsyncDataStream, AsyncFunction
from pyflink.datastream.async_retry_predicates import empty_result_predicate, has_exception_predicate
from pyflink.datastream.async_retry_strategies import ExponentialBackoffDelayRetryStrategy, FixedDelayRetryStrategy

INT, TEXT = Types.INT(), Types.STRING()
LONG_ENOUGH = Time.seconds(30)


def _numbers(env):
    return env.from_collection([1, 2, 3, 4, 5], INT)


class Slower(AsyncFunction):
    """The first elements take longest."""

    async def async_invoke(self, value):
        import asyncio

        await asyncio.sleep(0.06 - value / 100)
        return [value, value * 10]


class Numbered:
    """Numbers elements as they come, which shows their order."""

    def __init__(self):
        self.count = 0

    def __call__(self, value):
        self.count += 1
        return f"{self.count} {value}"


def ordered(env):
    return AsyncDataStream.ordered_wait(_numbers(env), Slower(), LONG_ENOUGH, 10, INT).map(Numbered(), TEXT)


def unordered(env):
    return AsyncDataStream.unordered_wait(_numbers(env), Slower(), LONG_ENOUGH, 10, INT)


def ordered_one_at_a_time(env):
    return AsyncDataStream.ordered_wait(_numbers(env), Slower(), LONG_ENOUGH, 1, INT).map(Numbered(), TEXT)


def unordered_one_at_a_time(env):
    return AsyncDataStream.unordered_wait(_numbers(env), Slower(), LONG_ENOUGH, 1, INT).map(Numbered(), TEXT)


class Some(AsyncFunction):
    async def async_invoke(self, value):
        return [f"{value} {part}" for part in range(value % 3)]


def none_or_several_results(env):
    return AsyncDataStream.unordered_wait(_numbers(env), Some(), LONG_ENOUGH, output_type=TEXT)


class Hangs(AsyncFunction):
    async def async_invoke(self, value):
        import asyncio

        if value % 2 == 0:
            await asyncio.sleep(3600)
        return [f"{value} in time"]

    def timeout(self, value):
        return [f"{value} timed out"]


def timeouts(env):
    return {
        "ordered": AsyncDataStream.ordered_wait(_numbers(env), Hangs(), Time.milliseconds(500), 10, TEXT),
        "unordered": AsyncDataStream.unordered_wait(_numbers(env), Hangs(), Time.milliseconds(500), 10, TEXT),
    }


class Tries(AsyncFunction):
    """Fails, or gives nothing, until an element has been tried often enough."""

    def __init__(self, raises, enough):
        self.raises = raises
        self.enough = enough

    def open(self, runtime_context):
        self.tries = {}

    async def async_invoke(self, value):
        self.tries[value] = self.tries.get(value, 0) + 1
        if self.tries[value] < min(value, self.enough):
            if self.raises:
                raise ValueError("not yet")
            return []
        return [f"{value} after {self.tries[value]}"]

    def timeout(self, value):
        return [f"{value} timed out after {self.tries[value]}"]


def fixed(tries, on_exception):
    if on_exception:
        return FixedDelayRetryStrategy(tries, 10, None, has_exception_predicate)
    return FixedDelayRetryStrategy(tries, 10, empty_result_predicate, None)


def retried_errors(env):
    return AsyncDataStream.unordered_wait_with_retry(_numbers(env), Tries(True, 9), LONG_ENOUGH, fixed(6, True), 10, TEXT)


def retried_results(env):
    return AsyncDataStream.ordered_wait_with_retry(_numbers(env), Tries(False, 9), LONG_ENOUGH, fixed(6, False), 10, TEXT)


def retries_that_end(env):
    """What is empty still when no try is left is the result."""
    return AsyncDataStream.unordered_wait_with_retry(_numbers(env), Tries(False, 9), LONG_ENOUGH, fixed(2, False), 10, TEXT)


def retried_with_growing_delays(env):
    strategy = ExponentialBackoffDelayRetryStrategy(6, 5, 50, 2.0, None, has_exception_predicate)
    return AsyncDataStream.unordered_wait_with_retry(_numbers(env), Tries(True, 9), LONG_ENOUGH, strategy, 10, TEXT)


def retried_until_the_timeout(env):
    strategy = FixedDelayRetryStrategy(1000, 3_600_000, empty_result_predicate, None)
    few = _numbers(env).filter(lambda value: value < 3)
    return AsyncDataStream.ordered_wait_with_retry(few, Tries(False, 9), Time.seconds(1), strategy, 10, TEXT)


def before_and_after_a_key(env):
    asked = AsyncDataStream.ordered_wait(_numbers(env), Slower(), LONG_ENOUGH, 10, INT)
    largest = asked.key_by(lambda value: "all", TEXT).max()
    last = AsyncDataStream.unordered_wait(largest, Some(), LONG_ENOUGH, 10, TEXT)
    return {"asked": asked.map(lambda value: value + 1, INT), "largest": last.filter(lambda text: text.startswith("50 "))}


ONE_SUBTASK = ("ordered", "ordered_one_at_a_time", "unordered_one_at_a_time", "before_and_after_a_key")
