"""The Python stages of the query: the stateless chain in front of a shuffle, and the exchange behind it.

Both run in Spark's Python workers, in tasks of the micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext

from pystate.common.control import Address, connect, send_message
from pystate.common.errors import ControlError, JobGraphError
from pystate.slot.chain import Chain, CompiledChain, OperatorSpec
from pystate.slot.output import OutputBuffer, OutputSpec
from pystate.slot.protocol import (
    Admission,
    EpochHeader,
    ExchangeOp,
    receive_admission,
    receive_batches,
    send_batches,
    send_trailer,
)
from pystate.slot.records import RecordCodec
from pystate.slot.task import JobEnvironment, TaskSpec
from pystate.slot.task_operator import SubtaskRuntimeContext
from pystate.spark.level import Level

BatchStage = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

EPOCH_PROPERTY = "streaming.sql.batchId"
QUERY_PROPERTY = "sql.streaming.queryId"


@dataclass(frozen=True)
class SlotDirectory:
    """Where the slots of one execution attempt are.

    Attributes:
        addresses: The exchange address of each slot, by index.
        epoch_shift: What to add to Spark's batch id to get the epoch; numbers are never given twice within a job, while the
            batch ids of a query that starts anew begin at 0 again.
    """

    job_id: str
    attempt: int
    secret: bytes
    addresses: tuple[Address, ...]
    epoch_shift: int = 0


def chain_stage(task: TaskSpec, chain: Chain, environment: JobEnvironment, level: Level) -> BatchStage:
    """Return the stage that runs a stateless chain whose outputs are the edges to a level."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ready: list[pa.RecordBatch] = []
        index_of = {edge.tag: index for index, edge in enumerate(level.edges)}

        def sink(edge: OutputSpec, batch: pa.RecordBatch) -> None:
            ready.append(level.wrap(index_of[edge.tag], batch))

        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()

        def make_context(operator: OperatorSpec) -> SubtaskRuntimeContext:
            return SubtaskRuntimeContext(operator, task, partition, environment, None)

        buffers = {edge.tag: OutputBuffer(edge, sink) for edge in level.edges}
        compiled = CompiledChain(chain, buffers, make_context)
        decode = RecordCodec(task.inputs[0].type_info, task.name).decode
        emit = compiled.emit
        compiled.open()
        try:
            for batch in batches:
                for element in decode(batch):
                    emit(element)
                yield from ready
                ready.clear()
            for buffer in buffers.values():
                buffer.flush()
            yield from ready
        finally:
            compiled.close()

    return run


def exchange_stage(slots: SlotDirectory, level: Level, next_level: Level | None) -> BatchStage:
    """Return the stage that hands a partition's rows to the slot that owns the subtask.

    Args:
        slots: Where the slots are.
        level: The tasks behind the shuffle.
        next_level: The tasks that these feed; None where their outputs are only kept.
    """
    targets = {} if next_level is None else {task.uid: index for index, task in enumerate(next_level.tasks)}
    edges = [
        [(output.tag, targets[output.target]) for output in task.outputs if output.target in targets] for task in level.tasks
    ]
    uids = [task.uid for task in level.tasks]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        if context is None:
            message = "The exchange runs in Spark tasks only."
            raise ControlError(message)
        index, subtask = level.owner_of(context.partitionId())
        tags = tuple(tag for tag, _ in edges[index])
        epoch = slots.epoch_shift + current_batch(context)
        header = _header(slots, ExchangeOp.PROCESS, uids[index], subtask, epoch, context, tags)
        with connect(slots.addresses[subtask], slots.secret) as connection:
            send_message(connection, header.to_plain())
            if receive_admission(connection) is Admission.SEND:
                rows = send_batches(connection, (level.unwrap(index, batch) for batch in batches))
                send_trailer(connection, rows)
                receive_admission(connection)
            for _, target in edges[index]:
                for batch in receive_batches(connection):
                    if next_level is not None:
                        yield next_level.wrap(target, batch)

    return run


def fetch_stage(slots: SlotDirectory, uid: str, tag: int, epoch: int) -> BatchStage:
    """Return the stage that reads the kept output of the subtasks named by the rows that come in."""

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
    with connect(slots.addresses[subtask], slots.secret) as connection:
        send_message(connection, header.to_plain())
        receive_admission(connection)
        yield from receive_batches(connection)


def current_batch(context: TaskContext) -> int:
    """Return the batch id of the micro-batch that the task belongs to.

    Raises:
        JobGraphError: The task belongs to none.
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
    )
