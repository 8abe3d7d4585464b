"""Finds records that violate limits of their topic: brokers reject a whole batch, and don't name the record."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from pystate.common.text.bounded_text import bounded_text
from pystate.common.time import current_time_ms
from pystate.connectors.kafka.kafka_client import REQUEST_TIMEOUT_S, answer_of, kafka_client, new_admin, reason
from pystate.connectors.kafka.record_serialization import ProducerRecord

_LOG = logging.getLogger(__name__)

HINT = (
    "mend the records upstream of the sink, or the topic's limit; or let the sink write such records elsewhere: "
    "set_dead_letter_topic(...)"
)
_MOST_SHOWN = 60
_BEFORE, _AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"


class RefusedRecord(NamedTuple):
    """A record that its topic rejects.

    Attributes:
        record: Topic, key, value and timestamp.
        why: The violated limit, in words.
    """

    record: ProducerRecord
    why: str

    def dead_letter(self) -> dict[str, Any]:
        """Return key, value and headers of the dead letter for this record."""
        topic, key, value, timestamp = self.record
        told = {"topic": topic, "timestamp": str(timestamp), "reason": self.why}
        headers = [(f"pystate.{name}", text.encode()) for name, text in told.items()]
        return {"key": key, "value": value, "headers": headers}

    def __str__(self) -> str:
        """Return a description of the record, and why it is rejected."""
        topic, key, value, timestamp = self.record
        size = len(value or b"")
        key_shown = bounded_text(repr(key), _MOST_SHOWN)
        return f"the record of topic {topic!r} with key {key_shown}, timestamp {timestamp} and {size} bytes: {self.why}"


class TopicLimits:
    """The limits of topics, fetched on demand.

    Args:
        properties: The properties of the client.
        where: For errors.
    """

    def __init__(self, properties: dict[str, str], where: str) -> None:
        self._properties = properties
        self._where = where
        self._configs: dict[str, dict[str, str]] = {}

    def refusal(self, record: ProducerRecord) -> RefusedRecord | None:
        """Return the limit that a record violates by its key or its time; None if no known limit.

        Its compressed size is known to brokers only.
        """
        topic, key, _, timestamp = record
        config = self._config(topic)
        why = None
        if key is None and "compact" in config.get("cleanup.policy", ""):
            why = "it has no key, and the topic is compacted (cleanup.policy)"
        elif timestamp is not None and config.get("message.timestamp.type") != "LogAppendTime":
            why = _time_refusal(config, timestamp)
        return None if why is None else RefusedRecord(record, why)

    def refused(self, record: ProducerRecord, said: str) -> RefusedRecord:
        """Return the description of a record that brokers, or the client, rejected on its own."""
        most = self._config(record[0]).get("max.message.bytes", "unknown")
        return self.refusal(record) or RefusedRecord(record, f"{said}; the topic's max.message.bytes is {most}")

    def _config(self, topic: str) -> dict[str, str]:
        if topic not in self._configs:
            self._configs[topic] = self._asked(topic)
        return self._configs[topic]

    def _asked(self, topic: str) -> dict[str, str]:
        client, admin = kafka_client(), kafka_client("confluent_kafka.admin")
        resource = admin.ConfigResource(admin.ResourceType.TOPIC, topic)
        asking = new_admin(self._properties, self._where)  # its answers are invalid after it is closed
        try:
            asked = asking.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S)[resource]
            found: dict[str, Any] = answer_of(asked)
        except client.KafkaException as error:
            _LOG.warning("The limits of topic %s can't be asked: %s", topic, reason(error))
            return {}
        return {name: entry.value for name, entry in found.items() if entry.value is not None}


def _time_refusal(config: dict[str, str], timestamp: int) -> str | None:
    ahead = timestamp - current_time_ms()
    for limit, by in ((_AFTER, ahead), (_BEFORE, -ahead)):
        if by > int(config.get(limit, by)):
            where = "ahead of" if by == ahead else "older than"
            return f"its timestamp is {by} ms {where} the clock, and {limit} is {config[limit]}"
    return None
