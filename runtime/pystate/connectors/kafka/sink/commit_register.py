"""The register of a transactional id: which of its latest committables are in Kafka, read without waiting for other ids.

It is the metadata of a committed offset of a consumer group named like the transactional id, written in the transaction with
a committable's records (`send_offsets_to_transaction`). Nobody else writes to it, so no transaction of another id hides it;
brokers drop it some days after its last use (`offsets.retention.minutes`). A missing entry proves nothing: see
`CommitRegister.has`.
"""

from __future__ import annotations

import json
import logging
import uuid
from concurrent.futures import TimeoutError as AnswerTimeoutError
from contextlib import closing
from typing import Any, NamedTuple

from pystate.connectors.kafka.kafka_client import (
    REQUEST_TIMEOUT_S,
    called_on_a_thread,
    client_settings,
    kafka_client,
    new_client,
    reason,
)
from pystate.connectors.kafka.kafka_failures import answered

_LOG = logging.getLogger(__name__)

_VERSION = 1
MOST_KEPT = 32
"""The most committables in a register: 1.8 KB, of the 4 KB that brokers take (`offset.metadata.max.bytes`)."""
_ANSWER_S = 10.0
_SLACK_S = 1.0


class CommitRegister(NamedTuple):
    """The content of a register.

    Attributes:
        generation: Random; differs after a register was lost and created again.
        older: Committables made up to this time (ms since 1970) may have been dropped from it.
        committed: The id and the time of each committable that is in Kafka.
    """

    generation: str
    older: int = -1
    committed: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def begun() -> CommitRegister:
        """Return an empty register."""
        return CommitRegister(uuid.uuid4().hex)

    def has(self, commit_id: str, prepared_at: int, generation: str | None) -> bool | None:
        """Return whether a committable is in Kafka; None if the register can't know.

        A committable with this generation was made while the register existed, so its commit is in the register unless it
        was dropped; none younger than `older` is dropped, whatever clocks say: the time is the committable's own.

        Args:
            commit_id: The id of the committable.
            prepared_at: The time of the committable.
            generation: That of the register when the committable was made; None if there was none.
        """
        if any(one == commit_id for one, _ in self.committed):
            return True
        return False if generation == self.generation and prepared_at > self.older else None

    def with_commit(self, commit_id: str, prepared_at: int) -> CommitRegister:
        """Return the register with this committable added."""
        committed = (*self.committed, (commit_id, prepared_at))
        dropped, kept = committed[:-MOST_KEPT], committed[-MOST_KEPT:]
        return self._replace(older=max(self.older, *(at for _, at in dropped), -1), committed=kept)

    def to_text(self) -> str:
        """Return the register as metadata of an offset."""
        return json.dumps([_VERSION, self.generation, self.older, self.committed], separators=(",", ":"))

    @staticmethod
    def of_text(text: str | None) -> CommitRegister | None:
        """Parse the text of `to_text`; None for any other text."""
        try:
            version, generation, older, committed = json.loads(text or "")
            if version != _VERSION:
                return None
            return CommitRegister(str(generation), int(older), tuple((str(one), int(at)) for one, at in committed))
        except (ValueError, TypeError):
            return None


class CommitRegisters:
    """Reads and writes registers.

    Args:
        properties: The properties of the client.
        where: For errors.

    Attributes:
        usable: Whether the brokers permit registers to this user.
    """

    def __init__(self, properties: dict[str, str], where: str) -> None:
        self._properties = properties
        self._where = where
        self.usable = True
        self._groups: dict[str, Any] = {}

    def read(self, transactional_id: str, topic: str, partition: int) -> CommitRegister | None:
        """Return the register of a transactional id; None if there is none.

        Args:
            transactional_id: The id.
            topic: The topic of its markers.
            partition: The partition of its markers.

        Raises:
            KafkaException: The register isn't known yet.
        """
        if not self.usable:
            return None
        # an error passes while the last transaction of the id ends, or the coordinator moves
        place = answered(lambda: self._asked(transactional_id, topic, partition), REQUEST_TIMEOUT_S)
        return CommitRegister.of_text(place.metadata) if place.offset >= 0 else None

    def write(self, producer: Any, transactional_id: str, place: tuple[str, int], register: CommitRegister) -> None:
        """Write a register in the open transaction of a producer.

        Raises:
            KafkaException: The brokers reject it.
        """
        offset = kafka_client().TopicPartition(*place, len(register.committed), metadata=register.to_text())
        if transactional_id not in self._groups:
            with closing(self._consumer(transactional_id)) as consumer:
                self._groups[transactional_id] = consumer.consumer_group_metadata()
        group = self._groups[transactional_id]
        # The client ignores the timeout if the group's coordinator has left the cluster meanwhile, as at a restart of the
        # broker (librdkafka 5456 and 5511), and waits for ever. That producer isn't used any more: the next one fences it.
        sent = called_on_a_thread(
            lambda: producer.send_offsets_to_transaction([offset], group, _ANSWER_S), name="kafka-register"
        )
        try:
            sent.result(_ANSWER_S + _SLACK_S)
        except AnswerTimeoutError as error:
            client = kafka_client()
            message = f"the coordinator of the group doesn't answer within {_ANSWER_S:g} s"
            raise client.KafkaException(client.KafkaError(client.KafkaError._TIMED_OUT, message)) from error  # noqa: SLF001

    def refused(self, error: Any) -> bool:
        """Return whether an error means that registers aren't permitted, and remember it."""
        errors = kafka_client().KafkaError
        if error.code() not in (errors.GROUP_AUTHORIZATION_FAILED, errors.OFFSET_METADATA_TOO_LARGE):
            return False
        if self.usable:
            said = reason(kafka_client().KafkaException(error))
            _LOG.warning(
                "%s: commits are noted in the topic of markers alone, so that a restart may wait for transactions of other "
                "jobs: %s. Let the user of the job read the groups that are named as its transactional ids.",
                self._where,
                said,
            )
        self.usable = False
        return True

    def _asked(self, transactional_id: str, topic: str, partition: int) -> Any:
        """Read the offset with a consumer: an admin client crashes if the group's coordinator isn't ready."""
        client = kafka_client()
        where = client.TopicPartition(topic, partition)
        try:
            with closing(self._consumer(transactional_id)) as consumer:
                (place,) = consumer.committed([where], _ANSWER_S)
            if place.error is not None:
                raise client.KafkaException(place.error)
        except client.KafkaException as error:
            if self.refused(error.args[0]):
                return where  # as if there were none
            raise
        return place

    def _consumer(self, transactional_id: str) -> Any:
        own = {"group.id": transactional_id, "isolation.level": "read_committed", "enable.auto.commit": False}
        return new_client("Consumer", {**client_settings(self._properties), **own}, self._where)
