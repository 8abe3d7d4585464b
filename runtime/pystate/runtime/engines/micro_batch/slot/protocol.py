"""The exchange protocol between a Spark task and the slot that owns its subtask.

Over an authenticated connection the task sends a header; the slot answers what to do; the task sends its record batches, an
empty frame and a trailer with the number of rows; the slot answers with the outcome and the output. A connection that ends
without a trailer means that the task died, and nothing of it counts. A trailer proves only that the task has sent what it
got: if Spark's side of the task breaks, its rows just end. What counts is decided when Spark has reported the outcome of the
attempt.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from pystate.common.errors import ControlError, PystateError, error_from_dict
from pystate.common.processes.control import Peer, receive_message, send_message
from pystate.runtime.engines.micro_batch.slot.epoch_ledger import Asker

_END = b""
_INPUT = struct.Struct(">I")


class ExchangeOp(str, Enum):
    """The purpose of a connection."""

    PROCESS = "process"  # run an epoch over the rows that follow
    FETCH = "fetch"  # read one kept output of the last epoch


class Admission(str, Enum):
    """The slot's first answer."""

    SEND = "send"  # send the rows
    REPLAY = "replay"  # the epoch is finished, its output follows
    REFUSED = "refused"  # an error follows


@dataclass(frozen=True)
class EpochHeader:
    """The header of a request: the requesting task attempt, and what it requests.

    Attributes:
        epoch: The epoch number in the job.
        tags: The outputs to send back, one after another: edges to the next tasks, or the output to fetch.
        end_of_input: Whether no epoch follows: event time ends after the rows.
        clock: The time up to which processing-time timers fire; None for the slot's clock.
        ended: The event-time channels of sources that have ended after the epoch's rows.
    """

    op: str
    job_id: str
    attempt: int
    uid: str
    subtask: int
    epoch: int
    stage_id: int
    task_attempt_id: int
    tags: tuple[int, ...]
    end_of_input: bool = False
    clock: int | None = None
    ended: tuple[str, ...] = ()

    @property
    def asker(self) -> Asker:
        """The requesting Spark task attempt."""
        return Asker(self.stage_id, self.task_attempt_id)

    def to_plain(self) -> dict[str, Any]:
        """Return the header as plain data."""
        return asdict(self)


class BatchSender:
    """Sends record batches, each with the index of the task's input it belongs to.

    A frame of four bytes names the input of the batches that follow; an input's first such frame is followed by its schema.

    Args:
        connection: The connection to the slot.
    """

    def __init__(self, connection: Peer) -> None:
        self._connection = connection
        self._current: int | None = None
        self._known: set[int] = set()
        self._rows = 0

    def send(self, input_index: int, schema: pa.Schema, data: bytes | pa.Buffer, rows: int = 0) -> None:
        """Send one serialized batch; `rows` are added to what `end` returns."""
        if input_index != self._current:
            self._current = input_index
            self._connection.send_bytes(_INPUT.pack(input_index))
            if input_index not in self._known:
                self._known.add(input_index)
                self._connection.send_bytes(schema.serialize())
        self._connection.send_bytes(data)
        self._rows += rows

    def end(self) -> int:
        """Signal that no batch follows; return the number of rows."""
        self._connection.send_bytes(_END)
        return self._rows


def receive_batches(connection: Peer) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the input index and batch of each batch that a `BatchSender` sent."""
    index = 0
    schemas: dict[int, pa.Schema] = {}
    while (frame := connection.recv_bytes()) != _END:
        if len(frame) == _INPUT.size:  # an Arrow message is longer: it begins with eight bytes of its own
            (index,) = _INPUT.unpack(frame)
            if index not in schemas:
                schemas[index] = pa.ipc.read_schema(pa.py_buffer(connection.recv_bytes()))
            continue
        yield index, pa.ipc.read_record_batch(pa.py_buffer(frame), schemas[index])


def send_kept(connection: Peer, schema: pa.Schema, batches: Iterable[bytes]) -> None:
    """Send the serialized batches of one output: a schema frame, a frame per batch, and an end frame."""
    first = True
    for data in batches:
        if first:
            connection.send_bytes(schema.serialize())
            first = False
        connection.send_bytes(data)
    connection.send_bytes(_END)


def receive_kept(connection: Peer) -> Iterator[pa.RecordBatch]:
    """Yield the batches that `send_kept` sent."""
    frame = connection.recv_bytes()
    if frame == _END:
        return
    schema = pa.ipc.read_schema(pa.py_buffer(frame))
    while (frame := connection.recv_bytes()) != _END:
        yield pa.ipc.read_record_batch(pa.py_buffer(frame), schema)


def send_trailer(connection: Peer, rows: int, rows_read: int) -> None:
    """Report that all rows were sent, and that the task has read `rows_read` rows."""
    send_message(connection, {"rows": rows, "read": rows_read})


def receive_trailer(connection: Peer, rows: int) -> int:
    """Check that all sent rows were received; return how many the task has read.

    Raises:
        ControlError: The numbers differ.
    """
    trailer = receive_message(connection)
    sent, read = int(trailer["rows"]), int(trailer["read"])
    if sent != rows:
        message = f"The exchange sent {sent} rows, {rows} arrived."
        raise ControlError(message)
    return read


def refuse(connection: Peer, error: PystateError) -> None:
    """Answer any request with an error."""
    send_message(connection, {"admission": Admission.REFUSED.value, "error": error.to_dict()})


def admit(connection: Peer, admission: Admission) -> None:
    """Answer what the task attempt has to do."""
    send_message(connection, {"admission": admission.value})


def receive_admission(connection: Peer) -> Admission:
    """Return the slot's answer.

    Raises:
        PystateError: The slot rejects the request.
    """
    answer = receive_message(connection)
    admission = Admission(answer["admission"])
    if admission is Admission.REFUSED:
        raise error_from_dict(answer["error"])
    return admission
