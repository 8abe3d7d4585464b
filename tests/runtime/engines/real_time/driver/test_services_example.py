"""The example that reads MQTT and writes to Redis, HTTP and MQTT, with real servers and a killed slot; without Spark."""

from __future__ import annotations

import pytest

from tests.faults.processes import needs_proc
from tests.runtime.engines.real_time.driver.jobs import RealTimeJob
from tests.servers.http_service import running_service
from tests.servers.mqtt_broker import running_broker
from tests.servers.redis_server import running_redis
from tests.testing.test_examples import example
from tests.waiting import wait_until

pytestmark = [needs_proc, pytest.mark.slow, pytest.mark.timeout(300)]


def test_alarms_are_told_and_cleared_over_a_killed_slot(tmp_path):
    module, often = example("sensor_alarms"), {"restart-strategy.fixed-delay.attempts": "1000"}
    for name in ("redis", "mqtt"):
        (tmp_path / name).mkdir()
    with (
        running_redis(tmp_path / "redis") as redis,
        running_broker(tmp_path / "mqtt") as broker,
        running_service() as service,
        redis.client() as client,
    ):
        client.hset("limit:oven", "celsius", "80")

        def program(env):
            module.pipeline(env, broker.url, redis.url, service.url, "open/sensors")

        def is_told(**wanted):
            states = {path.rpartition("/")[2]: alarm["is_on"] for path, alarm in service.resources.items()}
            return states == wanted

        def publish(device, celsius):
            broker.publish(f"open/sensors/{device}/celsius", str(celsius))

        job = RealTimeJob(tmp_path / "job", program, **often)
        try:
            job.await_checkpoints(2)  # the session of the source is there
            publish("oven", 81.5)
            publish("fridge", 4)
            wait_until(lambda: is_told(oven=True))
            job.kill_slot(0)
            publish("oven", 79.5)  # the session keeps it
            publish("fridge", 70.5)
            job.await_attempt(1)
            wait_until(lambda: is_told(oven=False, fridge=True))
            wait_until(lambda: client.hget("device:oven", "celsius") == "79.5")
            lamps = ["open/sensors/fridge/alarm", "open/sensors/oven/alarm"]

            def lit():
                with broker.listening("open/sensors/+/alarm", "open/end") as heard:
                    broker.publish("open/end", "")
                    wait_until(lambda: ("open/end", b"", False) in heard)
                return sorted((topic, payload) for topic, payload, is_kept in heard if is_kept)

            wait_until(lambda: lit() == list(zip(lamps, (b"on", b"off"), strict=True)))
        finally:
            job.close()
