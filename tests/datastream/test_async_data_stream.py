"""Programs with `AsyncDataStream`: what is refused, where the step runs, and what comes of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from pystate.common import Types, WatermarkStrategy
from pystate.common.errors import JobGraphError
from pystate.common.time import Duration, Time
from pystate.core.api.executor import current_executor, register_executor
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.stream_graph import StreamGraph
from pystate.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    CheckpointListener,
    DataStream,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from pystate.datastream.async_retry_strategies import NO_RETRY_STRATEGY
from pystate.datastream.window import TumblingEventTimeWindows
from pystate.runtime.plan.planner import JobPlanner
from tests.datastream.test_joins import CLICK, SecondField
from tests.fidelity.in_process import InProcessExecutor

ELEMENTS = [("abc"[number % 3], number, number) for number in range(40)]
TIMEOUT = Time.seconds(30)


class Double(AsyncFunction[Any, Any]):
    async def async_invoke(self, value: Any) -> list[Any]:
        await asyncio.sleep(0.001 * (value[2] % 3))
        return [(*value[:2], 2 * value[2])]


class WithTime(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        yield value, ctx.timestamp()


def results(build: Any, parallelism: int = 2, rows_per_epoch: int = 7) -> list[Any]:
    before, found = current_executor(), []

    def take(frame: Any, epoch: int) -> None:
        found.extend(row[0] for row in frame.collect())

    register_executor(InProcessExecutor(parallelism, rows_per_epoch))
    try:
        env = StreamExecutionEnvironment.get_execution_environment()
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
        stream = env.from_collection(ELEMENTS, CLICK).assign_timestamps_and_watermarks(strategy)
        build(stream).map(repr, Types.STRING()).for_each_batch(take)
        env.execute()
    finally:
        register_executor(before)
    return found


def keyed(stream: DataStream) -> DataStream:
    return stream.key_by(lambda value: value[0], Types.STRING())


def as_it_is(stream: DataStream) -> DataStream:
    return stream


@pytest.mark.parametrize("partitioned", [keyed, as_it_is])
@pytest.mark.parametrize("wait", [AsyncDataStream.ordered_wait, AsyncDataStream.unordered_wait])
def test_elements_keep_their_times_and_windows_after_lose_none(partitioned: Any, wait: Any) -> None:
    def doubled(stream: DataStream) -> DataStream:
        return wait(partitioned(stream), Double(), TIMEOUT, 4, CLICK)

    assert Counter(results(lambda stream: doubled(stream).process(WithTime()))) == Counter(
        repr(((word, time, 2 * number), time)) for word, time, number in ELEMENTS
    )

    def summed(stream: DataStream) -> DataStream:
        windows = keyed(doubled(stream)).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        return windows.reduce(lambda one, other: (one[0], one[1] // 10 * 10, one[2] + other[2]))

    sums: Counter[tuple[str, int]] = Counter()
    for word, time, number in ELEMENTS:
        sums[word, time // 10 * 10] += 2 * number
    totals = [(word, start, total) for (word, start), total in sums.items()]
    assert Counter(results(summed)) == Counter(map(repr, totals))


def test_an_ordered_wait_keeps_the_order_of_a_subtask() -> None:
    found = results(lambda stream: AsyncDataStream.ordered_wait(stream, Double(), TIMEOUT, 5, CLICK), 1)
    assert found == [repr((word, time, 2 * number)) for word, time, number in ELEMENTS]


class FailsOnce(AsyncFunction[Any, Any]):
    def open(self, runtime_context: Any) -> None:
        self.seen: set[Any] = set()

    async def async_invoke(self, value: Any) -> list[Any]:
        if value not in self.seen:
            self.seen.add(value)
            raise OSError
        return [value]


@pytest.mark.parametrize("wait", [AsyncDataStream.ordered_wait_with_retry, AsyncDataStream.unordered_wait_with_retry])
def test_calls_are_made_again(wait: Any) -> None:
    strategy = AsyncRetryStrategy.fixed_delay(1, 1, None, lambda error: isinstance(error, OSError))
    found = results(lambda stream: wait(stream, FailsOnce(), TIMEOUT, strategy, 10, CLICK))
    assert Counter(found) == Counter(map(repr, ELEMENTS))


@pytest.mark.parametrize("partitioned", [keyed, as_it_is])
def test_the_step_runs_in_slots_though_the_stream_has_no_key(partitioned: Any) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = partitioned(env.from_collection(ELEMENTS, CLICK).map(lambda value: value, CLICK))
    waiting = AsyncDataStream.unordered_wait(stream, Double(), Duration.of_seconds(1)).name("lookup").uid("lookup")
    keyed(waiting).reduce(lambda one, other: one).print()
    graph = StreamGraph(env._sources)
    plan = JobPlanner(graph, graph.assign_uids(auto=True), 2, None).plan([CLICK])
    stages = [operator.kind for source in plan.sources if source.chain for operator in source.chain.all_operators()]
    (task,) = (task for task in plan.tasks if any(operator.uid == "lookup" for operator in task.operators))
    if partitioned is keyed:
        assert stages == [OperatorKind.MAP]
        assert [operator.name for operator in task.operators] == ["lookup"]
    else:
        assert stages == []
        assert [operator.name for operator in task.operators] == ["Map", "lookup"]
        assert task.head is None


class Blocking(AsyncFunction[Any, Any]):
    def async_invoke(self, value: Any) -> Any:
        return [value]


class Listening(Double, CheckpointListener):
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Do nothing."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Do nothing."""


def test_what_can_not_be_run_is_refused_when_the_program_is_built() -> None:
    stream = StreamExecutionEnvironment.get_execution_environment().from_collection(ELEMENTS, CLICK)
    wait: Any = AsyncDataStream.unordered_wait
    again: Any = AsyncDataStream.ordered_wait_with_retry
    retry = AsyncRetryStrategy.fixed_delay(1, 1, None, None)
    for attempt, message in [
        (lambda: wait(3, Double(), TIMEOUT), "takes a stream"),
        (lambda: wait(stream, len, TIMEOUT), "takes an AsyncFunction"),
        (lambda: wait(stream, Blocking(), TIMEOUT), "should be declared as 'async def'"),
        (lambda: wait(stream, Listening(), TIMEOUT), "takes no part in checkpoints"),
        (lambda: wait(stream, Double(), 30), "The timeout is a Time"),
        (lambda: wait(stream, Double(), TIMEOUT, 0), "a number from 1 on"),
        (lambda: again(stream, Double(), TIMEOUT, None), "is an AsyncRetryStrategy"),
        (lambda: again(stream, Double(), Time.seconds(0), retry), "A timeout above 0 is needed"),
    ]:
        with pytest.raises(JobGraphError, match=message):
            attempt()
    again(stream, Double(), Time.seconds(0), NO_RETRY_STRATEGY)
