"""The thread that fetches: bounded, alone with its consumer, and heard of where somebody sleeps."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import KafkaError, TopicPartition

from pystate.common.errors import ExternalSystemError
from pystate.connectors.kafka.kafka_client import KafkaConnectorError
from pystate.connectors.kafka.offsets import EARLIEST
from pystate.connectors.kafka.source import fetcher as fetcher_module
from pystate.connectors.kafka.source.fetcher import PartitionFetcher
from pystate.connectors.kafka.source.partition_split import KafkaPartitionSplit
from pystate.connectors.kafka.source.topic_identity import MadeAnew
from tests.connectors.kafka.source.fake_consumer import Consumer, Message, place, settings, topics_of
from tests.waiting import LONGEST_S, wait_until


@pytest.fixture
def fetching():
    made = []

    def make(batches=(), find_topics=None, **how):
        consumers, woken = [], []

        def consumer(own):
            consumers.append(Consumer(batches, own))
            return consumers[0]

        fetcher = PartitionFetcher(settings(**how), lambda: woken.append(1), consumer, find_topics)
        made.append(fetcher)
        return fetcher, consumers[0], woken

    yield make
    for fetcher in made:
        fetcher.close()


def messages(*offsets):
    return [Message(0, offset, b"a") for offset in offsets]


def test_batches_come_in_order_and_no_more_than_two_wait(fetching):
    fetcher, consumer, _ = fetching([messages(0, 1), messages(2), messages(3), messages(4), messages(5)])
    fetcher.start()
    wait_until(lambda: len(consumer.batches) == 2)
    taken = []
    wait_until(lambda: taken.extend(one.offset() for one in fetcher.take()) or len(taken) == 6)
    assert taken == [0, 1, 2, 3, 4, 5]


def test_who_sleeps_is_woken_once_and_who_does_not_is_left_alone(fetching):
    fetcher, consumer, woken = fetching()
    assert fetcher.sleep()
    fetcher.start()
    consumer.batches.append(messages(0))
    wait_until(lambda: woken == [1])
    consumer.batches.append(messages(1))
    wait_until(lambda: not consumer.batches)
    assert not fetcher.sleep()
    assert woken == [1]


def test_only_its_thread_touches_the_consumer_and_all_that_was_ordered_is_done_at_its_end(fetching):
    fetcher, consumer, _ = fetching(group_id="g")
    fetcher.start()
    fetcher.assign([KafkaPartitionSplit(place(0), 7), KafkaPartitionSplit(place(1), -2)])
    fetcher.release(place(1))
    fetcher.commit({place(0): 9})
    assert consumer.committed.wait(LONGEST_S)
    assert len(consumer.threads) == 1
    fetcher.commit({place(0): 10})
    fetcher.close()
    assert consumer.calls[:3] == [("assign", [(0, 7), (1, -2)]), ("unassign", [1]), ("commit", [(0, 9)])]
    assert consumer.calls[3:] == [("commit", [(0, 10)]), ("close",)]


def test_what_ends_the_thread_is_raised_after_what_came_before(fetching):
    fetcher, consumer, woken = fetching([messages(0)])
    fetcher.start()
    wait_until(lambda: not consumer.batches)
    consumer.fails = RuntimeError("broken")
    wait_until(lambda: fetcher._error is not None)
    assert [one.offset() for one in fetcher.take()] == [0]
    with pytest.raises(RuntimeError, match="broken"):
        fetcher.take()
    assert not fetcher.sleep()
    consumer.fails = None


def test_a_client_that_is_refused_fails_and_brokers_that_are_away_do_not(fetching):
    fetcher, consumer, _ = fetching()
    consumer.settings["error_cb"](KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert fetcher.take() == []
    consumer.settings["error_cb"](KafkaError(KafkaError._AUTHENTICATION))
    with pytest.raises(KafkaConnectorError, match="refuse the source's client"):
        fetcher.take()


def test_brokers_that_stay_away_do_not_fill_the_log(fetching, caplog):
    _, consumer, _ = fetching()
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            consumer.settings["error_cb"](KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert caplog.text.count("is away") == 1


def test_brokers_that_are_away_are_asked_until_they_are_there_again_though_nothing_new_comes(fetching, monkeypatch):
    monkeypatch.setattr(fetcher_module, "_ENDS_EACH_S", 0.01)
    fetcher, consumer, _ = fetching()
    consumer.away_until = 3
    fetcher.assign([KafkaPartitionSplit(place(0), 7)])
    consumer.settings["error_cb"](KafkaError(KafkaError._ALL_BROKERS_DOWN))
    fetcher.start()
    wait_until(lambda: not fetcher.is_away)
    assert consumer.asked == 3


def test_brokers_are_away_until_they_say_something(fetching):
    fetcher, consumer, _ = fetching()
    assert not fetcher.is_away
    consumer.settings["error_cb"](KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert fetcher.is_away
    fetcher.start()
    consumer.batches.append([Message(None, None, topic=None, error=KafkaError(KafkaError._ALL_BROKERS_DOWN))])
    wait_until(lambda: not consumer.batches)
    consumer.batches.append(messages(0))
    wait_until(lambda: len(fetcher.take()) == 1 and not fetcher.take())
    wait_until(lambda: not fetcher.is_away)


def test_commits_that_fail_are_told_once_and_again_when_they_go_well(fetching, caplog):
    _, consumer, _ = fetching(group_id="g")
    told = consumer.settings["on_commit"]
    with caplog.at_level(logging.WARNING):
        for error in (
            KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED),
            KafkaError(KafkaError.UNKNOWN_MEMBER_ID),
            None,
            None,
        ):
            told(error, [TopicPartition("t", 0)])
    assert [record.getMessage().split(": ")[1].split(" to ")[0] for record in caplog.records] == [
        "offsets are not committed",
        "offsets are committed",
    ]


def test_the_clients_settings_are_the_java_clients_where_they_differ_and_the_sources_own_stay(fetching):
    _, consumer, _ = fetching()
    assert consumer.settings["isolation.level"] == "read_uncommitted"
    assert consumer.settings["auto.offset.reset"] == "error"
    assert consumer.settings["enable.auto.commit"] is False
    _, lossy, _ = fetching(takes_losses=True, group_id="g")
    assert (lossy.settings["auto.offset.reset"], lossy.settings["group.id"]) == ("earliest", "g")


def test_records_of_a_topic_that_was_made_anew_are_dropped_and_it_is_read_from_its_beginning(fetching):
    ids = {"t": "one", "u": "u"}
    fetcher, consumer, _ = fetching(find_topics=topics_of(ids))
    fetcher.assign([KafkaPartitionSplit(place(number), 5, topic_id="one") for number in (0, 1, 2)])
    fetcher.assign([KafkaPartitionSplit(place(0, "u"), 5, topic_id="u")])
    fetcher.release(place(2))
    fetcher.start()
    taken = []
    consumer.batches.append(messages(5))
    wait_until(lambda: taken.extend(fetcher.take()) or len(taken) >= 1)
    ids["t"] = "two"
    consumer.batches.append([*messages(6), Message(0, 7, b"a", topic="u"), *messages(7)])
    wait_until(lambda: taken.extend(fetcher.take()) or len(taken) >= 3)
    consumer.batches.append(messages(0))
    wait_until(lambda: taken.extend(fetcher.take()) or len(taken) >= 4)
    assert taken[1] == MadeAnew("t", "two", frozenset(range(9)))
    assert [(one.topic(), one.offset()) for one in taken if one.error() is None] == [("t", 5), ("u", 7), ("t", 0)]
    assert consumer.calls[-2:] == [("unassign", [0, 1]), ("assign", [(0, EARLIEST), (1, EARLIEST)])]


def test_a_new_partition_of_a_topic_that_was_made_anew_has_all_of_them_read_from_their_beginning(fetching):
    fetcher, consumer, _ = fetching(find_topics=topics_of({"t": "two"}))
    fetcher.assign([KafkaPartitionSplit(place(0), 5, topic_id="one")])
    fetcher.assign([KafkaPartitionSplit(place(2), EARLIEST, topic_id="two")])
    consumer.batches.append([Message(2, 0, b"a"), *messages(5)])
    fetcher.start()
    taken = []
    wait_until(lambda: taken.extend(fetcher.take()) or taken)
    assert taken == [MadeAnew("t", "two", frozenset(range(9)))]
    assert consumer.calls[-2:] == [("unassign", [0, 2]), ("assign", [(0, EARLIEST), (2, EARLIEST)])]


def test_a_topic_made_anew_of_which_nothing_comes_is_found_by_asking(fetching, monkeypatch):
    monkeypatch.setattr(fetcher_module, "_QUIET_S", 0.0)
    ids, asked = {"t": "one", "left": "one"}, []

    def find_topics(topics):
        asked.append(topics)
        if len(asked) == 2:
            raise ExternalSystemError("away")
        return topics_of(ids)(topics)

    fetcher, consumer, _ = fetching(find_topics=find_topics)
    fetcher.assign([KafkaPartitionSplit(place(1), 5, topic_id="one")])
    fetcher.assign([KafkaPartitionSplit(place(1, "left"), 5, topic_id="one")])
    fetcher.release(place(1, "left"))
    fetcher.start()
    wait_until(lambda: len(asked) >= 3)
    assert fetcher.take() == []
    ids.update(t="two", left="two")
    taken = []
    wait_until(lambda: taken.extend(fetcher.take()) or taken)
    assert taken == [MadeAnew("t", "two", frozenset(range(9)))]
    assert consumer.calls[-2:] == [("unassign", [1]), ("assign", [(1, EARLIEST)])]
    assert not any("left" in topics for topics in asked)


def test_records_wait_for_brokers_that_do_not_name_the_ids_of_topics(fetching, caplog):
    asked = []

    def find_topics(topics):
        asked.append(topics)
        if len(asked) < 3:
            raise ExternalSystemError("away")
        return topics_of({"t": "one"})(topics)

    fetcher, _, _ = fetching([messages(5)], find_topics=find_topics)
    fetcher.assign([KafkaPartitionSplit(place(0), 5, topic_id="one")])
    taken = []
    with caplog.at_level(logging.WARNING):
        fetcher.start()
        wait_until(lambda: taken.extend(fetcher.take()) or taken)
    assert (len(asked), len(caplog.records)) == (3, 1)


def test_brokers_without_ids_are_not_asked_for_them(fetching):
    fetcher, _, _ = fetching([messages(5)], find_topics=lambda topics: pytest.fail("asked"))
    fetcher.assign([KafkaPartitionSplit(place(0), 5)])
    fetcher.start()
    wait_until(fetcher.take)


def test_where_a_partition_ends_is_known_from_what_came_with_the_records(fetching):
    fetcher, consumer, _ = fetching()
    fetcher.assign([KafkaPartitionSplit(place(0), 0), KafkaPartitionSplit(place(1), 0)])
    consumer.ends = {0: (0, 12)}
    fetcher.start()
    wait_until(lambda: fetcher.end_of(place(0)) == 12)
    assert fetcher.end_of(place(1)) is None
    assert len(consumer.threads) == 1
