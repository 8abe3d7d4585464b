"""Records that brokers refuse for good: named, and let go elsewhere; and commits that outlast their transaction."""

from __future__ import annotations

import os
import time

import pytest

from pystate.common.errors import CommitError, PystateError
from pystate.common.serialization import SimpleStringSchema
from pystate.connectors.delivery_guarantee import DeliveryGuarantee
from pystate.connectors.kafka.kafka_failures import TABLE, Failure, failure_of
from pystate.connectors.kafka.record_serialization import KafkaRecordSerializationSchema
from pystate.connectors.kafka.sink.kafka_sink import DEAD_LETTERS, KafkaSink
from tests.connectors.kafka.sink.sinks import Crash, Steps, builder, opened, values
from tests.servers.kafka_broker import missing, running_broker
from tests.waiting import wait_until

HOUR_MS = 3_600_000
LARGE = os.urandom(3000).hex()
REFUSED = {
    "a time too far ahead": ({}, lambda: 2 * HOUR_MS + time.time_ns() // 1_000_000, "x", "message.timestamp.after.max.ms"),
    "the end of a global window": ({}, lambda: 2**63 - 1, "x", "message.timestamp.after.max.ms"),
    "no key for a compacted topic": ({"cleanup_policy": "compact"}, lambda: None, "x", "the topic is compacted"),
    "too large for the topic": (
        {"max_message_bytes": "2000"},
        lambda: None,
        os.urandom(3000).hex(),
        "max.message.bytes is 2000",
    ),
    "too large for the client": ({}, lambda: None, "x" * 2_000_000, "max.message.bytes is 1048588"),
}


@pytest.fixture(scope="module")
def kafka_in_a_hurry(tmp_path_factory):
    """A broker that looks every tenth of a second which transactions take too long."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    often = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
    with running_broker(tmp_path_factory.mktemp("kafka"), often) as broker:
        yield broker


def sink_to(kafka, topic, guarantee=DeliveryGuarantee.EXACTLY_ONCE):
    schema = KafkaRecordSerializationSchema.builder().set_topic(topic)
    schema.set_value_serialization_schema(SimpleStringSchema())
    made = KafkaSink.builder().set_bootstrap_servers(kafka.address).set_delivery_guarantee(guarantee)
    return made.set_record_serializer(schema.build())


@pytest.mark.parametrize("case", REFUSED)
def test_a_record_that_is_refused_fails_the_commit_at_once_and_is_named(kafka, case):
    config, timestamp, text, limit = REFUSED[case]
    topic = kafka.new_topic(**config)
    with opened(sink_to(kafka, topic).build()) as harness:
        harness.process_element(text, timestamp())
        harness.snapshot(1)
        with pytest.raises(CommitError) as failed:
            harness.notify_of_completed_checkpoint(1)
        assert harness.get_metrics()["retriedCommittables"] == 0
    assert limit in failed.value.message
    assert repr(topic) in failed.value.message
    assert "key None" in failed.value.message
    assert "set_dead_letter_topic" in failed.value.hint


@pytest.mark.parametrize(
    ("case", "guarantee"),
    [
        ("a time too far ahead", DeliveryGuarantee.EXACTLY_ONCE),
        ("too large for the topic", DeliveryGuarantee.EXACTLY_ONCE),
        ("a time too far ahead", DeliveryGuarantee.AT_LEAST_ONCE),
    ],
)
def test_refused_records_go_to_the_dead_letters_and_all_others_where_they_belong(kafka, case, guarantee):
    config, timestamp, text, limit = REFUSED[case]
    topic, dead = kafka.new_topic(**config), kafka.new_topic(prefix="dead", max_message_bytes="4000000")
    sink = sink_to(kafka, topic, guarantee).set_dead_letter_topic(dead).build()
    good = [str(number) for number in range(50)]
    with opened(sink) as harness:
        for number, element in enumerate(good):
            harness.process_element(element, None)
            if number in (3, 30):
                harness.process_element(text + str(number), timestamp())
        harness.snapshot(1)
        harness.notify_of_completed_checkpoint(1)
        assert harness.get_metrics()[DEAD_LETTERS] == 2
    assert values(kafka, topic) == good
    assert values(kafka, dead) == [text + "3", text + "30"]
    headers = {name: value.decode() for name, value in kafka.read(dead)[0].headers()}
    assert headers["pystate.topic"] == topic
    assert limit.split(" is ")[0] in headers["pystate.reason"]


def test_records_that_are_too_large_together_are_sent_one_by_one(kafka):
    topic = kafka.new_topic(max_message_bytes="2000")
    records = [f"{number} {os.urandom(40).hex()}" for number in range(100)]
    with opened(sink_to(kafka, topic).build()) as harness:
        harness.process_elements(records)
        harness.snapshot(1)
        harness.notify_of_completed_checkpoint(1)
        harness.process_elements(["last"])
        harness.snapshot(2)
        harness.notify_of_completed_checkpoint(2)
    assert values(kafka, topic) == [*records, "last"]


def test_a_crash_before_dead_letters_are_committed_writes_them_once(kafka):
    config, timestamp, text, _ = REFUSED["a time too far ahead"]
    topic, dead = kafka.new_topic(**config), kafka.new_topic(prefix="dead")
    sink = sink_to(kafka, topic).set_dead_letter_topic(dead).build()
    sink.step = steps = Steps("flushed")
    crashed = opened(sink)
    crashed.process_element("good", None)
    crashed.process_element(text, timestamp())
    snapshot = crashed.snapshot(1)
    with pytest.raises(Crash):
        crashed.notify_of_completed_checkpoint(1)
    steps.crash = None
    for _ in range(2):
        opened(sink, snapshot).close()
    assert (values(kafka, topic), values(kafka, dead)) == (["good"], [text])


def test_without_a_place_for_it_at_least_once_names_the_record_too(kafka):
    topic = kafka.new_topic(cleanup_policy="compact")
    with opened(sink_to(kafka, topic, DeliveryGuarantee.AT_LEAST_ONCE).build()) as harness:
        harness.process_element("x", None)
        with pytest.raises(PystateError, match="the topic is compacted") as failed:
            harness.snapshot(1)
    assert "set_dead_letter_topic" in failed.value.hint


@pytest.mark.parametrize("step", ["produced", "marked", "flushed", "noted"])
def test_a_commit_that_outlasts_its_transaction_is_made_once(kafka_in_a_hurry, step):
    kafka = kafka_in_a_hurry
    topic, slept = kafka.new_topic(), []

    def sleep(name):
        if name == step and not slept:
            slept.append(name)
            wait_until(lambda: step == "produced" or not kafka.open_transactions(topic))

    sink = builder(kafka, topic).set_property("transaction.timeout.ms", "1000").build()
    sink.step = steps = Steps()
    steps.then = sleep
    with opened(sink) as harness:
        harness.process_elements(["a:1", "a:2"])
        snapshot = harness.snapshot(1)
        harness.notify_of_completed_checkpoint(1)
    with opened(sink, snapshot) as harness:
        assert harness.get_metrics()["alreadyCommittedCommittables"] == 1
    assert values(kafka, topic) == ["a:1", "a:2"]


def test_the_table_of_failures_has_all_codes_of_the_client():
    from confluent_kafka import KafkaError

    names = {name for name in dir(KafkaError) if type(getattr(KafkaError, name)) is int}
    assert names == TABLE.keys()


def test_purged_records_are_no_reason():
    from confluent_kafka import KafkaError

    assert failure_of(KafkaError(KafkaError._PURGE_QUEUE)) is Failure.CONSEQUENCE
    assert failure_of(KafkaError(KafkaError.INVALID_TIMESTAMP)) is Failure.RECORD
    assert failure_of(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)) is Failure.REFUSED
    assert failure_of(KafkaError(KafkaError._TRANSPORT)) is Failure.PASSING
