"""The ids of the topics that Spark reads, kept in snapshots: offsets are invalid in a recreated topic."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

from pystate.connectors.kafka.kafka_client import KafkaConnectorError

_LOG = logging.getLogger(__name__)


class KafkaTopicIds:
    """The topic ids of one source.

    Args:
        topic_ids: Fetches the ids from the brokers.
        where: The source's name, for errors.
        takes_losses: Whether to continue with a recreated topic, as Spark's connector does.
    """

    def __init__(self, topic_ids: Callable[[], dict[str, str]], where: str, *, takes_losses: bool) -> None:
        self._topic_ids = topic_ids
        self._where = where
        self._takes_losses = takes_losses

    def check(self, known: bytes | None) -> bytes:
        """Check and return the ids; those of missing topics are kept.

        Raises:
            ExternalSystemError: The brokers don't answer.
            KafkaConnectorError: The id of a topic has changed.
        """
        before: dict[str, str] = {} if known is None else json.loads(known)
        now = self._topic_ids()
        for topic, topic_id in now.items():
            if before.get(topic, topic_id) == topic_id:
                continue
            message = (
                f"Topic {topic!r} was deleted and made anew since the snapshot was taken ({before[topic]}, now {topic_id}): "
                "its offsets are those of the old topic."
            )
            if not self._takes_losses:
                hint = (
                    "set_property('failOnDataLoss', 'false') goes on with what is there; or give the source another uid, "
                    "and resume with --allowNonRestoredState: it begins where the program says"
                )
                raise KafkaConnectorError(message, where=self._where, hint=hint)
            _LOG.warning("%s: %s It is gone on with.", self._where, message)
        return json.dumps({**before, **now}, sort_keys=True).encode()
