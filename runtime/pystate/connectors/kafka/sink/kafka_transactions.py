"""The transactions of one transactional id, and their errors."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from pystate.connectors.kafka.kafka_client import REQUEST_TIMEOUT_S, kafka_client, new_client
from pystate.connectors.kafka.kafka_failures import Failure, failure_of
from pystate.connectors.kafka.record_serialization import ProducerRecord
from pystate.connectors.kafka.sink.kafka_writer import RecordSender, producer_settings

TRANSACTION_TIMEOUT = "transaction.timeout.ms"
_TRANSACTION_TIMEOUT_MS = 300_000
"""Longer than a commit takes, and below what brokers allow (`transaction.max.timeout.ms`, 15 minutes)."""
_STEP_S = 10.0
_REPORTS_S = 5.0


class KafkaTransactions:
    """Holds a transactional id: other open transactions of the id are aborted, and their producers fenced.

    Args:
        properties: The properties of the client.
        transactional_id: The id.
        where: For errors.
        single: Whether each record is a batch of its own, so that a rejected record can be identified.

    Raises:
        KafkaException: The id can't be taken now.
    """

    def __init__(self, properties: dict[str, str], transactional_id: str, where: str, *, single: bool = False) -> None:
        self.timeout_ms = int(properties.get(TRANSACTION_TIMEOUT, _TRANSACTION_TIMEOUT_MS))
        self._told: list[Any] = []  # not by a method: a client that only the garbage collector ends may crash the process
        own = {"transactional.id": transactional_id, TRANSACTION_TIMEOUT: self.timeout_ms, "error_cb": self._told.append}
        settings = {**producer_settings(properties, **own), **({"batch.num.messages": 1} if single else {})}
        self._begun = 0.0
        self.producer = new_client("Producer", settings, where)
        self.producer.init_transactions(REQUEST_TIMEOUT_S)
        self.sender = RecordSender(self.producer)

    def begin(self) -> None:
        """Begin a transaction."""
        self.sender = RecordSender(self.producer)
        self._begun = time.monotonic()
        self.producer.begin_transaction()

    def send(self, records: Iterable[ProducerRecord]) -> None:
        """Pass records to the producer.

        Raises:
            KafkaException: A record was rejected.
        """
        for record in records:
            self.sender.send(record)
            self._check()

    def flush(self) -> None:
        """Wait until all records are delivered.

        Raises:
            KafkaException: A record was rejected.
        """
        while self.sender.drain(_STEP_S) and self.sender.failure is None:
            pass
        self._check()

    def commit(self) -> None:
        """Commit; without an answer, retry for as long as the brokers keep a transaction."""
        client = kafka_client()
        deadline = time.monotonic() + self.timeout_ms / 1000
        while True:
            try:
                self.producer.commit_transaction(_STEP_S)
            except client.KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise
            else:
                self._begun = 0.0
                return

    def close(self) -> None:
        """Release the id; an open transaction is aborted, or ended by brokers when the id is taken the next time."""
        with suppress(kafka_client().KafkaException):
            self.sender.drop()
            self.producer.abort_transaction(1.0)

    def reason_of(self, error: Any) -> Any:
        """Return the root cause of an error: "purged in queue", for example, has a cause."""
        if failure_of(error) is not Failure.CONSEQUENCE:
            return error
        with suppress(kafka_client().KafkaException):
            self.sender.drain(_REPORTS_S)  # what deliveries report
        failure = self.sender.failure
        fatal = [one for one in self._told if one.fatal()]
        for found in (*([] if failure is None else [failure.error]), *fatal):
            if failure_of(found) is not Failure.CONSEQUENCE:
                return found
        return error

    def outlasted(self) -> str | None:
        """Return a message if the brokers aborted the transaction because it took too long; else None."""
        taken_ms = int((time.monotonic() - self._begun) * 1000)
        if not self._begun or taken_ms < self.timeout_ms:
            return None
        return (
            f"brokers end a transaction after {TRANSACTION_TIMEOUT} = {self.timeout_ms}, and this one took {taken_ms} ms: "
            "it is looked up, and written again where it isn't in Kafka"
        )

    def _check(self) -> None:
        if self.sender.failure is not None:
            raise kafka_client().KafkaException(self.sender.failure.error)
