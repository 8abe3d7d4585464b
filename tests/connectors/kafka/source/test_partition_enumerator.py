"""Each partition is one reader's: those of the start, of a snapshot of either engine, and new ones."""

from __future__ import annotations

import logging
import threading

import pytest

from pystate.common.errors import JobGraphError, RestoreError
from pystate.connectors.kafka.offsets import EARLIEST, KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from pystate.connectors.kafka.source.partition_enumerator import KafkaPartitionEnumerator
from pystate.connectors.kafka.source.partition_reader import KafkaPartitionReader
from pystate.connectors.kafka.source.split_source import KafkaSplitSource
from pystate.connectors.kafka.source.topic_identity import RecreatedTopicError
from pystate.connectors.source import Boundedness, StartsAt
from tests.connectors.kafka.source.fake_consumer import Context, Fetcher, place, settings, topics_of
from tests.waiting import wait_until

LATEST, COMMITTED = KafkaOffsetsInitializer.latest(), KafkaOffsetsInitializer.committed_offsets


class Cluster:
    """Partitions 0 to 2 by default, which begin at 0 and end at 10."""

    def __init__(self, *numbers):
        self.numbers = list(numbers or (0, 1, 2))
        self.topic_id = "one"
        self.asked = []
        self.threads = []
        self.fails = False
        self.closed = False

    def partitions(self):
        self.threads.append(threading.current_thread().name)
        if self.fails:
            raise JobGraphError("away")
        return [place(number) for number in self.numbers]

    def offsets(self, initializer, partitions):
        self.asked.append((initializer, [partition.partition for partition in partitions]))
        return {partition: EARLIEST if initializer.kind.value == "earliest" else 10 for partition in partitions}

    def find_topics(self, topics):
        self.asked.append("ids")
        return topics_of(dict.fromkeys(topics, self.topic_id), self.numbers)(topics)

    def close(self):
        self.closed = True


def started(cluster, context, known=None, waiting=None, clock=lambda: 0, begin=None, ends=None, **how):
    enumerator = KafkaPartitionEnumerator(context, settings(**how), cluster, known, waiting, begin, ends, clock)
    enumerator.start()
    return enumerator


def all_given(enumerator, context, times=1):
    for subtask in list(range(context.current_parallelism())) * times:
        enumerator.handle_split_request(subtask, None)
    return {
        split.partition.partition: (split.offset, split.stop, split.has_records)
        for splits in context.given.values()
        for split in splits
    }


@pytest.mark.parametrize("parallelism", [1, 2, 3, 5])
def test_each_partition_goes_to_one_reader_and_readers_have_alike_many(parallelism):
    context = Context(parallelism)
    enumerator = started(Cluster(*range(6)), context)
    assert all_given(enumerator, context, 2) == dict.fromkeys(range(6), (EARLIEST, None, False))
    counts = [len(context.given.get(subtask, [])) for subtask in range(parallelism)]
    assert sum(counts) == 6
    assert max(counts) - min(counts) <= 1


def test_a_source_that_ends_knows_all_ends_from_the_start_and_says_that_no_more_follow():
    context, cluster = Context(2), Cluster()
    enumerator = started(cluster, context, stopping=LATEST, discovery_interval_ms=1)
    assert all_given(enumerator, context) == dict.fromkeys(range(3), (EARLIEST, 10, False))
    assert sorted(context.ended) == [0, 1]
    assert len(cluster.threads) == 1, "new partitions are behind its end"


def test_new_partitions_are_looked_for_on_a_thread_of_its_own_and_read_from_their_beginning():
    context, cluster, now = Context(), Cluster(), [0]
    enumerator = started(cluster, context, clock=lambda: now[0], starting=LATEST, discovery_interval_ms=100)
    assert all_given(enumerator, context) == dict.fromkeys(range(3), (10, None, False))
    cluster.numbers.append(3)
    now[0] = 99
    enumerator.handle_split_request(0, None)
    assert len(cluster.threads) == 1
    now[0] = 100
    wait_until(lambda: 3 in all_given(enumerator, context))
    assert all_given(enumerator, context)[3] == (EARLIEST, None, False)
    assert cluster.threads[0] != "kafka-discovery" == cluster.threads[1]
    assert [split.partition.partition for split in context.given[0]] == [0, 1, 2, 3], "each once"


def test_brokers_that_are_away_while_it_looks_are_told_once_and_asked_again(caplog):
    context, cluster, now = Context(), Cluster(), [0]
    enumerator = started(cluster, context, clock=lambda: now[0], discovery_interval_ms=1)
    cluster.fails = True
    with caplog.at_level(logging.WARNING):
        for tries in (2, 3, 4):
            now[0] += 10
            wait_until(lambda least=tries: enumerator.handle_split_request(0, None) or len(cluster.threads) >= least)
    assert len(caplog.records) == 1
    cluster.fails = False
    cluster.numbers.append(7)

    def found():
        now[0] += 10
        return 7 in all_given(enumerator, context)

    wait_until(found)


def test_a_restored_enumerator_has_what_nobody_had_and_what_has_come_since():
    first = started(Cluster(), Context(2))
    first.handle_split_request(0, None)
    source, context = KafkaSplitSource(settings()), Context(1)
    known, waiting = first.snapshot_state(1)
    assert len(known) + len(waiting) == 3
    assert known and waiting
    splits = [source.restore_split(plain) for plain in waiting]
    again = started(Cluster(0, 1, 2, 3), context, [place(number) for _, number in known], splits)
    assert sorted(all_given(again, context)) == sorted({0, 1, 2, 3} - {number for _, number in known})


def test_a_restored_one_that_ends_takes_no_new_partitions():
    context = Context()
    again = started(Cluster(0, 1), context, [place(0)], [], stopping=LATEST)
    assert all_given(again, context) == {}
    assert context.ended == [0]


def test_brokers_that_do_not_answer_fail_a_start_also_after_a_snapshot():
    for known in (None, [place(0)]):
        cluster = Cluster()
        cluster.fails = True
        with pytest.raises(JobGraphError):
            started(cluster, Context(), known)


def test_spark_offsets_are_gone_on_after_and_partitions_that_it_does_not_know_are_read_whole():
    cluster, context = Cluster(), Context()
    source = KafkaSplitSource(settings(starting=LATEST))
    source.go_on_after('{"t":{"0":5,"1":0}}', {})
    enumerator = started(cluster, context, starting=LATEST, begin=source._begin, ends=source._ends)
    assert all_given(enumerator, context) == {0: (5, None, True), 1: (0, None, False), 2: (EARLIEST, None, False)}
    assert cluster.asked == ["ids"], "and for no offsets"
    source.begin_anew()
    assert source._begin is None


def test_a_source_that_ends_ends_where_it_was_to_end_on_spark():
    cluster, context = Cluster(), Context()
    source = KafkaSplitSource(settings(stopping=LATEST))
    source.go_on_after('{"t":{"0":5}}', {"pystate-stopping": b'{"t":{"0":7,"1":8}}', "0": b"v1\n{}"})
    enumerator = started(cluster, context, stopping=LATEST, begin=source._begin, ends=source._ends)
    assert all_given(enumerator, context) == {0: (5, 7, True), 1: (EARLIEST, 8, False), 2: (EARLIEST, 10, False)}
    assert cluster.asked == [(LATEST, [2])]


@pytest.mark.parametrize("offset", ['{"logOffset":2}', "7", '{"index":2,"checksum":"x"}', "no"])
def test_positions_of_other_sources_are_refused(offset):
    with pytest.raises(RestoreError, match="another kind of source"):
        KafkaSplitSource(settings()).go_on_after(offset, {})


@pytest.mark.parametrize(
    ("how", "starts"),
    [
        ({}, StartsAt.THE_BEGINNING),
        ({"starting": LATEST}, StartsAt.THE_END),
        ({"starting": COMMITTED(KafkaOffsetResetStrategy.LATEST)}, StartsAt.THE_END),
        ({"starting": COMMITTED(KafkaOffsetResetStrategy.EARLIEST)}, StartsAt.THE_GROUPS_OFFSETS),
        ({"starting": COMMITTED(), "commits_offsets": False}, StartsAt.THE_BEGINNING),
        ({"starting": KafkaOffsetsInitializer.offsets({}, KafkaOffsetResetStrategy.LATEST)}, StartsAt.THE_END),
    ],
)
def test_where_it_begins_is_known_for_what_is_promised(how, starts):
    source = KafkaSplitSource(settings(**how))
    assert source.starts_at is starts
    assert source.get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED


def test_positions_of_sparks_go_on_with_the_ids_of_their_topics():
    source, context = KafkaSplitSource(settings()), Context()
    source.go_on_after('{"t":{"0":5}}', {"pystate-identity": b'{"t": "one"}'})
    enumerator = KafkaPartitionEnumerator(context, settings(), Cluster(0, 1), begin=source._begin, ids=source._ids)
    enumerator.start()
    all_given(enumerator, context)
    given = {split.partition.partition: split.topic_id for splits in context.given.values() for split in splits}
    assert given == {0: "one", 1: None}, "nothing was read of the other one"


def test_an_offset_is_of_the_topic_that_was_there_before_it_was_asked_for():
    cluster, context = Cluster(0, 1), Context()
    enumerator = started(cluster, context, starting=LATEST)
    all_given(enumerator, context)
    assert cluster.asked == ["ids", (LATEST, [0, 1])]
    assert {split.topic_id for split in context.given[0]} == {"one"}
    again = Context()
    all_given(started(Cluster(0), again), again)
    assert [split.topic_id for split in again.given[0]] == [None], "its beginning is every topic's"


@pytest.mark.parametrize("known", [None, [place(0)]])
def test_a_partition_that_a_topic_has_got_by_being_made_anew_is_told_by_its_id(known):
    """Also after a snapshot of an older version, which has no ids: they are those of the start."""
    cluster, context, now = Cluster(0), Context(), [0]
    enumerator = started(cluster, context, known, [], clock=lambda: now[0], discovery_interval_ms=100)
    all_given(enumerator, context)
    cluster.numbers, cluster.topic_id, now[0] = [0, 1], "two", 100
    wait_until(lambda: 1 in all_given(enumerator, context))
    (split,) = [split for split in context.given[0] if split.partition.partition == 1]
    assert split.topic_id == "one"
    reader = KafkaPartitionReader(context, settings(), Fetcher(), cluster.find_topics)
    with pytest.raises(RecreatedTopicError, match=r"\(one\).*\(two\)"):
        reader.add_splits([split])
