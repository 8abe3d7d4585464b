"""Where bounded streams end that find their end themselves, over starts, snapshots and starts of the query."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pystate.common.errors import ExternalSystemError, JobExecutionError
from pystate.runtime.engines.micro_batch.driver.stream_ends import BoundedStreams, StreamEnds
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import SparkSource


class Queue:
    """A stream of one partition; its end is a number of records."""

    def __init__(self, end, there):
        self.end = end
        self.there = there
        self.away = False

    def find(self, known=None):
        return known or b"%d" % self.end

    def frame(self, end):
        return f"records before {int(end)}"

    def latest(self):
        if self.away:
            message = "no answer"
            raise JobExecutionError(message)
        return b"%d" % self.there

    def missing(self, end, latest):
        return None if int(latest) >= int(end) else f"{int(end)} are wanted, {int(latest)} are there"


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def plan(queue, *, batch=False, bounded=True, others=()):
    step = SimpleNamespace(name="in", stopping=queue, collection=None)
    sources = [SimpleNamespace(uid="in", step=step)]
    for name, collection in others:
        sources.append(SimpleNamespace(uid=name, step=SimpleNamespace(name=name, stopping=None, collection=collection)))
    return SimpleNamespace(sources=sources, batch=batch, bounded=bounded)


def streams(queue, **options):
    return BoundedStreams(plan(queue, **options), [SparkSource("in", 0, 3)], lambda frame, where: f"{where}: {frame}")


def test_the_end_lies_beside_the_streams_logs_and_what_a_snapshot_says_of_it_counts():
    first = streams(Queue(end=4, there=9))
    frames, files, _ = first.begin(["all"], {})
    assert frames == ["in: records before 4"]
    resumed = streams(Queue(end=8, there=9))
    frames, again, _ = resumed.begin(["all"], {**files, "offsets/0": b"x"})
    assert frames == ["in: records before 4"]
    assert again == {"sources/3/pystate-stopping": b"4", "offsets/0": b"x"}


def test_a_query_that_ended_before_the_end_starts_again_when_there_is_more():
    queue, clock, starts = Queue(end=4, there=2), Clock(), []
    ends = StreamEnds([(queue, b"4")], clock)

    def start():
        ends.query_starts()
        starts.append(queue.there)

    start()
    assert not ends.reached
    clock.now = 5
    ends.start_again(start)
    assert starts == [2], "there is no more"
    queue.there = 3
    ends.start_again(start)
    assert starts == [2], "it has just looked"
    clock.now, queue.away = 10, True
    ends.start_again(start)
    assert starts == [2], "it isn't there to be asked"
    clock.now, queue.away = 15, False
    ends.start_again(start)
    assert (starts, ends.reached) == ([2, 3], False)
    clock.now, queue.there = 20, 7
    ends.start_again(start)
    assert (starts, ends.reached) == ([2, 3, 7], True)


def test_streams_without_an_end_of_their_own_are_left_alone():
    frames, files = ["all"], {"offsets/0": b"x"}
    job = SimpleNamespace(sources=plan(None).sources, batch=False, bounded=True)
    began = BoundedStreams(job, [], lambda frame, where: frame).begin(frames, files)
    assert began[:2] == (frames, files)
    began[2].query_starts()
    assert began[2].reached


def test_a_job_with_a_source_that_goes_on_does_not_end_with_the_bounded_one():
    _, _, ends = streams(Queue(end=4, there=2), bounded=False).begin(["all"], {})
    ends.query_starts()
    assert ends.reached


@pytest.mark.parametrize("options", [{"batch": True}, {"others": [("files", None)]}], ids=["batch", "beside files"])
def test_an_end_that_is_not_there_is_refused_where_the_query_runs_once(options):
    with pytest.raises(ExternalSystemError, match="4 are wanted, 2 are there") as refused:
        streams(Queue(end=4, there=2), **options)
    assert "once the records are there" in refused.value.hint
    streams(Queue(end=4, there=4), **options)
    streams(Queue(end=4, there=2), others=[("collection", [1])])
