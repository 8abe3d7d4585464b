"""Which sources are at their end after a batch, as Spark's offset log tells."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from pystate.common import Duration, Types, WatermarkStrategy
from pystate.common.errors import SnapshotError
from pystate.connectors.generated.collection_offset import collection_offset
from pystate.runtime.engines.micro_batch.driver.ended_sources import EndedSources
from pystate.runtime.engines.micro_batch.driver.stream_ends import StreamEnds
from pystate.runtime.engines.micro_batch.spark.exchange import ENDED_PROPERTY
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import NO_OFFSET, SparkCheckpointDirectory, SparkSource
from tests.runtime.plan.programs import keyed, planned, printed, process, source, united
from tests.runtime.plan.test_event_time import timed

PAIRS = Types.TUPLE([Types.STRING(), Types.LONG()])
ROWS = [("a", 1), ("b", 2)]


class Stopping:
    """Ends at a number of records."""

    def missing(self, end, latest):
        return None if int(latest) >= int(end) else "some"


def plan(*, bounded=False):
    """A collection, an empty one, a stream with an end, and one without; windows after all of them."""
    roots = [source(uid, output_type=PAIRS, uid=uid) for uid in ("read", "empty", "stopping", "live")]
    roots[0].collection, roots[1].collection = ROWS, []
    for root in roots[:3]:
        root.bounded = True
    roots[3].bounded = bounded
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
    stream = united(*(timed(root, strategy, uid=f"times {root.name}") for root in roots))
    printed(process(keyed(stream, selector=len, key_type=Types.LONG()), uid="count"))
    return planned(roots)


def ended(job, batches):
    streams = [SparkSource(uid, 0, number) for number, uid in enumerate(["read", "empty", "stopping", "live"])]
    return EndedSources(job, streams, batches.__getitem__, StreamEnds(by_source={"stopping": (Stopping(), b"9")}))


def uids(channels):
    return {channel.partition("/")[0] for channel in channels}


def told(found, batch):
    """What Spark's tasks are told; None for nothing."""
    properties = {}
    found.tell(SimpleNamespace(setLocalProperty=properties.__setitem__), batch, SimpleNamespace(isActive=False))
    return json.loads(properties[ENDED_PROPERTY]) if properties else None


def offsets(count, stopping, live="3"):
    return [json.dumps(collection_offset(ROWS, count)), NO_OFFSET, stopping, live]


def test_a_source_is_at_its_end_where_a_batch_has_read_all_of_it():
    found = ended(plan(), {0: offsets(1, NO_OFFSET), 1: offsets(2, "8"), 2: offsets(2, "9")})
    assert uids(found.channels(-1)) == {"empty"}
    assert uids(found.channels(0)) == {"empty"}
    assert uids(found.channels(1)) == {"empty", "read"}
    assert uids(found.channels(2)) == {"empty", "read", "stopping"}
    assert uids(told(found, 2)) == {"empty", "read", "stopping"}


def test_where_all_sources_end_the_query_does_and_no_batch_is_looked_at():
    found = ended(plan(bounded=True), {})
    assert found.channels(7) == ()
    assert told(found, 7) is None
    assert uids(found.channels(7, all_read=True)) == {"read", "empty", "stopping", "live"}


def test_a_batch_that_the_log_does_not_know_is_an_error(tmp_path):
    with pytest.raises(SnapshotError, match="offsets/3"):
        SparkCheckpointDirectory(tmp_path, []).offsets(3)
