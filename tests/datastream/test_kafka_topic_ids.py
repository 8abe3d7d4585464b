"""Topics that were recreated while a job of Spark's offsets was down."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JJavaError

from pystate.common.errors import ExternalSystemError
from pystate.connectors.kafka.kafka_client import KafkaConnectorError
from pystate.connectors.kafka.source.topic_identity import RecreatedTopicError
from pystate.connectors.kafka.spark.kafka_brokers import KafkaBrokers
from pystate.connectors.kafka.spark.kafka_topic_ids import KafkaTopicIds
from pystate.runtime.engines.micro_batch.driver.source_restore import IDENTITY_FILE, checked_identities


def ids_of(now, *, takes_losses=False):
    return KafkaTopicIds(lambda _: dict(now), "words", takes_losses=takes_losses)


def test_ids_are_kept_with_what_spark_keeps_of_a_stream():
    logs = [SimpleNamespace(uid=uid, log=log) for uid, log in (("one", 0), ("two", 1))]
    steps = {"one": SimpleNamespace(identity=ids_of({"a": "1"})), "two": SimpleNamespace(identity=None)}
    plan = SimpleNamespace(sources=[SimpleNamespace(uid=uid, step=step) for uid, step in steps.items()])
    files = checked_identities(plan, logs, {"offsets/1": b"v1"})
    assert files == {"offsets/1": b"v1", IDENTITY_FILE.format(0): b'{"a": "1"}'}
    assert checked_identities(plan, logs, files) == files


def test_topics_that_come_later_are_known_from_then_on_and_those_that_go_stay_known():
    assert ids_of({"b": "2"}).check(b'{"a": "1"}') == b'{"a": "1", "b": "2"}'


def test_a_topic_that_was_made_anew_is_refused_with_the_choice_there_is():
    with pytest.raises(KafkaConnectorError, match="'a' was deleted and recreated") as refused:
        ids_of({"a": "2"}).check(b'{"a": "1"}')
    assert "failOnDataLoss" in refused.value.hint


def test_who_takes_losses_goes_on():
    assert ids_of({"a": "2"}, takes_losses=True).check(b'{"a": "1"}') == b'{"a": "2"}'


def test_what_an_epoch_has_read_of_another_topic_fails_it_also_where_the_topic_came_later():
    now = {"a": "1"}
    ids = KafkaTopicIds(lambda _: dict(now), "words", takes_losses=False)
    ids.check(None)
    now["b"] = "2"
    ids.check_still()
    now["b"] = "3"
    with pytest.raises(RecreatedTopicError, match="'b' was deleted and recreated"):
        ids.check_still()


def test_brokers_that_do_not_answer_soon_fail_no_epoch(caplog):
    asked = []

    def topic_ids(timeout_ms):
        asked.append(timeout_ms)
        if len(asked) > 1:
            raise ExternalSystemError("away")
        return {"a": "1"}

    ids = KafkaTopicIds(topic_ids, "words", takes_losses=False)
    ids.check(None)
    with caplog.at_level(logging.WARNING):
        ids.check_still()
        ids.check_still()
    assert (asked, len(caplog.records)) == ([None, 1000, 1000], 1)


class Java:
    """Stands for an object of Java's: each method returns the value that is given for it."""

    _target_id = "o1"
    _gateway_client = None

    def __init__(self, **methods):
        for name, value in methods.items():
            setattr(self, name, lambda *_, value=value: value)


def answer(topic_id=None, error=None):
    def get(*_):
        if error is not None:
            cause = Java(getClass=Java(getName=f"org.apache.kafka.common.errors.{error}"), getMessage=error)
            raise Py4JJavaError("", Java(getCause=cause))
        return Java(topicId=Java(toString=topic_id))

    return SimpleNamespace(get=get)


def brokers_with(topics):
    entries = [Java(getKey=topic, getValue=value) for topic, value in topics.items()]
    admin = Java(describeTopics=Java(topicNameValues=Java(entrySet=entries)), close=None)
    unit = SimpleNamespace(TimeUnit=SimpleNamespace(MILLISECONDS="ms"))
    java = SimpleNamespace(
        util=SimpleNamespace(concurrent=unit, ArrayList=lambda: SimpleNamespace(add=lambda _: None)),
        time=SimpleNamespace(Duration=SimpleNamespace(ZERO=0)),
    )
    brokers = KafkaBrokers(SimpleNamespace(sparkContext=SimpleNamespace(_jvm=SimpleNamespace(java=java))), {}, "words")
    brokers._client = admin
    return brokers


@pytest.mark.parametrize("timeout_ms", [None, 1000])
def test_a_topic_that_is_not_there_hides_no_other_one(timeout_ms):
    gone = answer(error="UnknownTopicOrPartitionException")
    brokers = brokers_with({"gone": gone, "a": answer("1"), "of old brokers": answer("AAAA==")})
    assert brokers.topic_ids(("gone", "a", "of old brokers"), None, timeout_ms) == {"a": "1"}


def test_a_topic_that_may_not_be_seen_is_told():
    brokers = brokers_with({"a": answer("1"), "hidden": answer(error="TopicAuthorizationException")})
    with pytest.raises(ExternalSystemError, match="TopicAuthorizationException"):
        brokers.topic_ids(("a", "hidden"), None)
