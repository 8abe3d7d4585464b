"""Reads temperatures from a broker of MQTT, keeps the latest in Redis, and tells a service by HTTP who is too hot.

    pystate run examples/sensor_alarms.py MQTT_URL REDIS_URL HTTP_URL [TOPIC]

needs `pip install 'pystate-spark[mqtt,redis,http]'`. A device publishes a number to `TOPIC/<device>/celsius` (`sensors` by
default), and its limit is the field `celsius` of the hash `limit:<device>` in Redis, 70 where there is none:

    mosquitto_pub -t sensors/oven/celsius -q 1 -m 81.5
    redis-cli HSET limit:oven celsius 80

The hash `device:<device>` has the latest temperature. When a device gets above its limit, or comes back, the state of its
alarm is put to `HTTP_URL/<device>`, and retained at `TOPIC/<device>/alarm`. Each ends right after any failure, since an
element that comes again replaces itself.
"""

import sys

from pystate.common import Duration, Row, Types, WatermarkStrategy
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors.http import HttpSink
from pystate.datastream.connectors.mqtt import MQTT_MESSAGE, MqttConnectionOptions, MqttSink, MqttSource
from pystate.datastream.connectors.redis import RedisConnectionOptions, RedisLookup, RedisSink, RedisStructure

READING = Types.ROW_NAMED(["device", "celsius"], [Types.STRING(), Types.DOUBLE()])
LIMITED = Types.ROW_NAMED(["device", "celsius", "limit"], [Types.STRING(), Types.DOUBLE(), Types.DOUBLE()])
ALARM = Types.ROW_NAMED(["device", "is_on", "celsius"], [Types.STRING(), Types.BOOLEAN(), Types.DOUBLE()])
USUAL_LIMIT = 70.0


def reading_of(message):
    yield Row(device=message.topic.split("/")[-2], celsius=float(message.payload))


def with_limit(reading, found):
    limit = float(found["celsius"]) if found else USUAL_LIMIT
    return Row(device=reading.device, celsius=reading.celsius, limit=limit)


class Alarms(KeyedProcessFunction):
    """Says when a device gets above its limit, and when it comes back."""

    def open(self, runtime_context):
        self.is_on = runtime_context.get_state(ValueStateDescriptor("is on", Types.BOOLEAN()))

    def process_element(self, value, ctx):
        is_on = value.celsius > value.limit
        if is_on != bool(self.is_on.value()):
            self.is_on.update(is_on)
            yield Row(device=value.device, is_on=is_on, celsius=value.celsius)


def pipeline(env, mqtt_url, redis_url, http_url, topic="sensors"):
    broker = MqttConnectionOptions(mqtt_url)
    source = MqttSource.builder().set_connection(broker).set_client_id("sensor-alarms").set_topics(f"{topic}/+/celsius")
    messages = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "sensors", MQTT_MESSAGE).uid("sensors")
    readings = messages.flat_map(reading_of, READING).uid("readings")

    latest = RedisSink.builder().set_url(redis_url).set_structure(RedisStructure.HASH).set_key("device", prefix="device:")
    readings.sink_to(latest.set_max_time_in_buffer_ms(500).build()).name("latest").uid("latest")

    limits = RedisLookup(
        RedisConnectionOptions(redis_url),
        lambda reading: f"limit:{reading.device}",
        with_limit,
        structure=RedisStructure.HASH,
        max_rows=10_000,
        expire_after_write=Duration.of_seconds(10),
    )
    limited = readings.map(limits, LIMITED).name("limits").uid("limits")
    alarms = limited.key_by(lambda row: row.device, Types.STRING()).process(Alarms(), ALARM).uid("alarms")

    service = HttpSink.builder().set_url(http_url).set_resource_key("device").set_max_time_in_buffer_ms(500)
    alarms.sink_to(service.build()).name("service").uid("service")
    lamps = MqttSink.builder().set_connection(broker).set_topic(lambda alarm: f"{topic}/{alarm.device}/alarm")
    lamps = lamps.set_value(lambda alarm: "on" if alarm.is_on else "off").set_retain(True).set_max_time_in_buffer_ms(500)
    alarms.sink_to(lamps.build()).name("lamps").uid("lamps")


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    pipeline(env, *sys.argv[1:])
    env.execute("sensor alarms")


if __name__ == "__main__":
    main()
