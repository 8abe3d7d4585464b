"""The ids of the topics that Spark reads, kept in snapshots: offsets are invalid in a recreated topic."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

from pystate.common.errors import ExternalSystemError
from pystate.connectors.kafka.source.topic_identity import made_anew

_LOG = logging.getLogger(__name__)

_SOON_MS = 1000
"""How long an epoch waits for the answer."""


class KafkaTopicIds:
    """The topic ids of one source.

    Args:
        topic_ids: Asks the brokers, given how long their answer may take, in ms; None for as long as the client allows.
        where: The source's name, for errors.
        takes_losses: A topic that was recreated is gone on with, as Spark's connector does.
        close: Lets go of the connection, until brokers are asked again.
    """

    def __init__(
        self,
        topic_ids: Callable[[int | None], dict[str, str]],
        where: str,
        *,
        takes_losses: bool,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._topic_ids = topic_ids
        self._where = where
        self._takes_losses = takes_losses
        self._known: dict[str, str] = {}
        self._fails = False
        self.close = close

    def check(self, known: bytes | None) -> bytes:
        """Check and return the ids; those of missing topics are kept.

        Raises:
            ExternalSystemError: The brokers don't answer.
            RecreatedTopicError: A topic has another id by now.
        """
        self.close()  # Spark may be another one by now
        self._known = {} if known is None else json.loads(known)
        self._compare(self._topic_ids(None))
        return json.dumps(self._known, sort_keys=True).encode()

    def check_still(self) -> None:
        """Make sure that what was read meanwhile is of the same topics; brokers that don't answer hold nothing up for long.

        Raises:
            RecreatedTopicError: A topic has another id by now.
        """
        if self._takes_losses:
            return
        try:
            now = self._topic_ids(_SOON_MS)
        except ExternalSystemError as error:
            if not self._fails:
                text = "%s: whether topics were recreated can't be asked, and is asked again later: %s"
                _LOG.warning(text, self._where, error.message)
            self._fails = True
            return
        self._fails = False
        self._compare(now)

    def _compare(self, now: dict[str, str]) -> None:
        for topic, topic_id in now.items():
            before = self._known.get(topic, topic_id)
            if before != topic_id:
                refusal = made_anew(topic, before, topic_id, self._where)
                if not self._takes_losses:
                    raise refusal
                _LOG.warning("%s: %s It is gone on with.", self._where, refusal.message)
            self._known[topic] = topic_id
