"""Topics that were made anew while a job of Spark's offsets was down."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pystate.connectors.kafka.kafka_client import KafkaConnectorError
from pystate.connectors.kafka.spark.kafka_topic_ids import KafkaTopicIds
from pystate.runtime.engines.micro_batch.driver.stream_identities import FILE, checked_identities


def ids_of(now, *, takes_losses=False):
    return KafkaTopicIds(lambda: dict(now), "words", takes_losses=takes_losses)


def test_ids_are_kept_with_what_spark_keeps_of_a_stream():
    logs = [SimpleNamespace(uid=uid, log=log) for uid, log in (("one", 0), ("two", 1))]
    steps = {"one": SimpleNamespace(identity=ids_of({"a": "1"})), "two": SimpleNamespace(identity=None)}
    plan = SimpleNamespace(sources=[SimpleNamespace(uid=uid, step=step) for uid, step in steps.items()])
    files = checked_identities(plan, logs, {"offsets/1": b"v1"})
    assert files == {"offsets/1": b"v1", FILE.format(0): b'{"a": "1"}'}
    assert checked_identities(plan, logs, files) == files


def test_topics_that_come_later_are_known_from_then_on_and_those_that_go_stay_known():
    assert ids_of({"b": "2"}).check(b'{"a": "1"}') == b'{"a": "1", "b": "2"}'


def test_a_topic_that_was_made_anew_is_refused_with_the_choice_there_is():
    with pytest.raises(KafkaConnectorError, match="'a' was deleted and made anew") as refused:
        ids_of({"a": "2"}).check(b'{"a": "1"}')
    assert "failOnDataLoss" in refused.value.hint


def test_who_takes_losses_goes_on():
    assert ids_of({"a": "2"}, takes_losses=True).check(b'{"a": "1"}') == b'{"a": "2"}'
