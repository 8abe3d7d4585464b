"""The exchange: the query's Python stage after a shuffle, which sends rows to the slots.

It runs in Spark's Python workers, in tasks of the micro-batch. A new worker reads, and in a cluster compiles, all modules
imported here while its slot waits, so nothing that runs functions is imported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark import TaskContext

from pystate.common.errors import ControlError, JobGraphError
from pystate.common.processes.control import Address, Peer, connect, send_message
from pystate.common.processes.machine_load import patient
from pystate.runtime.engines.micro_batch.slot.kept_output import KeptOutput
from pystate.runtime.engines.micro_batch.slot.protocol import (
    Admission,
    BatchSender,
    EpochHeader,
    ExchangeOp,
    receive_admission,
    receive_kept,
    send_trailer,
)
from pystate.runtime.engines.micro_batch.spark.level import Level, LevelWriter, level_index
from pystate.runtime.plan.job_plan import edges_of
from pystate.runtime.plan.task import TaskSpec
from pystate.runtime.plan.task_output import with_watermarks
from pystate.runtime.spark.workers.short_errors import BatchStage

EPOCH_PROPERTY = "pystate.epoch"
"""The epoch number, as a local property of the thread that runs the epoch, and so of its Spark tasks."""
CLOCK_PROPERTY = "pystate.clock"
"""Likewise for a timer epoch: the time up to which timers fire, ms since 1970."""

ENDED_PROPERTY = "pystate.ended"
"""Likewise if some but not all sources end with the epoch: their event-time channels, as a JSON list."""


@dataclass(frozen=True)
class SlotDirectory:
    """The addresses of the slots of one execution attempt.

    Attributes:
        addresses: The exchange address of each slot, by index; none for a rehearsal, which reaches no slot.
        end_of_input: Whether the epoch is the last one, after all rows.
    """

    job_id: str
    attempt: int
    secret: bytes = field(repr=False)
    addresses: tuple[Address, ...]
    end_of_input: bool = False


def exchange_stage(slots: SlotDirectory, level: Level, next_level: Level | None, held_bytes: int) -> BatchStage:
    """Return the stage that sends a partition's rows to the slot that owns the subtask, and passes on all other rows.

    Args:
        slots: The addresses of the slots.
        level: The tasks after the shuffle.
        next_level: The next level; None if the outputs of these tasks are only kept.
        held_bytes: The memory bound for rows that wait for broadcast rows.
    """
    edges = {
        task.uid: [(edge.tag, level_index(next_level, edge)) for edge in with_watermarks(edges_of(task))]
        for task in level.tasks
    }
    level, next_level = level.without_functions(), next_level and next_level.without_functions()

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        if context is None:
            message = "The exchange runs in Spark tasks only."
            raise ControlError(message)
        if not slots.addresses:
            return
        task, subtask = level.owner_of(context.partitionId())
        tags = tuple(tag for tag, _ in edges[task.uid])
        epoch = current_epoch(context)
        header = _header(slots, ExchangeOp.PROCESS, task.uid, subtask, epoch, context, tags)
        with connect(slots.addresses[subtask], slots.secret) as connection:
            send_message(connection, header.to_plain())
            if receive_admission(connection) is Admission.SEND:
                with InputSender(connection, task, held_bytes) as sender:
                    rows_read = yield from forward_rows(level, next_level, batches, sender.send)
                    send_trailer(connection, sender.finish(), rows_read)
                receive_admission(connection)
            else:
                yield from forward_rows(level, next_level, batches, lambda _, rows: None)
            if next_level is not None:
                writer = LevelWriter(next_level, context.partitionId())
                for _, index in edges[task.uid]:
                    for batch in receive_kept(connection):
                        yield writer.write(index, batch)

    return run


def forward_rows(
    level: Level,
    next_level: Level | None,
    batches: Iterable[pa.RecordBatch],
    send: Callable[[int, pa.RecordBatch], None],
) -> Generator[pa.RecordBatch, None, int]:
    """Send the rows for a task's inputs, and yield those for tasks of later levels in the next level's schema.

    Returns:
        The number of rows read, possibly not all: if Spark's side of the task breaks, they just end.
    """
    own, rows_read = len(level.ports), 0
    for batch in batches:
        rows_read += batch.num_rows
        for index, rows in level.unwrap(batch):
            if index < own:
                send(level.port(index).frame_index, rows)
            elif next_level is not None:
                yield next_level.wrap(next_level.index_of_port(level.port(index)), rows)
    return rows_read


class InputSender:
    """Sends the rows of an epoch to a task's slot: those of broadcast inputs at once, the others after all of them.

    Rows wait only for a task that has both kinds of inputs: in memory up to a bound, beyond it in a file.

    Args:
        connection: The connection to the slot.
        task: The task.
        held_bytes: The memory bound.
    """

    def __init__(self, connection: Peer, task: TaskSpec, held_bytes: int) -> None:
        self._sender = BatchSender(connection)
        broadcast = [read.broadcast for read in task.inputs]
        self._waits = [any(broadcast) and not first for first in broadcast]
        self._waits += [False] * len(task.inputs)  # watermarks, which take effect after all rows
        self._held = KeptOutput(held_bytes)
        self._schemas: dict[int, pa.Schema] = {}

    def __enter__(self) -> InputSender:
        """Enter."""
        return self

    def __exit__(self, *error: object) -> None:
        """Drop the held rows."""
        self._held.close()

    def send(self, input_index: int, rows: pa.RecordBatch) -> None:
        """Send rows of one input, or hold them back."""
        if self._waits[input_index]:
            self._schemas.setdefault(input_index, rows.schema)
            self._held.append(input_index, rows.serialize().to_pybytes(), rows.num_rows)
        else:
            self._sender.send(input_index, rows.schema, rows.serialize(), rows.num_rows)

    def finish(self) -> int:
        """Send the held rows and the end; return the number of rows sent."""
        for input_index, schema in self._schemas.items():
            for data in self._held.batches(input_index):
                self._sender.send(input_index, schema, data)
        return self._sender.end() + self._held.rows


ANSWER_TIMEOUT_S = 50.0
"""How long the driver waits for a silent slot: as long as for its heartbeats."""


def fetch_stage(slots: SlotDirectory, uid: str, tag: int, epoch: int) -> BatchStage:
    """Return the stage that fetches the kept output of the subtasks named by its input rows."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        for batch in batches:
            for subtask in batch.column(0).to_pylist():
                yield from fetch_output(slots, uid, tag, epoch, subtask, context)

    return run


def fetch_output(
    slots: SlotDirectory, uid: str, tag: int, epoch: int, subtask: int, context: TaskContext | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of one subtask's kept output."""
    header = _header(slots, ExchangeOp.FETCH, uid, subtask, epoch, context, (tag,))
    # Spark cancels a task; the driver's own thread would wait for ever, and the next attempt's query for it
    timeout = patient(ANSWER_TIMEOUT_S) if context is None else None
    with connect(slots.addresses[subtask], slots.secret, timeout=timeout) as connection:
        send_message(connection, header.to_plain())
        receive_admission(connection)
        yield from receive_kept(connection)


def current_epoch(context: TaskContext) -> int:
    """Return the number of the epoch that the task belongs to.

    It differs from Spark's batch id: batch ids of a new query begin at 0 again, and not every epoch is a batch.

    Raises:
        JobGraphError: The task belongs to no epoch.
    """
    epoch = context.getLocalProperty(EPOCH_PROPERTY)
    if epoch is None:
        message = "A stateful operator was run outside of its epoch, probably from a thread that does not inherit it."
        raise JobGraphError(message, hint="start threads in for_each_batch() as pyspark.InheritableThread")
    return int(epoch)


def _header(
    slots: SlotDirectory,
    op: ExchangeOp,
    uid: str,
    subtask: int,
    epoch: int,
    context: TaskContext | None,
    tags: tuple[int, ...],
) -> EpochHeader:
    clock = None if context is None else context.getLocalProperty(CLOCK_PROPERTY)
    ended = None if context is None else context.getLocalProperty(ENDED_PROPERTY)
    return EpochHeader(
        op=op.value,
        job_id=slots.job_id,
        attempt=slots.attempt,
        uid=uid,
        subtask=subtask,
        epoch=epoch,
        stage_id=-1 if context is None else context.stageId(),
        task_attempt_id=0 if context is None else context.taskAttemptId(),
        tags=tags,
        end_of_input=slots.end_of_input,
        clock=None if clock is None else int(clock),
        ended=() if ended is None else tuple(json.loads(ended)),
    )
