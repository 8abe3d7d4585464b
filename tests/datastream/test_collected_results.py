from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest

from pystate.common import Types
from pystate.common.completable_future import CompletableFuture, completed
from pystate.common.errors import JobCancelledError, JobExecutionError
from pystate.common.job_client import JobClient
from pystate.common.job_execution_result import JobExecutionResult
from pystate.common.job_id import JobID
from pystate.common.job_status import JobStatus
from pystate.core.api.collected_results import CloseableIterator, ResultQueue
from pystate.core.api.executor import Executor, register_executor
from pystate.datastream import StreamExecutionEnvironment


class Job(JobClient):
    def __init__(self) -> None:
        self.result = Future()
        self.cancels = 0

    def get_job_id(self):
        return JobID("a" * 32)

    def get_job_status(self):
        return completed(JobStatus.RUNNING)

    def cancel(self):
        self.cancels += 1
        self.result.set_exception(JobCancelledError("The job was cancelled."))
        return completed(None)

    def stop_with_savepoint(self, advance_to_end_of_event_time, savepoint_directory=None):
        raise AssertionError

    def trigger_savepoint(self, savepoint_directory=None):
        raise AssertionError

    def get_job_execution_result(self):
        return CompletableFuture(self.result)


def test_elements_come_in_their_order_and_end_with_the_job():
    queue = ResultQueue()
    queue.put([1, 2])
    queue.put([None])
    queue.end()

    assert list(CloseableIterator(queue, Job())) == [1, 2, None]


def test_what_the_job_failed_of_is_raised_after_its_last_element():
    queue = ResultQueue()
    queue.put([1])
    queue.end(JobExecutionError("The slots were lost."))
    elements = CloseableIterator(queue, Job())

    assert elements.next() == 1
    with pytest.raises(JobExecutionError, match="slots were lost"):
        elements.next()


def test_the_job_waits_while_the_program_has_enough():
    queue = ResultQueue()
    assert queue.put([1])
    assert queue.put([2])

    assert not queue.put([3], is_over=lambda: True)
    waiting = threading.Thread(target=queue.put, args=([3],))
    waiting.start()
    assert queue.take() == [1]
    waiting.join()
    queue.end()
    assert [queue.take(), queue.take(), queue.take()] == [[2], [3], None]


def test_closing_cancels_the_job_once_and_lets_it_hand_over_to_nobody():
    queue, job = ResultQueue(), Job()
    queue.put([1])
    queue.put([2])
    with CloseableIterator(queue, job) as elements:
        assert next(elements) == 1

    assert queue.put([3])
    assert list(elements) == []
    elements.close()
    assert job.cancels == 1


def test_closing_after_the_last_element_leaves_a_job_that_has_ended_alone():
    queue, job = ResultQueue(), Job()
    queue.end()
    job.result.set_result(JobExecutionResult("a" * 32, 7))

    CloseableIterator(queue, job).close()

    assert job.cancels == 0


def test_an_interrupt_while_the_program_waits_closes_the_iterator():
    """A notebook keeps the frames of the cell, so nothing else would."""
    queue, job = ResultQueue(), Job()

    def interrupted(deadline=None):
        raise KeyboardInterrupt

    queue.take = interrupted
    elements = CloseableIterator(queue, job)
    with pytest.raises(KeyboardInterrupt):
        next(elements)
    assert job.cancels == 1


class Collecting(Executor):
    """Hands over the elements of the collection that the job reads."""

    def __init__(self, configuration):
        self.configuration = configuration
        self.jobs = []

    def base_configuration(self):
        return self.configuration.copy()

    def spark_session(self, configuration):
        raise AssertionError

    def execute(self, graph, configuration, job_name):
        raise AssertionError

    def execute_async(self, graph, configuration, job_name, results=None):
        self.jobs.append((job_name, graph))
        job = Job()
        for element in graph.sources[0].collection:
            results.put([element], is_over=lambda: True)
        return job


@pytest.fixture
def executor():
    from pystate.common.configuration.configuration import Configuration

    made = Collecting(Configuration())
    register_executor(made)
    yield made
    register_executor(None)


def test_with_a_limit_the_program_gets_a_list_and_the_job_is_cancelled(executor):
    environment = StreamExecutionEnvironment.get_execution_environment()
    stream = environment.from_collection([1, 2], Types.INT())

    assert stream.execute_and_collect(limit=2) == [1, 2]
    assert stream.execute_and_collect("three", 1) == [1]

    assert [name for name, _ in executor.jobs] == ["DataStream Collect", "three"]


def test_each_job_has_the_sinks_of_its_own(executor):
    environment = StreamExecutionEnvironment.get_execution_environment()
    stream = environment.from_collection([1, 2], Types.INT())
    stream.execute_and_collect(limit=1)
    stream.map(lambda n: n).execute_and_collect(limit=1)

    graphs = [[step.name for step in graph.transformations()] for _, graph in executor.jobs]
    assert graphs == [["Collection Source", "Collect"], ["Collection Source", "Map", "Collect"]]
