"""Redis, HTTP and MQTT at the ends of jobs on Spark, read from outside: nothing is lost, and each key ends right."""

from __future__ import annotations

import random
import signal
from collections import Counter

import pytest

from pystate.common import SimpleStringSchema, Types
from pystate.common.errors import JobCancelledError
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource
from pystate.datastream.connectors.http import HttpSink
from pystate.datastream.connectors.mqtt import MqttConnectionOptions, MqttSink, MqttSource
from pystate.datastream.connectors.redis import RedisSink, RedisStructure
from tests.engines import on_both_engines
from tests.faults.processes import kill, needs_proc
from tests.faults.workload import COUNTED, RECOVERING, Count, Watched
from tests.servers.http_service import running_service
from tests.servers.mqtt_broker import running_broker
from tests.servers.redis_server import running_redis

pytestmark = [needs_proc, pytest.mark.timeout(600), pytest.mark.slow]

OPTIONS = {
    **RECOVERING,
    "restart-strategy.fixed-delay.attempts": "1000",
    "restart-strategy.fixed-delay.delay": "0 ms",
}


def redis(server):
    return RedisSink.builder().set_url(server.url).set_max_time_in_buffer_ms(50)


def counting(watched, server, service, broker):
    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        source = FileSource(str(watched.folder), monitor_interval_ms=1000, max_files_per_epoch=2)
        words = env.from_source(source, None, "words").key_by(lambda word: word, key_type=Types.STRING())
        counts = words.process(Count(), COUNTED).uid("count")
        fields = redis(server).set_key(0, prefix="last:").set_structure(RedisStructure.HASH)
        counts.sink_to(fields.set_value(lambda pair: {"number": pair[1]}).build()).uid("hashes")
        entries = redis(server).set_key(lambda _: "all").set_structure(RedisStructure.STREAM)
        counts.sink_to(entries.set_value(lambda pair: {"word": pair[0], "number": pair[1]}).build()).uid("stream")
        puts = HttpSink.builder().set_url(service.url).set_resource_key(0).set_max_time_in_buffer_ms(50)
        counts.sink_to(puts.set_value(lambda pair: pair[1]).build()).uid("resources")
        messages = MqttSink.builder().set_connection(MqttConnectionOptions(broker.url)).set_retain(True)
        messages.set_topic(lambda pair: f"open/last/{pair[0]}").set_value(lambda pair: str(pair[1]))
        counts.sink_to(messages.set_max_time_in_buffer_ms(50).build()).uid("messages")
        env.execute("counting")

    return program


def entries(server):
    with server.client() as client:
        return Counter((entry["word"], int(entry["number"])) for _, entry in client.xrange("all"))


def hashes(server):
    with server.client() as client:
        return {key.removeprefix("last:"): int(client.hget(key, "number")) for key in client.scan_iter("last:*")}


@on_both_engines
def test_slots_and_servers_die_and_nothing_is_lost(run_job, tmp_path):
    order, watched = random.Random(1), Watched(tmp_path)
    folders = [tmp_path / name for name in ("redis", "mqtt")]
    for folder in folders:
        folder.mkdir()
    with running_redis(folders[0]) as server, running_broker(folders[1]) as broker, running_service() as service:
        job = run_job(counting(watched, server, service, broker), OPTIONS)
        job.wait_running()
        for turn in range(8):
            watched.add(1)
            victim = ("slot", "redis", "broker", "service")[turn % 4]
            if victim == "slot":
                pids = job.master.slot_pids
                if pids:
                    kill(order.choice(sorted(pids.values())))
            elif victim == "redis":
                server.kill()
                server.start()
            elif victim == "broker":
                broker.end()
                broker.start()
            else:
                service.stop()
                service.start()
            assert set(entries(server)) <= set(watched.pairs), "an entry that never was"
            if turn % 2:
                job.wait_for(lambda: set(entries(server)) == set(watched.pairs))
        job.savepoint(tmp_path / "savepoints", stop=True)
        job.result()
        last = dict(watched.words)
        assert set(entries(server)) == set(watched.pairs)
        assert hashes(server) == last
        assert {path.removeprefix("/in/"): number for path, number in service.resources.items()} == last
        with broker.listening("open/last/#", "open/end") as heard:
            broker.publish("open/end", "")
            job.wait_for(lambda: ("open/end", b"", False) in heard)
        assert {topic.rpartition("/")[2]: int(payload) for topic, payload, kept in heard if kept} == last


@on_both_engines
def test_no_message_is_lost_with_the_slot_that_read_it(run_job, tmp_path):
    order = random.Random(2)
    folders = [tmp_path / name for name in ("redis", "mqtt")]
    for folder in folders:
        folder.mkdir()
    with running_redis(folders[0]) as server, running_broker(folders[1]) as broker:

        def program():
            env = StreamExecutionEnvironment.get_execution_environment()
            source = MqttSource.builder().set_connection(MqttConnectionOptions(broker.url)).set_client_id("job")
            source.set_topics("open/in").set_value_only_deserializer(SimpleStringSchema())
            words = env.from_source(source.build(), None, "messages", Types.STRING()).uid("messages")
            words.sink_to(redis(server).set_key(lambda word: word).set_value(str).build()).uid("keys")
            env.execute("reading")

        def found():
            with server.client() as client:
                return set(client.scan_iter("m*", count=1000))

        job = run_job(program, OPTIONS)
        job.wait_running()
        published = ["m-first"]
        while not found():  # the session begins with the job
            broker.publish("open/in", "m-first")
        for turn in range(6):
            published += (batch := [f"m{turn}-{number}" for number in range(50)])
            broker.publish("open/in", *batch)
            if turn % 3 == 2:
                broker.end(signal.SIGTERM)
                broker.start()
            elif pids := job.master.slot_pids:
                kill(order.choice(sorted(pids.values())))
        job.wait_for(lambda: found() == set(published))
        path = job.savepoint(tmp_path / "savepoints", stop=True)
        job.result()
        broker.publish("open/in", "m-late")
        job = run_job(program, {**OPTIONS, "execution.state-recovery.path": path})
        job.wait_for(lambda: found() == {*published, "m-late"})
        job.savepoint(tmp_path / "savepoints", cancel=True)
        with pytest.raises(JobCancelledError):
            job.result()
