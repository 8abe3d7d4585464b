"""Which offsets are committed to a consumer group, and what is said where that fails."""

from __future__ import annotations

import logging

import pytest

from pystate.common.errors import JobGraphError
from pystate.common.serialization import SimpleStringSchema
from pystate.connectors.kafka.spark.kafka_group_offsets import KafkaGroupOffsets
from pystate.datastream.connectors.kafka import KafkaSource, KafkaTopicPartition


class Brokers:
    def __init__(self):
        self.committed = []
        self.away = False
        self.closed = False

    def commit(self, group, offsets):
        if self.away:
            message = "no answer"
            raise JobGraphError(message)
        self.committed.append((group, dict(offsets)))

    def close(self):
        self.closed = True


def test_what_has_moved_is_committed_and_a_failure_is_told_once(caplog):
    brokers = Brokers()
    offsets = KafkaGroupOffsets(lambda: brokers, "readers", "in")
    first, second = KafkaTopicPartition("t", 0), KafkaTopicPartition("t", 1)
    offsets.completed('{"t":{"0":3,"1":0}}')
    offsets.completed('{"t":{"0":3,"1":0}}')
    assert brokers.committed == [("readers", {first: 3, second: 0})]
    with caplog.at_level(logging.WARNING):
        brokers.away = True
        offsets.completed('{"t":{"0":4,"1":0}}')
        offsets.completed('{"t":{"0":5,"1":0}}')
        brokers.away = False
        offsets.completed('{"t":{"0":5,"1":0}}')
    assert brokers.committed[1:] == [("readers", {first: 5})]
    assert [record.message for record in caplog.records] == [
        "in: offsets are not committed to the group 'readers': no answer",
        "in: offsets are committed to the group 'readers' again.",
    ]
    offsets.close()
    assert brokers.closed


def source():
    made = KafkaSource.builder().set_bootstrap_servers("here:1").set_topics("t")
    return made.set_value_only_deserializer(SimpleStringSchema())


def test_offsets_are_committed_where_there_is_a_group_and_nobody_forbids_it():
    def commits(made):
        return made.build().group_offsets(lambda: None, "in") is not None

    assert not commits(source())
    assert commits(source().set_group_id("readers"))
    assert not commits(source().set_group_id("readers").set_property("commit.offsets.on.checkpoint", "false"))
    with pytest.raises(JobGraphError, match="no group to commit offsets to"):
        source().set_property("commit.offsets.on.checkpoint", "true").build()
    with pytest.raises(JobGraphError, match="takes true or false"):
        source().set_property("commit.offsets.on.checkpoint", "yes")
