"""Results go to the program once: after a checkpoint where attempts go back to one, at the epoch's end where none does."""

from __future__ import annotations

import pytest

from pystate.common import Types
from pystate.common.errors import RestoreError
from pystate.core.api.collected_results import ResultQueue
from pystate.core.api.transformations import SinkKind, SinkTransformation
from pystate.core.records.codec import RecordCodec
from pystate.runtime.checkpoint.live_attempt import AttemptOverError
from pystate.runtime.engines.micro_batch.driver.held_results import CollectedResults
from tests.runtime.plan.programs import mapped, planned, source

NUMBER = Types.LONG()


class Job:
    """A job with one sink of the program's."""

    def __init__(self, *, holds):
        self.queue = ResultQueue()
        numbers = source(output_type=Types.ROW_NAMED(["n"], [NUMBER]))
        SinkTransformation("Collect", (mapped(numbers, output_type=NUMBER),), kind=SinkKind.COLLECT, function=self.queue)
        plan = planned([numbers])
        (self.sink,) = plan.sinks
        self.completed = -1
        self.results = CollectedResults(plan, lambda: self.completed, holds=holds)
        self.results.begin_attempt(-1)

    def epoch(self, number, *elements):
        import pyarrow as pa

        codec = RecordCodec(NUMBER, "test")
        batches = [pa.RecordBatch.from_arrays(codec.encode([element]), schema=codec.schema) for element in elements]
        self.results.deliver(self.sink, number, batches)

    def taken(self):
        self.queue.end()
        return [element for batch in iter(self.queue.take, None) for element in batch]


def test_where_no_attempt_follows_results_come_with_their_epoch():
    job = Job(holds=False)
    job.epoch(0, 1)
    job.epoch(1, 2)
    job.results.close(finished=False)

    assert job.taken() == [1, 2]


def test_results_wait_for_a_checkpoint_of_their_epoch():
    job = Job(holds=True)
    job.epoch(0, 1)
    job.epoch(1, 2)
    assert not job.queue._batches
    job.completed = 0
    assert job.queue.take() == [1]

    job.results.close(finished=False)
    assert job.taken() == []


def test_what_will_be_made_again_is_dropped_and_the_rest_comes_with_the_jobs_end():
    job = Job(holds=True)
    job.epoch(0, 1)
    job.epoch(1, 2)
    job.results.attempt_over()
    job.results.begin_attempt(0)
    job.epoch(2, 3)
    job.completed = 0
    assert job.queue.take() == [1]

    job.results.close(finished=True)
    assert job.taken() == [3]


def test_results_that_were_taken_are_not_made_again():
    job = Job(holds=False)
    job.results.begin_attempt(-1)
    job.epoch(0, 1)

    with pytest.raises(RestoreError, match="taken already"):
        job.results.begin_attempt(-1)


def test_an_attempt_ends_though_the_program_takes_nothing():
    job = Job(holds=False)
    job.epoch(0, 1, 2)
    job.results.attempt_over()

    with pytest.raises(AttemptOverError):
        job.epoch(1, 3)


def test_an_epoch_waits_until_the_program_has_taken_what_is_sure():
    import threading

    job = Job(holds=True)
    job.completed = 5
    elements, took = list(range(8)), []
    waiting = threading.Thread(target=job.epoch, args=(0, *elements))
    waiting.start()
    while len(took) < len(elements):
        took.extend(job.queue.take())
    waiting.join()

    assert took == elements
    job.results.close(finished=True)
