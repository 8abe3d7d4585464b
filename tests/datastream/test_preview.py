"""The first elements of a stream, taken by a job that isn't the program's."""

from __future__ import annotations

from typing import Any

import pytest

from pystate.common import Row, Types, WatermarkStrategy
from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import JobExecutionError, JobGraphError
from pystate.common.watermark_strategy import TimestampAssigner
from pystate.core.api.executor import Executor, register_executor
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.preview import PreviewEnd
from tests.datastream.test_collected_results import Job


class Giving(Executor):
    """Hands over what the test has for the job, which then goes on, ends or fails."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []
        self.end: Any = None
        self.jobs: list[Any] = []

    def base_configuration(self):
        return Configuration({"execution.checkpointing.interval": "1 s", "restart-strategy.type": "fixed-delay"})

    def spark_session(self, configuration):
        raise AssertionError

    def execute(self, graph, configuration, job_name):
        self.jobs.append((graph, configuration, job_name, None))

    def execute_async(self, graph, configuration, job_name, results=None):
        job = Job()
        self.jobs.append((graph, configuration, job_name, job))
        for batch in self.batches:
            results.put(batch)
        if self.end is not None:
            results.end(None if self.end == "finished" else self.end)
        return job


@pytest.fixture
def executor():
    made = Giving()
    register_executor(made)
    yield made
    register_executor(None)


@pytest.fixture
def env(executor):
    return StreamExecutionEnvironment.get_execution_environment()


def names(graph):
    return [step.name for step in graph.transformations()]


def test_the_job_ends_once_there_is_enough(env, executor):
    executor.batches = [[1, 2], [3, 4]]
    seen = env.from_collection([1]).preview(3)

    assert seen == [1, 2, 3]
    assert seen.ended is PreviewEnd.ENOUGH
    assert executor.jobs[0][3].cancels == 1


def test_a_stream_that_gives_nothing_more_ends_with_its_time(env, executor):
    executor.batches = [[1]]
    seen = env.from_collection([1]).preview(3, seconds=0.01)

    assert (list(seen), seen.ended) == ([1], PreviewEnd.TIME_IS_OVER)
    assert executor.jobs[0][3].cancels == 1
    assert "no more within 0.01 s" in repr(seen)


def test_input_that_ends_is_all_there_is(env, executor):
    executor.batches, executor.end = [[1]], "finished"
    assert env.from_collection([1]).preview(3).ended is PreviewEnd.END_OF_INPUT


def test_what_the_job_failed_with_is_raised(env, executor):
    executor.end = JobExecutionError("The slots were lost.")
    with pytest.raises(JobExecutionError, match="slots were lost"):
        env.from_collection([1]).preview()


def test_only_the_stream_runs_and_the_program_has_all_of_its_steps_for_its_own_job(env, executor):
    executor.batches = [[1]]
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Assign())
    numbers = env.from_collection([1], Types.INT()).assign_timestamps_and_watermarks(times).name("times")
    keyed = numbers.map(lambda n: n, Types.INT()).name("same").key_by(lambda n: n)
    keyed.print()
    numbers.map(lambda n: -n).name("other").print()
    env.from_collection([5]).print()
    before = names(env._graph())

    keyed.preview(1)
    assert names(executor.jobs[0][0]) == ["Collection Source", "times", "same", "Preview"]
    assert names(env._graph()) == before

    env.execute("mine")
    assert names(executor.jobs[1][0]) == before
    keyed.preview(1)  # of steps that a job has taken
    assert names(executor.jobs[2][0]) == names(executor.jobs[0][0])
    with pytest.raises(JobGraphError, match="Nothing was built since"):
        env.execute()


def test_what_was_only_previewed_is_no_part_of_the_next_job_unless_something_is_built_on_it(env, executor):
    executor.batches = [[1]]
    kept = env.from_collection([1], Types.INT()).map(lambda n: n).name("kept")
    kept.print()
    tried = env.from_collection([2], Types.INT()).map(lambda n: n).name("tried")
    tried.preview(1)
    kept.filter(bool).preview(1)
    assert names(env._graph()) == ["Collection Source", "kept", "Print"]

    tried.print()
    assert names(env._graph()) == ["Collection Source", "kept", "Print", "Collection Source", "tried", "Print"]


class Assign(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


def test_it_takes_no_checkpoints_starts_from_nothing_and_is_not_restarted(env, executor):
    executor.batches = [[1]]
    env.from_collection([1]).preview(1)
    _, configuration, name, _ = executor.jobs[0]

    assert name == "preview of Collection Source"
    found = configuration.to_dict()
    assert "execution.checkpointing.interval" not in found
    assert found["restart-strategy.type"] == "none"


@pytest.mark.parametrize("limits", [{"n": 0}, {"seconds": 0}])
def test_limits_are_positive(env, limits):
    with pytest.raises(JobGraphError, match="positive"):
        env.from_collection([1]).preview(**limits)


ROW = Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.LONG()])
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


@pytest.mark.parametrize(
    ("type_info", "elements", "columns"),
    [
        (ROW, [Row(word="a", count=1), Row(word="<b>", count=2)], ["word", "count"]),
        (ROW, [], ["word", "count"]),
        (PAIR, [("a", 1), ("<b>", 2)], ["f0", "f1"]),
        (Types.STRING(), ["a", "<b>"], ["value"]),
        (None, ["a", ("b", 2)], ["value"]),
        (None, [], ["value"]),
    ],
)
def test_it_is_a_table(env, executor, type_info, elements, columns):
    executor.batches, executor.end = [elements], "finished"
    seen = env.from_collection([], type_info).preview()

    assert seen.columns == columns
    assert list(seen.to_pandas().columns) == columns
    assert len(seen.to_pandas()) == len(elements)
    assert repr(seen).splitlines()[0].split() == columns
    assert "<b>" not in seen._repr_html_()
    assert seen._repr_html_().count("<tr>") == 1 + len(elements)
