"""Sink and source on a real broker: acknowledgements, retained messages, sessions that outlive the job, secrets, TLS."""

from __future__ import annotations

import pickle
import signal
import threading
from typing import NamedTuple
from unittest import mock

import pytest

from pystate.common import Types
from pystate.common.errors import ConfigurationError, ExternalSystemError, RecordError
from pystate.common.row import Row, RowKind
from pystate.common.serialization import SimpleStringSchema
from pystate.connectors.bad_records import BAD_RECORD, BadRecords
from pystate.connectors.mqtt import MqttConnectionOptions, MqttSink, MqttSource
from pystate.connectors.mqtt.mqtt_source import MqttReader, MqttSplit
from pystate.connectors.source import SourceReaderContext
from pystate.core.api.output_tag import OutputTag
from pystate.testing import SinkTestHarness, SourceTestHarness
from tests.connectors.redis.test_redis_sink import row, write
from tests.servers.certificate import certificate  # noqa: F401 - a fixture
from tests.servers.mqtt_broker import PASSWORD, running_broker
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with running_broker(tmp_path_factory.mktemp("mqtt")) as running:
        yield running


@pytest.fixture
def own_broker(tmp_path):
    with running_broker(tmp_path) as running:
        yield running


def publishes(broker, topic="open/out", **tls):
    sink = MqttSink.builder().set_connection(MqttConnectionOptions(broker.url, **tls)).set_topic(topic)
    return sink.set_value(SimpleStringSchema())


def reads(broker, client_id, *topics, schema=True, **changes):
    builder = MqttSource.builder().set_connection(MqttConnectionOptions(broker.url)).set_client_id(client_id)
    builder.set_topics(*topics)
    if schema:
        builder.set_value_only_deserializer(SimpleStringSchema())
    for name, value in changes.items():
        getattr(builder, name)(value)
    return builder.build()


def numbers(begin, end):
    return [str(number) for number in range(begin, end)]


def test_all_are_acknowledged_in_order_at_a_checkpoint(broker):
    with broker.listening("open/out") as heard:
        write(pickle.loads(pickle.dumps(publishes(broker).set_max_batch_size(30).build())), *numbers(0, 100))
        wait_until(lambda: len(heard) == 100)
    assert heard == [("open/out", number.encode(), False) for number in numbers(0, 100)]


def test_a_retained_message_is_the_latest_of_its_topic_and_a_delete_clears_it(broker):
    sink = publishes(broker, lambda one: f"open/kept/{one['id']}").set_value(lambda one: one["v"]).set_retain(True).build()
    before, after = row(RowKind.UPDATE_BEFORE, id=1, v="a"), row(RowKind.UPDATE_AFTER, id=1, v="b")
    write(sink, Row(id=1, v="a"), Row(id=2, v="x"), before, after, row(RowKind.DELETE, id=2, v="x"))
    with broker.listening("open/kept/#", "open/end") as heard:
        broker.publish("open/end", "")
        wait_until(lambda: ("open/end", b"", False) in heard)
    assert [one for one in heard if one[2]] == [("open/kept/1", b"b", True)]
    with pytest.raises(RecordError, match="only grows"):
        write(publishes(broker).build(), row(RowKind.DELETE, id=1))


@pytest.mark.parametrize("topic", ["a/+", "#", "", None])
def test_what_is_no_topic_is_told(broker, topic):
    with pytest.raises(RecordError, match="no topic to publish to"):
        write(publishes(broker, lambda _: topic).build(), "x")


def test_a_broker_that_died_gets_what_it_has_not_acknowledged(own_broker):
    with SinkTestHarness(publishes(own_broker).set_max_batch_size(5).set_retain(True).build()) as harness:
        harness.open()
        harness.process_elements(numbers(0, 20))
        own_broker.end(signal.SIGKILL)
        harness.process_elements(numbers(20, 40))
        own_broker.start()
        harness.snapshot(1)
        with own_broker.listening("open/out") as heard:
            wait_until(lambda: heard)
        assert heard == [("open/out", b"39", True)]


def test_a_user_without_rights_and_a_wrong_password_are_told_and_no_secret(broker, caplog):
    with pytest.raises(ExternalSystemError, match="does not let the user publish to 'closed'"):
        write(publishes(broker, "closed").build(), "x")
    wrong = MqttConnectionOptions(broker.url.replace(PASSWORD, "wr0ng"))
    with pytest.raises(ExternalSystemError, match="Not authorized|Bad user name") as error:
        write(publishes(broker).set_connection(wrong).build(), "x")
    shown = f"{error.value} {error.value.where} {wrong!r} {publishes(broker).set_connection(wrong).build()!r}"
    assert "wr0ng" not in shown + caplog.text


def test_tls_is_checked(tmp_path, certificate):  # noqa: F811 - the fixture
    with running_broker(tmp_path, tls=certificate) as own:
        with own.listening("open/out") as heard:
            write(publishes(own, ca_file=certificate[0]).build(), "x")
            wait_until(lambda: heard)
        with pytest.raises(ExternalSystemError, match="CERTIFICATE_VERIFY_FAILED"):
            write(publishes(own).set_max_retries(0).build(), "x")


def test_wrong_settings_are_told_where_they_are_made(broker):
    for wrong in ("http://host", "mqtt://", "mqtt://host:port"):
        with pytest.raises(ConfigurationError, match="can't be used"):
            MqttConnectionOptions(wrong)
    for builder in (MqttSink.builder(), MqttSource.builder()):
        with pytest.raises(ConfigurationError, match="needs a connection"):
            builder.build()
    for wrong in ("", "#/a", "a/b+", "a#", None):
        with pytest.raises(ConfigurationError, match="no filter"):
            reads(broker, "a", wrong)
    with pytest.raises(ConfigurationError, match="from 1 to 65535"):
        reads(broker, "a", "open/a", set_receive_maximum=0)
    with pytest.raises(ExternalSystemError, match="can't be reached"):
        MqttSource.builder().set_connection(MqttConnectionOptions("mqtt://127.0.0.1:1")).set_client_id("a").set_topics(
            "b"
        ).build().check_start()
    reads(broker, "a", "open/a", "+/b/#").check_start()


class Reason(NamedTuple):
    """What a broker that refuses filters, as Mosquitto doesn't, would say."""

    is_failure: bool


def in_session(broker, client_id, topic, **options):
    return SourceTestHarness(lambda: reads(broker, client_id, topic), output_type=Types.STRING(), parallelism=2, **options)


def until(harness, count):
    return harness.run_until(lambda found: len(found) >= count)


def test_messages_that_come_while_the_job_is_away_are_read_and_acknowledged_ones_are_not_again(broker):
    with in_session(broker, "away", "open/away") as harness:
        harness.run_epoch()
        broker.publish("open/away", *numbers(0, 500))
        assert until(harness, 500) == numbers(0, 500)
        snapshots = harness.snapshot(1)
        harness.notify_of_completed_checkpoint(1)
    broker.publish("open/away", *numbers(500, 510))
    with in_session(broker, "away", "open/away", snapshots=snapshots) as harness:
        assert until(harness, 10) == numbers(500, 510)


def test_a_reader_has_begun_once_the_broker_has_its_subscription(broker):
    subscribe = MqttReader._subscribe

    def subscribe_later(reader, client):
        threading.Timer(0.5, subscribe, (reader, client)).start()

    with mock.patch.object(MqttReader, "_subscribe", subscribe_later), in_session(broker, "late", "open/late") as harness:
        harness.run_epoch()
        broker.publish("open/late", "x")
        assert until(harness, 1) == ["x"]


def test_what_no_complete_checkpoint_holds_comes_again(broker):
    with in_session(broker, "again", "open/again") as harness:
        harness.run_epoch()
        broker.publish("open/again", *numbers(0, 10))
        until(harness, 10)
        snapshots = harness.snapshot(1)
        harness.notify_of_completed_checkpoint(1)
        broker.publish("open/again", *numbers(10, 20))
        until(harness, 10)
        harness.snapshot(2)  # it never completes
    with in_session(broker, "again", "open/again", snapshots=snapshots) as harness:
        assert until(harness, 10) == numbers(10, 20)


def test_a_broker_that_was_started_anew_gives_nothing_twice_and_loses_nothing(own_broker):
    with in_session(own_broker, "s", "open/in") as harness:
        harness.run_epoch()
        own_broker.publish("open/in", *numbers(0, 10))
        found = until(harness, 10)
        own_broker.end()
        own_broker.start()
        own_broker.publish("open/in", *numbers(10, 20))
        assert [*found, *until(harness, 10)] == numbers(0, 20)
        harness.snapshot(1)
        harness.notify_of_completed_checkpoint(1)


def test_a_session_that_the_broker_forgot_is_told(own_broker, caplog):
    with in_session(own_broker, "s", "open/in") as harness:
        harness.run_epoch()
        snapshots = harness.snapshot(1)
    own_broker.end()
    (own_broker.folder / "mosquitto.db").unlink()
    own_broker.start()
    with in_session(own_broker, "s", "open/in", snapshots=snapshots) as harness:
        harness.run_epoch()
        own_broker.publish("open/in", "x")
        assert until(harness, 1) == ["x"]
    assert "has forgotten the session s" in caplog.text


def test_what_a_forgotten_session_had_acknowledges_nothing_of_the_next_one(own_broker):
    with in_session(own_broker, "s", "open/in") as harness:
        harness.run_epoch()
        own_broker.publish("open/in", *numbers(0, 5))
        until(harness, 5)
        snapshots = harness.snapshot(1)
        own_broker.end()
        (own_broker.folder / "mosquitto.db").unlink()
        own_broker.start()
        with own_broker.listening("$SYS/broker/subscriptions/count") as counts:
            wait_until(lambda: counts and int(counts[-1][1]) >= 2)  # the reader has subscribed again
        own_broker.publish("open/in", *numbers(5, 10))
        assert until(harness, 5) == numbers(5, 10)
        harness.notify_of_completed_checkpoint(1)
    with in_session(own_broker, "s", "open/in", snapshots=snapshots) as harness:
        assert until(harness, 5) == numbers(5, 10)


def test_an_acknowledgement_that_was_lost_with_a_connection_is_given_again(own_broker):
    with in_session(own_broker, "s", "open/in") as harness:
        harness.run_epoch()
        own_broker.publish("open/in", *numbers(0, 5))
        until(harness, 5)
        snapshots = harness.snapshot(1)
        own_broker.end()
        harness.notify_of_completed_checkpoint(1)
        own_broker.start()
        own_broker.publish("open/in", "new")
        assert until(harness, 1) == ["new"]
        snapshots = harness.snapshot(2)
        harness.notify_of_completed_checkpoint(2)
    own_broker.publish("open/in", "last")
    with in_session(own_broker, "s", "open/in", snapshots=snapshots) as harness:
        assert until(harness, 1) == ["last"]


def test_a_password_that_is_changed_while_the_job_runs_fails_it(own_broker):
    with in_session(own_broker, "s", "open/in") as harness:
        harness.run_epoch()
        own_broker.end()
        own_broker.set_password("an0ther")
        own_broker.start()
        with pytest.raises(ExternalSystemError, match="refuses the connection: Not authorized"):
            until(harness, 1)


def test_a_second_client_of_the_session_ends_the_first_for_good(broker):
    with in_session(broker, "twice", "open/twice") as first, in_session(broker, "twice", "open/twice") as second:
        first.run_epoch()
        second.run_epoch()
        with pytest.raises(ExternalSystemError, match="ends the connections of the session twice"):
            until(first, 1)
        broker.publish("open/twice", "x")
        assert until(second, 1) == ["x"]


def test_messages_that_no_acknowledgement_bounds_wait_at_the_broker(broker):
    context = mock.create_autospec(SourceReaderContext, instance=True)
    reader = MqttReader(reads(broker, "bounded", "open/bounded", set_receive_maximum=5), context)
    reader.add_splits([MqttSplit(is_begun=False)])
    found = []
    output = mock.Mock(room=lambda: 3, collect=found.append)
    reader.poll_next(output)
    try:
        client = broker.client()
        client.loop_start()
        for number in numbers(0, 20):
            client.publish("open/bounded", number)
        most = 0
        while len(found) < 20:
            most = max(most, len(reader._arrived))
            wait_until(lambda: reader._arrived)
            reader.poll_next(output)
        assert found == numbers(0, 20)
        assert most <= 5
        for number in numbers(0, 20):
            client.publish("open/bounded", number)
        wait_until(lambda: len(reader._arrived) == 5)
        client.disconnect()
        client.loop_stop()
    finally:
        reader.close()  # while one waits for room


def test_rows_of_messages_and_payloads_that_cannot_be_read(broker):
    tag = OutputTag("bad", BAD_RECORD)
    with SourceTestHarness(lambda: reads(broker, "rows", "open/rows/+", schema=False)) as harness:
        harness.run_epoch()
        broker.publish("open/rows/1", "a")
        (found,) = until(harness, 1)
        assert (found.topic, bytes(found.payload), found.retained) == ("open/rows/1", b"a", False)
    source = lambda: reads(broker, "bad", "open/bad", set_bad_records=BadRecords.to_side_output(tag))  # noqa: E731
    with SourceTestHarness(source, output_type=Types.STRING()) as harness:
        harness.run_epoch()
        broker.publish("open/bad", b"\xff", "good")
        assert until(harness, 1) == ["good"]
    with SourceTestHarness(lambda: reads(broker, "worse", "open/worse"), output_type=Types.STRING()) as harness:
        harness.run_epoch()
        broker.publish("open/worse", b"\xff")
        with pytest.raises(Exception, match="utf-8"):
            until(harness, 1)


def test_a_subscription_that_is_refused_fails_the_job(broker):
    context = mock.create_autospec(SourceReaderContext, instance=True)
    reader = MqttReader(reads(broker, "refused", "open/a", "open/b"), context)
    reader.add_splits([MqttSplit(is_begun=False)])
    output = mock.Mock(room=lambda: 1)
    reader.poll_next(output)
    try:
        reader._on_subscribe(None, None, 1, [Reason(is_failure=False), Reason(is_failure=True)], None)
        with pytest.raises(ExternalSystemError, match="refuses a subscription: open/b"):
            reader.poll_next(output)
    finally:
        reader.close()
