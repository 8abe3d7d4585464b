"""Partitions are read from their position to their end, each record once."""

from __future__ import annotations

import math

import pytest
from confluent_kafka import KafkaError

from pystate.common.errors import ExternalSystemError
from pystate.connectors.kafka.kafka_client import KafkaConnectorError
from pystate.connectors.kafka.offsets import EARLIEST, KafkaOffsetsInitializer
from pystate.connectors.kafka.source.partition_reader import KafkaPartitionReader
from pystate.connectors.kafka.source.partition_split import ASSIGNED, KafkaPartitionSplit
from pystate.connectors.kafka.source.topic_identity import MadeAnew, RecreatedTopicError
from pystate.connectors.source import InputStatus
from tests.connectors.kafka.source.fake_consumer import Context, Fetcher, Message, Output, end_of, place, settings, topics_of

LATEST = KafkaOffsetsInitializer.latest()


class Reading:
    def __init__(self, *splits, room=1000, answered=True, **how):
        self.now = 1000
        self.fetcher, self.output, self.context = Fetcher(), Output(room), Context()
        self.reader = KafkaPartitionReader(
            self.context, settings(**how), self.fetcher, topics_of({"t": None}), lambda: self.now
        )
        self.reader._size.count = 1000  # it begins with one
        self.reader.start()
        if answered:
            self.reader.handle_source_events(ASSIGNED)
        if splits:
            self.reader.add_splits([KafkaPartitionSplit(place(number), *more) for number, *more in splits])

    def poll(self, *messages):
        if messages:
            self.fetcher.batches.append(list(messages))
        return self.reader.poll_next(self.output)

    def positions(self, checkpoint=1):
        return {one.partition.partition: one.offset for one in self.reader.snapshot_state(checkpoint)}

    @property
    def elements(self):
        return [element for _, element, _ in self.output.elements]


def test_positions_are_after_what_was_handed_on_whatever_was_fetched():
    reading = Reading((0, 5), (1, EARLIEST), room=2, timed=True)
    assert reading.fetcher.assigned == [(0, 5), (1, EARLIEST)]
    assert reading.positions() == {0: 5, 1: EARLIEST}
    reading.poll(Message(0, 5, b"a", 11), Message(1, 7, b"b", 12), Message(1, 9, None), Message(0, 6, b"none"))
    assert reading.output.elements == [("t:0", "a", 11), ("t:1", "b", 12)]
    assert reading.positions() == {0: 6, 1: 8}, "the others were fetched and not handed on"
    reading.poll()
    assert reading.elements == ["a", "b"], "no value and no element are none"
    assert reading.positions() == {0: 7, 1: 10}


def test_how_far_each_partition_is_read_and_what_is_left_of_it_is_measured():
    reading = Reading((0, 5), (1, EARLIEST))
    told = lambda: {name.removeprefix("KafkaSourceReader.topic.t."): one() for name, one in reading.context.gauges.items()}  # noqa: E731
    assert told()["pendingRecords"] == 0, "no end is known yet"
    reading.fetcher.ends = {0: 9, 1: 20}
    reading.poll(Message(0, 5, b"a"), Message(1, 7, b"b"))
    assert told() == {
        "pendingRecords": 3 + 12,
        "partition.0.currentOffset": 5,
        "partition.0.pendingRecords": 3,
        "partition.1.currentOffset": 7,
        "partition.1.pendingRecords": 12,
    }


def test_what_is_left_is_not_known_where_all_was_read_and_the_brokers_are_away():
    reading = Reading((0, 5), (1, 0))
    told = lambda: [one() for name, one in reading.context.gauges.items() if name.endswith("pendingRecords")]  # noqa: E731
    reading.fetcher.ends = {0: 9, 1: 0}
    reading.fetcher.is_away = True
    every, first, second = told()
    assert (every, first, math.isnan(second)) == (4, 4, True), "what is left for sure is told"
    reading.fetcher.ends = {0: 5, 1: 0}
    assert all(map(math.isnan, told()))
    reading.fetcher.is_away = False
    assert told() == [0, 0, 0]


def test_a_reader_without_partitions_has_nothing_left_whether_or_not_the_brokers_are_there():
    """Nothing asks them again for it."""
    reading = Reading()
    reading.fetcher.is_away = True
    assert [one() for name, one in reading.context.gauges.items() if name.endswith("pendingRecords")] == [0]


def test_a_record_that_can_not_be_handed_on_is_named(monkeypatch):
    reading = Reading((0, 5), (1, 0))
    assert reading.reader.describe_position() is None
    collect = reading.output.collect

    def refuse(element, timestamp=None):
        if element == "bad":
            raise ValueError(element)
        collect(element, timestamp)

    monkeypatch.setattr(reading.output, "collect", refuse)
    with pytest.raises(ValueError, match="bad"):
        reading.poll(Message(0, 5, b"a"), Message(1, 3, b"b"), Message(0, 9, b"bad"), Message(1, 4, b"c"))

    assert reading.reader.describe_position() == "topic 't', partition 0, offset 9"


def test_records_have_no_times_where_nobody_asked_for_them():
    reading = Reading((0, 0))
    reading.poll(Message(0, 0, b"a", 11))
    assert reading.output.elements == [("t:0", "a", None)]


def test_a_partition_ends_before_its_stop_and_the_reader_after_its_last_one():
    reading = Reading((0, 0, 2), (1, 0, 5), (2, 3, 3), stopping=LATEST)
    assert reading.fetcher.assigned == [(0, 0), (1, 0)], "the third is at its end"
    reading.poll(Message(0, 0, b"a"), Message(0, 1, b"b"), Message(0, 2, b"after"), Message(1, 3, b"c"))
    assert reading.elements == ["a", "b", "c"]
    assert reading.fetcher.released == [0]
    assert reading.positions() == {1: 4}
    reading.reader.notify_no_more_splits()
    assert reading.poll(Message(1, 6, b"after a mark of a transaction")) is InputStatus.MORE_AVAILABLE
    assert reading.elements == ["a", "b", "c"]
    assert reading.poll() is InputStatus.END_OF_INPUT
    assert reading.positions() == {}


def test_the_end_of_a_partition_stands_for_what_has_no_record_at_the_end():
    reading = Reading((0, 0, 4), (1, EARLIEST, 2), stopping=LATEST)
    reading.reader.notify_no_more_splits()
    assert reading.poll(Message(0, 0, b"a"), end_of(0, 3)) is InputStatus.MORE_AVAILABLE
    assert reading.positions() == {0: 3, 1: EARLIEST}, "a transaction before the end is open"
    assert reading.poll() is InputStatus.NOTHING_AVAILABLE
    reading.poll(end_of(0, 4), end_of(1, 2))
    assert reading.poll() is InputStatus.END_OF_INPUT


def test_a_source_without_an_end_has_none_where_it_has_no_partitions():
    reading = Reading(discovery_interval_ms=None)
    reading.reader.notify_no_more_splits()
    assert reading.poll() is InputStatus.NOTHING_AVAILABLE
    assert reading.output.splits == [{}], "nobody waits for this subtask"


def test_nothing_is_read_and_event_time_waits_until_all_partitions_of_the_reader_are_known():
    reading = Reading((0, 0), answered=False)
    reading.poll(Message(0, 0, b"a"))
    assert (reading.elements, reading.output.splits, reading.context.requests) == ([], [], 1)
    assert reading.reader.available_at() < reading.now + 100, "an answer wakes nobody"
    reading.reader.add_splits([KafkaPartitionSplit(place(1), 0)])
    reading.reader.handle_source_events(ASSIGNED)
    reading.poll()
    assert (reading.elements, reading.output.splits[0]) == (["a"], {"t:0": True, "t:1": True})


def test_event_time_waits_for_partitions_that_may_have_records():
    reading = Reading((0, 0), (1, 0))
    reading.poll()
    reading.poll(Message(0, 0, b"a"), end_of(1, 0))
    reading.poll(end_of(0, 1))
    reading.poll(Message(1, 0, b"b"))
    reading.poll()
    told = [[splits["t:0"], splits["t:1"]] for splits in reading.output.splits]
    assert told == [[True, True], [True, False], [True, True]]
    again = Reading()
    again.reader.add_splits(reading.reader.snapshot_state(1))
    again.poll(end_of(0, 1), end_of(1, 1))
    assert again.output.splits == [{"t:0": True, "t:1": True}], "they had records before"


def test_new_partitions_are_asked_for_twice_each_interval():
    reading = Reading(discovery_interval_ms=5000)
    times = []
    for reading.now in range(0, 14_000, 500):
        before = reading.context.requests
        reading.poll()
        times += [reading.now] * (reading.context.requests - before)
    assert times == [0, 5000, 6000, 11_000, 12_000]
    assert reading.reader.available_at() == 17_000
    reading.fetcher.batches.append([Message(0, 0, b"a")])
    assert reading.reader.available_at() == reading.now


def test_a_source_that_ends_asks_once_and_wakes_for_records_only():
    reading = Reading(stopping=LATEST)
    for reading.now in range(0, 900_000, 90_000):
        reading.poll()
    assert reading.context.requests == 1
    assert reading.reader.available_at() > reading.now + 1_000_000


def test_offsets_of_completed_checkpoints_go_to_the_group_those_at_their_end_too():
    reading = Reading((0, 0, 2), (1, 0, 9), (2, EARLIEST, 9), group_id="g", stopping=LATEST)
    reading.poll(Message(0, 0, b"a"))
    reading.reader.snapshot_state(1)
    reading.poll(Message(0, 1, b"b"), Message(1, 0, b"c"))
    reading.reader.snapshot_state(2)
    reading.reader.notify_checkpoint_complete(1)
    assert reading.fetcher.commits == [{0: 1, 1: 0}]
    reading.reader.snapshot_state(3)
    reading.reader.notify_checkpoint_complete(3)
    reading.reader.notify_checkpoint_complete(2)
    reading.reader.snapshot_state(4)
    reading.reader.notify_checkpoint_complete(4)
    assert reading.fetcher.commits == [{0: 1, 1: 0}, {0: 2, 1: 1}], "each once, and none twice"


@pytest.mark.parametrize("how", [{}, {"group_id": "g", "commits_offsets": False}])
def test_no_offsets_are_committed_without_a_group_or_where_nobody_wants_it(how):
    reading = Reading((0, 0), **how)
    reading.reader.snapshot_state(1)
    reading.reader.notify_checkpoint_complete(1)
    assert reading.fetcher.commits == []


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (KafkaError._AUTO_OFFSET_RESET, "Offset 5 of partition 0 of 't' is not there"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "can't be read"),
    ],
)
def test_what_is_not_there_fails_the_job_with_a_sentence(code, words):
    reading = Reading((0, 5))
    with pytest.raises(KafkaConnectorError, match=words):
        reading.poll(Message(0, 5, error=KafkaError(code)))


def test_brokers_that_are_away_are_waited_for():
    reading = Reading((0, 5))
    reading.poll(Message(None, None, topic=None, error=KafkaError(KafkaError._ALL_BROKERS_DOWN)))
    reading.poll(Message(0, 5, b"a"))
    assert reading.elements == ["a"]


def reader_of_topic(topic_id, numbers=range(9), **how):
    fetcher = Fetcher()
    return fetcher, KafkaPartitionReader(Context(), settings(**how), fetcher, topics_of({"t": topic_id}, numbers))


def test_the_topic_of_an_offset_is_kept_with_it():
    _, reader = reader_of_topic("one")
    reader.add_splits([KafkaPartitionSplit(place(0), 5)])  # of a snapshot that doesn't know it
    (split,) = reader.snapshot_state(1)
    assert split.topic_id == "one"
    assert KafkaPartitionSplit.is_plain(split.to_plain())
    _, resumed = reader_of_topic("one")
    resumed.add_splits([split])
    _, unknown = reader_of_topic(None)  # brokers that are too old
    unknown.add_splits([split])
    assert unknown.snapshot_state(1)[0].topic_id == "one"


def test_an_offset_of_a_topic_that_was_made_anew_is_refused():
    _, reader = reader_of_topic("two")
    with pytest.raises(KafkaConnectorError, match="deleted and recreated.* offset 5 of partition 0") as refused:
        reader.add_splits([KafkaPartitionSplit(place(0), 5, topic_id="one")])
    assert "failOnDataLoss" in refused.value.hint


def test_who_takes_losses_reads_a_topic_that_was_made_anew_from_its_beginning():
    fetcher, reader = reader_of_topic("two", takes_losses=True)
    reader.add_splits([KafkaPartitionSplit(place(0), 5, topic_id="one")])
    assert fetcher.assigned == [(0, EARLIEST)]
    assert reader.snapshot_state(1)[0].topic_id == "two"


def reading_of_a_topic_that_is_made_anew(*splits, **how):
    reading, ids = Reading(), {"t": "one"}
    reading.reader = KafkaPartitionReader(Context(), settings(**how), reading.fetcher, topics_of(ids))
    reading.reader._size.count = 1000
    reading.reader.handle_source_events(ASSIGNED)
    reading.reader.add_splits([KafkaPartitionSplit(place(number), *more) for number, *more in splits])
    reading.poll()
    ids["t"] = "two"
    return reading


def test_no_checkpoint_holds_what_may_be_of_another_topic():
    reading = reading_of_a_topic_that_is_made_anew((0, 5))
    assert reading.positions() == {0: 5}, "nothing was handed on since its id was asked for"
    reading.poll(Message(0, 5, b"new"))
    with pytest.raises(RecreatedTopicError, match="recreated"):
        reading.positions()


def test_a_new_partition_of_another_topic_does_not_stand_for_those_that_are_read():
    reading = reading_of_a_topic_that_is_made_anew((0, 5))
    with pytest.raises(RecreatedTopicError, match=r"\(one\).*\(two\)"):
        reading.reader.add_splits([KafkaPartitionSplit(place(2), EARLIEST)])
    with pytest.raises(RecreatedTopicError):
        reading.positions()
    with pytest.raises(RecreatedTopicError):
        reading.poll(Message(0, 5, b"new"))
    assert reading.elements == []


def test_an_end_that_may_be_another_topics_moves_no_position():
    reading = reading_of_a_topic_that_is_made_anew((0, 5))
    reading.poll(end_of(0, 9))
    with pytest.raises(RecreatedTopicError):
        reading.positions()


def test_a_source_does_not_end_with_records_of_another_topic():
    reading = reading_of_a_topic_that_is_made_anew((0, 5, 6), stopping=LATEST)
    reading.reader.notify_no_more_splits()
    reading.poll(Message(0, 5, b"new"))
    with pytest.raises(RecreatedTopicError):
        reading.poll()


@pytest.mark.parametrize("code", [KafkaError._AUTO_OFFSET_RESET, KafkaError._UNKNOWN_PARTITION])
def test_a_partition_that_is_gone_with_its_topic_is_told_as_that(code):
    reading = reading_of_a_topic_that_is_made_anew((0, 5))
    with pytest.raises(RecreatedTopicError):
        reading.poll(Message(0, 5, error=KafkaError(code)))


def test_a_mark_of_the_fetchers_begins_the_new_topic_whatever_was_read_of_the_old_one():
    reading = reading_of_a_topic_that_is_made_anew((0, 5), (1, 0), takes_losses=True)
    reading.poll(Message(0, 5, b"old"), MadeAnew("t", "two", frozenset([0, 1])), Message(0, 0, b"new"))
    splits = {split.partition.partition: (split.offset, split.topic_id) for split in reading.reader.snapshot_state(1)}
    assert splits == {0: (1, "two"), 1: (EARLIEST, "two")}
    assert reading.elements == ["old", "new"]


def test_a_source_with_an_end_ends_where_the_new_topic_does():
    reading = reading_of_a_topic_that_is_made_anew((0, 5, 6), (1, 0, 9), takes_losses=True, stopping=LATEST)
    reading.reader.notify_no_more_splits()
    reading.poll(
        MadeAnew("t", "two", frozenset([0, 1])),
        *(Message(0, offset, str(offset).encode()) for offset in range(8)),
        end_of(1, 0),
    )
    assert reading.positions() == {0: 8}, "read beyond the old topic's end"
    assert reading.poll() is InputStatus.NOTHING_AVAILABLE
    resumed = Reading(takes_losses=True, stopping=LATEST)
    resumed.reader.add_splits(reading.reader.snapshot_state(1))
    resumed.reader.notify_no_more_splits()
    for one in (reading, resumed):
        one.poll(end_of(0, 8), Message(0, 8, b"later"))
        assert one.poll() is InputStatus.END_OF_INPUT
    assert (reading.elements, resumed.elements) == ([*"01234567"], [])


def test_a_source_with_an_end_whose_topic_was_made_anew_before_its_start_ends_where_that_does():
    fetcher, reader = reader_of_topic("two", takes_losses=True, stopping=LATEST)
    reader.add_splits([KafkaPartitionSplit(place(0), 5, 9, topic_id="one")])
    reader.handle_source_events(ASSIGNED)
    reader.notify_no_more_splits()
    fetcher.batches.append([end_of(0, 3)])
    reader.poll_next(Output())
    assert reader.poll_next(Output()) is InputStatus.END_OF_INPUT


@pytest.mark.parametrize("known", ["one", None])
def test_a_source_with_an_end_does_not_wait_for_a_partition_that_the_new_topic_lacks(known, caplog):
    fetcher, reader = reader_of_topic("two", numbers=[0], takes_losses=True, stopping=LATEST)
    reader.add_splits([KafkaPartitionSplit(place(1), 5, 9, topic_id=known)])
    assert (fetcher.assigned, reader.snapshot_state(1)) == ([], [])
    assert "without partition 1: what wasn't read of that is lost" in caplog.text
    reader.handle_source_events(ASSIGNED)
    reader.notify_no_more_splits()
    assert reader.poll_next(Output()) is InputStatus.END_OF_INPUT


def test_a_source_with_an_end_lets_go_of_a_partition_that_is_gone_while_it_runs():
    reading = reading_of_a_topic_that_is_made_anew((0, 5, 6), (1, 0, 9), takes_losses=True, stopping=LATEST)
    reading.reader.notify_no_more_splits()
    reading.poll(MadeAnew("t", "two", frozenset([0])), unknown(1), end_of(0, 0))
    assert reading.fetcher.released == [1, 0]
    assert reading.poll() is InputStatus.END_OF_INPUT


def test_a_source_without_an_end_reads_a_partition_once_the_new_topic_has_got_it():
    reading = reading_of_a_topic_that_is_made_anew((0, 5), (1, 5), takes_losses=True)
    reading.poll(MadeAnew("t", "two", frozenset([0])))
    assert reading.output.splits[-1] == {"t:0": True, "t:1": False}, "event time does not wait for it"
    reading.poll(unknown(1))
    assert reading.positions() == {0: EARLIEST, 1: EARLIEST}
    fetcher, resumed = reader_of_topic("two", numbers=[0], takes_losses=True)
    resumed.add_splits(reading.reader.snapshot_state(1))
    assert fetcher.assigned == [(0, EARLIEST), (1, EARLIEST)]
    reading.poll(Message(1, 0, b"a"))
    assert reading.elements == ["a"]
    with pytest.raises(KafkaConnectorError, match="can't be read"):
        reading.poll(unknown(1))


def unknown(partition):
    return Message(partition, None, error=KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))


def test_an_offset_of_unknown_topic_is_refused_where_its_partition_is_gone():
    _, reader = reader_of_topic("two", numbers=[0])
    reader.add_splits([KafkaPartitionSplit(place(0), 5)])
    with pytest.raises(RecreatedTopicError, match=r"offset 5 of partition 1 .*\(of an unknown id\).*\(two\)"):
        reader.add_splits([KafkaPartitionSplit(place(1), 5)])


def test_a_partition_that_brokers_do_not_know_yet_fails_a_start_that_may_be_tried_again():
    _, reader = reader_of_topic("one", numbers=[0])
    for split in (KafkaPartitionSplit(place(1), EARLIEST), KafkaPartitionSplit(place(1), 5, topic_id="one")):
        with pytest.raises(ExternalSystemError, match="has no partition 1 of 't'"):
            reader.add_splits([split])


def test_all_connections_are_closed_whatever_becomes_of_the_fetchers(monkeypatch):
    closed, fetcher = [], Fetcher()
    reader = KafkaPartitionReader(Context(), settings(), fetcher, topics_of({}), close=lambda: closed.append(1))
    reader.close()
    assert (fetcher.closed, closed) == (True, [1])
    monkeypatch.setattr(fetcher, "close", lambda: pytest.fail("the client"))
    with pytest.raises(pytest.fail.Exception):
        reader.close()
    assert closed == [1, 1]


def test_a_topic_that_is_not_there_fails_a_start():
    reader = KafkaPartitionReader(Context(), settings(), Fetcher(), topics_of({}))
    with pytest.raises(ExternalSystemError, match="has no topic 't'"):
        reader.add_splits([KafkaPartitionSplit(place(0), 5, topic_id="one")])


def test_a_position_without_a_topics_id_is_as_older_versions_wrote_it():
    plain = KafkaPartitionSplit(place(0), 5).to_plain()
    assert plain.keys() == {"topic", "partition", "offset", "stop", "has-records"}
    assert KafkaPartitionSplit.of(plain).topic_id is None
