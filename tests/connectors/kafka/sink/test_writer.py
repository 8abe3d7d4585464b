"""Sinks that send records as they come, against a real broker."""

import time

import pytest

from pystate.common.errors import PystateError
from pystate.connectors.delivery_guarantee import DeliveryGuarantee
from pystate.testing import SinkTestHarness
from tests.connectors.kafka.sink.sinks import builder, values


def opened(sink):
    harness = SinkTestHarness(sink)
    harness.open()
    return harness


def holding_back(kafka, guarantee, elements, *, checkpoint):
    """Return a sink whose client holds elements back, and its topic, in which a look has found nothing.

    The sink waits for `linger.ms` in full, so it is short; where the look takes longer than that, it is longer.
    """
    for linger_s in (4, 16, 64):
        topic = kafka.new_topic()
        harness = opened(builder(kafka, topic, guarantee).set_property("linger.ms", str(1000 * linger_s)).build())
        begin = time.monotonic()
        harness.process_elements(elements)
        if checkpoint:
            harness.snapshot(1)
        seen = values(kafka, topic)
        if time.monotonic() < begin + linger_s:
            break
        harness.close()
    assert seen == []
    return harness, topic


def test_a_checkpoint_waits_until_records_have_arrived(kafka):
    held_back, topic = holding_back(kafka, DeliveryGuarantee.AT_LEAST_ONCE, ["a:1", "a:2"], checkpoint=False)
    with held_back as harness:
        snapshot = harness.snapshot(1)
        assert values(kafka, topic) == ["a:1", "a:2"]
        harness.process_elements(["a:3"])
    with SinkTestHarness(builder(kafka, topic, DeliveryGuarantee.AT_LEAST_ONCE).build()) as harness:
        harness.initialize_state(snapshot)
        harness.open()
        harness.process_elements(["a:3"])
        harness.snapshot(2)
    assert values(kafka, topic) == ["a:1", "a:2", "a:3"], "what was held back went with the process, and came again"


@pytest.mark.slow
def test_a_broker_that_is_away_holds_the_checkpoint_up(kafka):
    topic = kafka.new_topic()
    with opened(builder(kafka, topic, DeliveryGuarantee.AT_LEAST_ONCE).build()) as harness:
        harness.process_elements(["a:1"])
        harness.snapshot(1)
        kafka.kill()
        harness.process_elements(["a:2", "a:3"])
        kafka.start()
        harness.snapshot(2)
    assert values(kafka, topic) == ["a:1", "a:2", "a:3"]


def test_records_that_are_given_up_fail_the_checkpoint(kafka):
    sink = builder(kafka, "nowhere", DeliveryGuarantee.AT_LEAST_ONCE).set_property("message.timeout.ms", "300").build()
    with opened(sink) as harness:
        harness.process_elements(["a:1"])
        with pytest.raises(PystateError, match="could not be written to topic 'nowhere'"):
            harness.snapshot(1)


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
def test_the_first_moment_of_1970_does_not_become_today(kafka, guarantee):
    topic = kafka.new_topic()
    with opened(builder(kafka, topic, guarantee).build()) as harness:
        harness.process_element("a:1", 0)
        harness.process_element("a:2", 2)
        harness.snapshot(1)
        harness.notify_of_completed_checkpoint(1)
    assert [message.timestamp()[1] for message in kafka.read(topic)] == [1, 2], "the client takes 0 for none"


def test_nothing_waits_where_nothing_is_promised(kafka):
    held_back, topic = holding_back(kafka, DeliveryGuarantee.NONE, ["a:1"], checkpoint=True)
    with held_back as harness:
        harness.end_input()
        harness.snapshot(2)
    assert values(kafka, topic) == ["a:1"], "the end of the input waits"


def test_a_property_that_the_client_does_not_know_is_named():
    class Nowhere:
        address = "127.0.0.1:1"

    with pytest.raises(PystateError, match="Kafka's client refuses a property: .*no.such.property"):
        opened(builder(Nowhere, "topic", DeliveryGuarantee.AT_LEAST_ONCE).set_property("no.such.property", "1").build())
