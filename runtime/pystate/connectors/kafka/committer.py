"""Exactly-once: each committable is one transaction, with a marker in it by which a repeated commit is recognised.

The lock is Kafka's own. A committable names a transactional id, that of the subtask which wrote it; who commits it takes
the id (`init_transactions`), which ends what others had open under it and fences them, reads the markers, and only then
writes. So of several who try the same committable, in whatever attempt or job, one writes it; the others find its marker.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from pystate.connectors.kafka.client import REQUEST_TIMEOUT_S, KafkaConnectorError, kafka_client, new_client, reason
from pystate.connectors.kafka.markers import Markers, marker_partition
from pystate.connectors.kafka.records import KafkaRecordSerializationSchema
from pystate.connectors.kafka.writer import RecordSender, producer_settings
from pystate.connectors.sink import CommitRequest, SinkWriter
from pystate.connectors.write_ahead import WriteAheadCommitter, WriteAheadWriter

_LOG = logging.getLogger(__name__)

TRANSACTIONAL_ID = "transactional_id"
PREPARED_AT = "prepared_at"
TRANSACTION_TIMEOUT = "transaction.timeout.ms"
_TRANSACTION_TIMEOUT_MS = 300_000
"""Longer than a commit takes, and below what brokers allow (`transaction.max.timeout.ms`, 15 minutes)."""
_COMMIT_STEP_S = 10.0


class KafkaWriteAheadWriter(WriteAheadWriter[Any]):
    """Keeps the records of a checkpoint for their commit.

    Args:
        schema: Makes records of elements.
        transactional_id: Under which they are to be committed.
        clock: Returns ms since 1970.
    """

    def __init__(
        self,
        schema: KafkaRecordSerializationSchema,
        transactional_id: str,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        def to_record(element: Any, context: SinkWriter.Context) -> Any:
            return schema.record_of(element, context.timestamp())

        super().__init__(to_record)
        self._transactional_id = transactional_id
        self._clock = clock

    def prepare_commit(self) -> Sequence[dict[str, Any]]:
        """Return all records since the last call."""
        named = {TRANSACTIONAL_ID: self._transactional_id, PREPARED_AT: self._clock()}
        return [{**committable, **named} for committable in super().prepare_commit()]


class _Held(NamedTuple):
    """A transactional id that this committer holds.

    Attributes:
        producer: Its client.
        committed: Ids of committables whose markers were there when it was taken, and of those written since.
        since_ms: From when on markers were read; None where none were yet.
    """

    producer: Any
    committed: set[str]
    since_ms: int | None = None


class KafkaCommitter(WriteAheadCommitter):
    """Writes committables.

    Args:
        properties: The client's.
        markers: Of its sink.
        marker_topic: Where they are.
        transactional_id: That of the subtask's own writer: it is taken at once, so that an older process is fenced.
        where: For errors.
        step: Is told each step's name; tests crash there.
    """

    def __init__(
        self,
        properties: dict[str, str],
        markers: Markers,
        marker_topic: str,
        transactional_id: str,
        where: str,
        step: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._properties = properties
        self._markers = markers
        self._marker_topic = marker_topic
        self._own = transactional_id
        self._where = where
        self._step = step
        self._held: dict[str, _Held] = {}
        markers.make_topic()
        try:
            self._take(transactional_id, None)
        except kafka_client().KafkaException as error:
            message = f"Kafka gives the job no transactions: {reason(error)}."
            raise KafkaConnectorError(message, where=where) from error

    def commit(self, requests: Sequence[CommitRequest[dict[str, Any]]]) -> None:
        """Commit, oldest first; transactional ids of other subtasks are let go behind it."""
        try:
            super().commit(requests)
        finally:
            for other in [held for held in self._held if held != self._own]:
                self._drop(other)

    def write_once(self, commit_id: str, records: Iterator[Any], request: CommitRequest[dict[str, Any]]) -> bool:
        """Write the records and the marker in one transaction, or find the marker and write nothing."""
        client, committable = kafka_client(), request.get_committable()
        transactional_id, since_ms = str(committable[TRANSACTIONAL_ID]), int(committable[PREPARED_AT])
        try:
            held = self._take(transactional_id, since_ms)
            self._step("taken")
            if commit_id in held.committed:
                request.signal_already_committed()
                return False
            self._write(held.producer, transactional_id, commit_id, records)
            held.committed.add(commit_id)
        except client.KafkaException as error:
            self._drop(transactional_id)  # whatever became of it: who takes the id the next time knows
            if _is_hopeless(error):
                message = f"Kafka doesn't take the records: {reason(error)}."
                request.signal_failed_with_unknown_reason(KafkaConnectorError(message, where=self._where))
                return True
            _LOG.warning("A transaction of %s is tried again: %s", transactional_id, reason(error))
            request.retry_later(KafkaConnectorError(reason(error), where=self._where))
            return True
        except BaseException:
            self._drop(transactional_id)
            raise
        return False

    def close(self) -> None:
        """Let go of all transactional ids; a transaction that is open is aborted."""
        for transactional_id in list(self._held):
            self._drop(transactional_id)

    def _write(self, producer: Any, transactional_id: str, commit_id: str, records: Iterator[Any]) -> None:
        failed = kafka_client().KafkaException
        sender = RecordSender(producer)
        producer.begin_transaction()
        self._step("begun")
        for record in records:
            sender.send(record)
            if sender.failure is not None:
                raise failed(sender.failure[0])
        self._step("produced")
        where = {"partition": marker_partition(transactional_id)}
        producer.produce(self._marker_topic, key=transactional_id, value=commit_id, on_delivery=sender.delivered, **where)
        self._step("marked")
        while producer.flush(_COMMIT_STEP_S) and sender.failure is None:
            pass
        if sender.failure is not None:
            raise failed(sender.failure[0])
        self._step("flushed")
        self._end_transaction(producer)
        self._step("committed")

    def _end_transaction(self, producer: Any) -> None:
        """Commit; where no answer comes, ask again, as long as the brokers keep a transaction."""
        client = kafka_client()
        deadline = time.monotonic() + self._timeout_ms() / 1000
        while True:
            try:
                producer.commit_transaction(_COMMIT_STEP_S)
            except client.KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise
            else:
                return

    def _take(self, transactional_id: str, since_ms: int | None) -> _Held:
        """Return a transactional id with its markers since a time; None for none: no committable is known yet.

        Raises:
            KafkaException: The id can't be taken now.
            KafkaConnectorError: Markers can't be read.
        """
        held = self._held.get(transactional_id)
        if held is None:
            own = {"transactional.id": transactional_id, TRANSACTION_TIMEOUT: _TRANSACTION_TIMEOUT_MS}
            producer = new_client("Producer", producer_settings(self._properties, **own), self._where)
            producer.init_transactions(REQUEST_TIMEOUT_S)
            held = self._held[transactional_id] = _Held(producer, set())
        if since_ms is not None and (held.since_ms is None or since_ms < held.since_ms):
            # another may have committed it before the id was taken; since then nobody can
            committed = held.committed | self._markers.committed(transactional_id, since_ms)
            held = self._held[transactional_id] = _Held(held.producer, committed, since_ms)
        return held

    def _drop(self, transactional_id: str) -> None:
        held = self._held.pop(transactional_id, None)
        if held is None:
            return
        client = kafka_client()
        with suppress(client.KafkaException):  # no transaction is open, or the brokers end it when the next one takes the id
            held.producer.purge()
            held.producer.abort_transaction(1.0)

    def _timeout_ms(self) -> int:
        return int(self._properties.get(TRANSACTION_TIMEOUT, _TRANSACTION_TIMEOUT_MS))


def _is_hopeless(error: BaseException) -> bool:
    """Whether another try would fail in the same way."""
    kafka = kafka_client().KafkaError
    return error.args[0].code() in (
        kafka.MSG_SIZE_TOO_LARGE,
        kafka.RECORD_LIST_TOO_LARGE,
        kafka.TOPIC_AUTHORIZATION_FAILED,
        kafka.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        kafka.CLUSTER_AUTHORIZATION_FAILED,
        kafka.UNKNOWN_TOPIC_OR_PART,
        kafka.TOPIC_EXCEPTION,
        kafka.INVALID_TRANSACTION_TIMEOUT,
        kafka._UNKNOWN_TOPIC,  # noqa: SLF001 - its public name
        kafka._UNKNOWN_PARTITION,  # noqa: SLF001 - its public name
        kafka._AUTHENTICATION,  # noqa: SLF001 - its public name
    )
