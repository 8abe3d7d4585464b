"""The exactly-once committer: each committable is one transaction that also contains its commit marker.

The lock is Kafka's own. A committable names a transactional id, that of the subtask which wrote it. A committer takes the id
(`init_transactions`), which aborts other open transactions of the id and fences their producers, checks whether the
committable is committed, and only then writes it. So of several committers of the same committable, in any attempt or job,
one writes it; the others find it.

The check uses the id's register (`commit_register.py`), which no other id's transactions can hide; if that doesn't know, it
reads the topic of markers (`markers.py`) to a proven end.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pystate.common.configuration.groups.sink_options import UnknownCommits
from pystate.connectors.kafka.kafka_client import KafkaConnectorError, kafka_client, reason
from pystate.connectors.kafka.kafka_failures import Failure, failure_of
from pystate.connectors.kafka.record_serialization import KafkaRecordSerializationSchema, ProducerRecord
from pystate.connectors.kafka.sink.commit_markers import Markers, UnknownCommitError, marker_partition
from pystate.connectors.kafka.sink.commit_register import CommitRegister, CommitRegisters
from pystate.connectors.kafka.sink.kafka_transactions import TRANSACTION_TIMEOUT, KafkaTransactions
from pystate.connectors.kafka.sink.topic_limits import HINT, RefusedRecord, TopicLimits
from pystate.connectors.kafka.upserts import UpsertBuffer
from pystate.connectors.sink import CommitRequest, SinkWriter
from pystate.connectors.write_ahead import STAMPED_VERSION, WriteAheadCommitter, WriteAheadWriter, records_of, settle_unknown

_LOG = logging.getLogger(__name__)

TRANSACTIONAL_ID = "transactional_id"
PREPARED_AT = "prepared_at"
MARKERS = "markers"
"""Where a committable's marker will be, and which register was there when it was made: see `stamp_of`."""
_MOST_PASSES = 100
_MOST_TOLD = 10


class KafkaWriteAheadWriter(WriteAheadWriter[Any]):
    """Buffers the records of a checkpoint until their commit.

    Args:
        schema: Makes records from elements.
        transactional_id: The id to commit them with.
        clock: Returns ms since 1970.
        stamp: Describes where the markers of committables are, see `stamp_of`; None for nothing.
        buffer: Keeps the latest record of each key; None to write them all.
    """

    def __init__(
        self,
        schema: KafkaRecordSerializationSchema,
        transactional_id: str,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        stamp: Mapping[str, Any] | None = None,
        buffer: UpsertBuffer | None = None,
    ) -> None:
        def to_record(element: Any, context: SinkWriter.Context) -> Any:
            record = schema.record_of(element, context.timestamp())
            if buffer is None or record is None:
                return record
            for latest in buffer.add(record):
                self.append(latest)
            return None

        super().__init__(to_record)
        self._buffer = buffer
        self._named: dict[str, Any] = {TRANSACTIONAL_ID: transactional_id}
        if stamp is not None:  # older versions don't know it, and may not write the marker it promises
            self._named |= {"version": STAMPED_VERSION, MARKERS: dict(stamp)}
        self._clock = clock

    def prepare_commit(self) -> Sequence[dict[str, Any]]:
        """Return all records since the last call."""
        for record in () if self._buffer is None else self._buffer.drain():
            self.append(record)
        named = {**self._named, PREPARED_AT: self._clock()}
        return [{**committable, **named} for committable in super().prepare_commit()]


def stamp_of(properties: dict[str, str], markers: Markers, transactional_id: str, where: str) -> dict[str, Any]:
    """Return the stamp for new committables of a transactional id: where their markers will be.

    Args:
        properties: The properties of the client.
        markers: Those of the sink.
        transactional_id: The id, which has to be held.
        where: For errors.

    Raises:
        KafkaConnectorError: The brokers don't answer.
    """
    try:
        place = markers.topic, marker_partition(transactional_id)
        register = CommitRegisters(properties, where).read(transactional_id, *place)
        topic_id = markers.topic_id(markers.topic)
    except kafka_client().KafkaException as error:
        message = f"Kafka doesn't say which commits it has: {reason(error)}."
        raise KafkaConnectorError(message, where=where) from error
    generation = None if register is None else register.generation
    return {"topic": markers.topic, "topic-id": topic_id, "register": generation}


@dataclass
class _Held:
    """A transactional id that this committer holds.

    Attributes:
        transactions: The transactions of the id.
        registers: The registers read so far, by topic of markers; None for none.
        committed: The ids of committables whose markers were found or written.
    """

    transactions: KafkaTransactions
    registers: dict[str, CommitRegister | None] = field(default_factory=dict)
    committed: set[str] = field(default_factory=set)


@dataclass
class _Task:
    """A committable that is being committed.

    Attributes:
        plain: The committable in the checkpoint.
        topic: The topic of its marker.
        stamp: The rest of its stamp.
        refused: Records for the dead letter topic.
        single: Whether each record is a batch of its own.
        failed: The record whose delivery failed.
        passes: How often refused records were found.
    """

    plain: dict[str, Any]
    topic: str
    stamp: Mapping[str, Any]
    refused: dict[ProducerRecord, RefusedRecord] = field(default_factory=dict)
    single: bool = False
    failed: tuple[str, bytes | None, bytes | None] | None = None
    passes: int = 0

    @property
    def id(self) -> str:
        """The id of the committable."""
        return str(self.plain["id"])

    @property
    def transactional_id(self) -> str:
        """The transactional id to commit it with."""
        return str(self.plain[TRANSACTIONAL_ID])

    @property
    def prepared_at(self) -> int:
        """When it was made, ms since 1970."""
        return int(self.plain[PREPARED_AT])

    def records(self) -> Iterator[ProducerRecord]:
        """Return the records."""
        return ((topic, key, value, timestamp) for topic, key, value, timestamp in records_of(self.plain))


class KafkaCommitter(WriteAheadCommitter):
    """Writes each committable in a transaction.

    Args:
        properties: The properties of the client.
        markers: Those of the sink.
        marker_topic: The topic of the markers.
        transactional_id: The id of the subtask's own writer; it is taken at once, to fence an older process.
        where: For errors.
        step: Called with the name of each step; tests crash there.
        dead_letter_topic: The topic for records that brokers reject permanently; None: they fail the job.
        unknown: How to treat committables when it can't be known whether they are in Kafka.
        count_dead_letters: Called with the number of records sent there.
    """

    def __init__(
        self,
        properties: dict[str, str],
        markers: Markers,
        marker_topic: str,
        transactional_id: str,
        where: str,
        step: Callable[[str], None] = lambda _: None,
        *,
        dead_letter_topic: str | None = None,
        unknown: UnknownCommits = UnknownCommits.FAIL,
        count_dead_letters: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._properties = properties
        self._markers = markers
        self._marker_topic = marker_topic
        self._own = transactional_id
        self._where = where
        self._step = step
        self._dead_letter_topic = dead_letter_topic
        self._unknown = unknown
        self._count_dead_letters = count_dead_letters
        self._registers = CommitRegisters(properties, where)
        self._limits = TopicLimits(properties, where)
        self._held: dict[str, _Held] = {}
        markers.make_topic()
        try:
            self._begin_register(self._take(transactional_id))
        except kafka_client().KafkaException as error:
            message = f"Kafka gives the job no transactions: {reason(error)}."
            raise KafkaConnectorError(message, where=where) from error

    def commit(self, requests: Sequence[CommitRequest[dict[str, Any]]]) -> None:
        """Commit, oldest first; then release the transactional ids of other subtasks."""
        try:
            super().commit(requests)
        finally:
            for other in [held for held in self._held if held != self._own]:
                self._drop(other)

    def write_once(self, commit_id: str, records: Iterator[Any], request: CommitRequest[dict[str, Any]]) -> bool:
        """Write the records and the marker in one transaction, or find the marker and write nothing."""
        del commit_id, records  # of the committable, which may be read several times
        plain = request.get_committable()
        stamp = plain.get(MARKERS) or {}
        task = _Task(plain, str(stamp.get("topic") or self._marker_topic), stamp)
        while True:
            try:
                if not self._try(task):
                    request.signal_already_committed()
            except UnknownCommitError as error:
                return settle_unknown(request, error, self._unknown)
            except kafka_client().KafkaException as error:
                if not self._failed(task, error, request):
                    return True
            except BaseException:
                self._drop(task.transactional_id)
                raise
            else:
                if task.single:
                    self._drop(task.transactional_id)  # the next ones are sent in batches
                self._count_dead_letters(sum(record in task.refused for record in task.records()) if task.refused else 0)
                return False

    def close(self) -> None:
        """Release all transactional ids; an open transaction is aborted."""
        for transactional_id in list(self._held):
            self._drop(transactional_id)

    # -- a committable

    def _try(self, task: _Task) -> bool:
        """Commit a committable; return False if it had been committed before."""
        held = self._take(task.transactional_id, single=task.single)
        self._step("taken")
        if self._is_committed(held, task):
            return False
        register = held.registers.get(task.topic) or CommitRegister.begun()
        register = register.with_commit(task.id, task.prepared_at)
        transactions, place = held.transactions, (task.topic, marker_partition(task.transactional_id))
        transactions.begin()
        self._step("begun")
        transactions.send(record for record in task.records() if not task.refused or record not in task.refused)
        self._send_dead_letters(transactions, task)
        self._step("produced")
        transactions.sender.send_as(place[0], partition=place[1], key=task.transactional_id, value=task.id)
        self._step("marked")
        transactions.flush()
        self._step("flushed")
        noted = self._registers.usable or task.stamp.get("register") is not None  # it promises that its commit is recorded
        if noted:
            self._registers.write(transactions.producer, task.transactional_id, place, register)
            self._step("noted")
        transactions.commit()
        held.committed.add(task.id)
        if noted:
            held.registers[task.topic] = register
        self._step("committed")
        return True

    def _is_committed(self, held: _Held, task: _Task) -> bool:
        """Return whether a committable is in Kafka. The id is held, so the answer can't change."""
        if task.id in held.committed:
            return True
        register = held.registers.get(task.topic)
        if register is None:
            place = task.topic, marker_partition(task.transactional_id)
            register = held.registers[task.topic] = self._registers.read(task.transactional_id, *place)
        if register is not None:
            known = register.has(task.id, task.prepared_at, task.stamp.get("register"))
            if known is not None:
                return known
        asked = task.transactional_id, task.prepared_at, task.topic
        try:
            unstamped = None if task.stamp else task.id
            held.committed |= self._markers.committed(*asked, task.stamp.get("topic-id"), unstamped=unstamped)
        except UnknownCommitError as error:
            if self._unknown is not UnknownCommits.WRITE:
                raise
            held.committed |= self._markers.committed(*asked, proven=False)
            if task.id not in held.committed:
                _LOG.warning("Records are written though nobody knows whether they were: %s", error)
        return task.id in held.committed

    def _failed(self, task: _Task, error: BaseException, request: CommitRequest[dict[str, Any]]) -> bool:
        """Handle a failed transaction of a committable; return whether to retry at once."""
        held = self._held.get(task.transactional_id)
        outlasted = None
        found = error.args[0]
        if held is not None:
            found, outlasted = held.transactions.reason_of(found), held.transactions.outlasted()
            failure = held.transactions.sender.failure
            task.failed = None if failure is None else failure.record
        self._drop(task.transactional_id)  # its outcome is known after the id is taken the next time
        said = reason(kafka_client().KafkaException(found))
        if failure_of(found) is Failure.RECORD:
            return self._refused(task, said, request)
        if failure_of(found) is Failure.REFUSED:
            message = f"Kafka doesn't take the records: {said}."
            request.signal_failed_with_unknown_reason(KafkaConnectorError(message, where=self._where))
            return False
        _LOG.warning("A transaction of %s is tried again: %s", task.transactional_id, outlasted or said)
        hint = None if outlasted is None else f"raise it: set_property({TRANSACTION_TIMEOUT!r}, ...); brokers allow 900000"
        request.retry_later(KafkaConnectorError(outlasted or said, where=self._where, hint=hint))
        return False

    # -- records that are refused

    def _refused(self, task: _Task, said: str, request: CommitRequest[dict[str, Any]]) -> bool:
        """Find the rejected records; return whether to retry at once, either without them or to identify them."""
        found = self._offenders(task, said)
        if not found and not task.single:
            task.single = True
            return True
        task.passes += 1
        if found and self._dead_letter_topic is not None and task.passes <= _MOST_PASSES:
            task.refused.update({one.record: one for one in found})
            for one in found[:_MOST_TOLD]:
                _LOG.warning("%s: to %s goes %s", self._where, self._dead_letter_topic, one)
            return True
        message = f"Kafka doesn't take the records: {said}."
        if found:
            total = task.plain["records"]
            message = f"Kafka doesn't take {len(found)} of {total} records ({said}). The first is {found[0]}."
        request.signal_failed_with_unknown_reason(KafkaConnectorError(message, where=self._where, hint=HINT))
        return False

    def _offenders(self, task: _Task, said: str) -> list[RefusedRecord]:
        """Return the records known to be rejected: by their topics' limits, or because they failed as a batch of one."""
        left = (record for record in task.records() if record not in task.refused)
        found = [refused for record in left if (refused := self._limits.refusal(record)) is not None]
        if found or not task.single:
            return found
        left = (record for record in task.records() if record not in task.refused)
        return [self._limits.refused(record, said) for record in left if record[:3] == task.failed][:1]

    def _send_dead_letters(self, transactions: KafkaTransactions, task: _Task) -> None:
        for record in task.records() if task.refused and self._dead_letter_topic is not None else ():
            if record in task.refused:
                transactions.sender.send_as(str(self._dead_letter_topic), **task.refused[record].dead_letter())

    # -- transactional ids

    def _take(self, transactional_id: str, *, single: bool = False) -> _Held:
        """Take a transactional id, and fence its other holders.

        Raises:
            KafkaException: The id can't be taken now.
        """
        held = self._held.get(transactional_id)
        if held is None:
            transactions = KafkaTransactions(self._properties, transactional_id, self._where, single=single)
            held = self._held[transactional_id] = _Held(transactions)
        return held

    def _begin_register(self, held: _Held) -> None:
        """Create a register for this subtask's id: committables made while it exists are looked up only there."""
        place = self._marker_topic, marker_partition(self._own)
        register = self._registers.read(self._own, *place)
        if register is None and self._registers.usable:
            register = CommitRegister.begun()
            try:
                held.transactions.begin()
                self._registers.write(held.transactions.producer, self._own, place, register)
                held.transactions.commit()
            except kafka_client().KafkaException as error:
                if not self._registers.refused(error.args[0]):
                    raise
                self._drop(self._own)
                return
        held.registers[self._marker_topic] = register

    def _drop(self, transactional_id: str) -> None:
        held = self._held.pop(transactional_id, None)
        if held is not None:
            held.transactions.close()
