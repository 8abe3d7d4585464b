"""The relay: the query stage that carries frames between a subtask's slot and Spark's shuffle.

It runs in Spark's Python workers, one task per subtask, as long as the attempt. It reads only the place of a frame. A new
worker reads all modules imported here while its slot waits, so nothing that runs functions is imported.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark import TaskContext

from pystate.common.errors import ControlError
from pystate.common.processes.control import Address, Peer, connect
from pystate.runtime.engines.real_time.slot.frames import PLACE_SIZE, place_of
from pystate.runtime.engines.real_time.slot.relay_server import HEARTBEAT, HEARTBEAT_INTERVAL_S, RelayHeader, introduce
from pystate.runtime.spark.workers.short_errors import BatchStage

TO_FIELD, FRAME_FIELD = "to", "frame"
SCHEMA = pa.schema([pa.field(TO_FIELD, pa.int32()), pa.field(FRAME_FIELD, pa.binary())])

_NOTHING_ELSE = b""
"""A row without a frame: Spark passes a row to Python only when the next one has arrived."""
_MOST_WAITING = 4
"""The number of frames; a barrier waits for those queued before it."""


@dataclass(frozen=True)
class RelayDirectory:
    """The addresses of the slots of one execution attempt.

    Attributes:
        job_id: The job.
        attempt: The attempt.
        secret: The secret that slots ask for.
        slots: The address of the slot of each subtask, by level and partition.
    """

    job_id: str
    attempt: int
    secret: bytes = field(repr=False)
    slots: tuple[tuple[Address, ...], ...] = field(repr=False)

    @property
    def levels(self) -> int:
        """The number of levels."""
        return len(self.slots)

    def partitions(self, level: int) -> int:
        """Return the number of subtasks of a level."""
        return len(self.slots[level])


def relay_stage(directory: RelayDirectory, level: int) -> BatchStage:
    """Return the stage of a level.

    Args:
        directory: The addresses of the slots.
        level: The level of the subtasks that it serves. The first level is fed by its slots only.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        if context is None:
            message = "A relay runs in Spark tasks only."
            raise ControlError(message)
        partition = context.partitionId()
        header = RelayHeader(directory.job_id, directory.attempt, level, partition, context.attemptNumber(), os.getpid())
        with connect(directory.slots[level][partition], directory.secret) as connection:
            introduce(connection, header)
            yield from Relay(directory, level, partition, connection).run(batches)

    return run


class Relay:
    """A running relay.

    Args:
        directory: The addresses of the slots.
        level: The level of its subtask.
        partition: The partition of its subtask.
        connection: The connection to its slot.
    """

    def __init__(self, directory: RelayDirectory, level: int, partition: int, connection: Peer) -> None:
        self._level = level
        self._partition = partition
        self._connection = connection
        last = level + 1 >= directory.levels
        self._next_partitions = 0 if last else directory.partitions(level + 1)
        self._out: queue.Queue[bytes | BaseException] = queue.Queue(_MOST_WAITING)
        self._sending = threading.Lock()

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Carry frames until Spark ends the task.

        Args:
            batches: The output of the shuffle.

        Raises:
            ControlError: The slot is lost, or the output of the shuffle has ended.
        """
        self._begin(self._from_slot, name="relay-slot")
        threading.Thread(target=send_heartbeats, args=(self._connection, self._sending), daemon=True).start()
        if self._level > 0:
            self._begin(self._from_shuffle, batches, name="relay-shuffle")
        unflushed: dict[int, None] = {}  # in order
        while True:
            item = self._out.get()
            if isinstance(item, BaseException):
                raise item
            to = self._next_hop(item)
            unflushed[to] = None
            if self._out.empty():  # a batch of its own for what ends the burst would cost as much as one with records
                yield _rows([to, *unflushed], [item, *(_NOTHING_ELSE for _ in unflushed)])
                unflushed.clear()
            else:
                yield _rows([to], [item])

    def _next_hop(self, frame: bytes) -> int:
        """Return the partition of the next level to which a frame goes; frames for later levels always take the same one."""
        level, partition = place_of(frame)
        if level <= self._level or not self._next_partitions:
            message = f"A frame for level {level} came to the relay of level {self._level}."
            raise ControlError(message)
        return partition if level == self._level + 1 else self._partition % self._next_partitions

    def _begin(self, carry: Callable[..., None], *arguments: object, name: str) -> None:
        threading.Thread(target=self._told, args=(carry, *arguments), name=name, daemon=True).start()

    def _told(self, carry: Callable[..., None], *arguments: object) -> None:
        try:
            carry(*arguments)
        except BaseException as error:  # raised in the task's own thread
            self._out.put(error)

    def _from_slot(self) -> None:
        connection, put = self._connection, self._out.put
        try:
            while True:
                put(connection.recv_bytes())
        except (EOFError, OSError) as error:
            message = f"The slot of place {self._partition} of level {self._level} is gone."
            raise ControlError(message) from error

    def _from_shuffle(self, batches: Iterator[pa.RecordBatch]) -> None:
        send, own = self._connection.send_bytes, (self._level, self._partition)
        try:
            for batch in batches:
                for value in batch.column(1):
                    frame = value.as_buffer()
                    if not frame.size:
                        continue
                    data = frame.to_pybytes()
                    if place_of(data) == own:
                        with self._sending:
                            send(data, PLACE_SIZE)
                    else:
                        self._out.put(data)
        except OSError as error:
            message = f"The slot of place {self._partition} of level {self._level} is gone."
            raise ControlError(message) from error
        message = f"The shuffle before level {self._level} has ended, while records may be under way."
        raise ControlError(message)


def send_heartbeats(connection: Peer, sending: threading.Lock) -> None:
    """Send signs of life to a relay's slot until the connection is closed.

    Args:
        connection: The connection to the slot.
        sending: Held while sending.
    """
    try:
        while True:
            time.sleep(HEARTBEAT_INTERVAL_S)
            with sending:
                connection.send_bytes(HEARTBEAT)
    except (OSError, ValueError, TypeError):  # closed, possibly while sending
        return  # the reading thread notices it


def _rows(to: list[int], frames: list[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(to, pa.int32()), pa.array(frames, pa.binary())], schema=SCHEMA)
