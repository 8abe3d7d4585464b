"""MQTT read; Redis, HTTP and MQTT written; slots and servers that are killed: no message is lost, each key ends right."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from pystate.common import SimpleStringSchema, Types
from pystate.common.watermark_strategy import WatermarkStrategy
from pystate.datastream.connectors.http import HttpSink
from pystate.datastream.connectors.mqtt import MqttConnectionOptions, MqttSink, MqttSource
from pystate.datastream.connectors.redis import RedisSink, RedisStructure
from tests.runtime.engines.real_time.driver.jobs import RealTimeJob
from tests.servers.http_service import running_service
from tests.servers.mqtt_broker import running_broker
from tests.servers.redis_server import running_redis
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def copying(broker, server, service):
    connection = MqttConnectionOptions(broker.url)
    source = MqttSource.builder().set_connection(connection).set_client_id("job").set_topics("open/in")
    redis = [RedisSink.builder().set_url(server.url).set_max_time_in_buffer_ms(20) for _ in range(2)]
    keys = redis[0].set_key(0, prefix="key:").set_value(lambda pair: pair[1])
    stream = redis[1].set_key(lambda _: "all").set_structure(RedisStructure.STREAM)
    puts = HttpSink.builder().set_url(service.url).set_resource_key(0).set_max_time_in_buffer_ms(20)
    messages = MqttSink.builder().set_connection(connection).set_retain(True).set_topic(lambda pair: f"open/out/{pair[0]}")

    def program(environment):
        made = source.set_value_only_deserializer(SimpleStringSchema()).build()
        lines = environment.from_source(made, WatermarkStrategy.no_watermarks(), "messages", Types.STRING()).uid("messages")
        pairs = lines.map(lambda line: tuple(line.split("=")), Types.TUPLE([Types.STRING(), Types.STRING()]))
        keyed = pairs.key_by(lambda pair: pair[0], key_type=Types.STRING()).map(lambda pair: pair)
        keyed.sink_to(keys.build()).uid("keys")
        keyed.sink_to(stream.set_value(lambda pair: {"line": "=".join(pair)}).build()).uid("stream")
        keyed.sink_to(puts.set_value(lambda pair: int(pair[1])).build()).uid("resources")
        keyed.sink_to(messages.set_value(lambda pair: pair[1]).set_max_time_in_buffer_ms(20).build()).uid("retained")

    return program


@pytest.mark.parametrize("seed", [1, 2])
def test_slots_and_servers_are_killed_and_nothing_is_lost(tmp_path, seed):
    order, sent, last = random.Random(seed), [], {}
    folders = [tmp_path / name for name in ("redis", "mqtt")]
    for folder in folders:
        folder.mkdir()
    with running_redis(folders[0]) as server, running_broker(folders[1]) as broker, running_service() as service:
        job = RealTimeJob(
            tmp_path / "job", copying(broker, server, service), **{"restart-strategy.fixed-delay.attempts": "1000"}
        )

        def found():
            with server.client() as client:
                return Counter(entry["line"] for _, entry in client.xrange("all"))

        def arrived():
            return set(found()) == {"begin=0", *sent}

        try:
            while not found():  # the session begins with the job
                broker.publish("open/in", "begin=0")
            for turn in range(8):
                batch = []
                for number in range(40):
                    key = f"k{order.randrange(10)}"
                    last[key] = turn * 40 + number
                    batch.append(f"{key}={last[key]}")
                sent += batch
                broker.publish("open/in", *batch)
                victim = ("slot", "redis", "broker", "service")[turn % 4]
                if victim == "slot":
                    job.kill_slot(order.choice([0, 1]))
                elif victim == "redis":
                    server.kill()
                    server.start()
                elif victim == "broker":
                    broker.end()
                    broker.start()
                else:
                    service.stop()
                    service.start()
                wait_until(arrived)
            job.await_checkpoints(2)
            lines = found()
            with server.client() as client:
                keys = {key.removeprefix("key:"): client.get(key) for key in client.scan_iter("key:*")}
            assert keys == {"begin": "0", **{key: str(number) for key, number in last.items()}}
            assert {path.removeprefix("/in/"): number for path, number in service.resources.items()} == {"begin": 0, **last}
            with broker.listening("open/out/#", "open/end") as heard:
                broker.publish("open/end", "")
                wait_until(lambda: ("open/end", b"", False) in heard)
            assert {topic.rpartition("/")[2]: int(text) for topic, text, kept in heard if kept} == {"begin": 0, **last}
            assert all(line in lines for line in sent)
        finally:
            job.close()
