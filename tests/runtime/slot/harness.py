"""A slot without Spark: one subtask after its data server, with a coordinator that records what it is told."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from pystate.common import TypeInformation, Types
from pystate.common.processes.control import connect, send_message
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.records.codec import KEY_GROUP_FIELD
from pystate.core.records.key_column import KeyColumn
from pystate.core.state.keys.keys import KeyCodec
from pystate.datastream import KeyedProcessFunction, ValueStateDescriptor
from pystate.runtime.engines.micro_batch.slot.data_server import DataServer
from pystate.runtime.engines.micro_batch.slot.epoch_ledger import TaskOutcome
from pystate.runtime.engines.micro_batch.slot.micro_batch_subtask import MicroBatchSubtask
from pystate.runtime.engines.micro_batch.slot.prepared_epoch import PreparedEpoch
from pystate.runtime.engines.micro_batch.slot.protocol import (
    Admission,
    BatchSender,
    EpochHeader,
    ExchangeOp,
    receive_admission,
    receive_kept,
    send_trailer,
)
from pystate.runtime.plan.chain import Chain, OperatorSpec
from pystate.runtime.plan.task import JobEnvironment, TaskInput, TaskSpec
from pystate.runtime.plan.task_output import OutputKind, OutputSpec
from tests.waiting import LONGEST_S

JOB_ID = "b" * 32
SECRET = b"secret"
UID = "count"
MAX_PARALLELISM = 16
COUNTED = Types.TUPLE([Types.STRING(), Types.LONG()])
OUT_TAG = 1
OUT = OutputSpec(OUT_TAG, OutputKind.FRAME, "out", COUNTED)


class Count(KeyedProcessFunction):
    """Counts per key; raises at the word "poison"."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        if value == "poison":
            message = "poisoned"
            raise ValueError(message)
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count


class RecordingCoordinator:
    """Takes what a subtask tells, and says of task attempts what a test has put here: that they succeeded."""

    def __init__(self) -> None:
        self.prepared: list[PreparedEpoch] = []
        self.outcomes: dict[int, TaskOutcome] = {}
        self.asked: list[int] = []
        self.acknowledged: dict[int, Any] = {}
        self.declined: dict[int, Any] = {}
        self.reasons: dict[int, Any] = {}
        self.failures: list[tuple[Any, str]] = []
        self.records: list[bytes | None] = []
        self.hold = threading.Event()
        self.hold.set()

    def epoch_prepared(self, uid, subtask, prepared):
        self.hold.wait(LONGEST_S)
        self.prepared.append(prepared)

    def task_outcome(self, uid, subtask, asker):
        self.asked.append(asker.task_attempt_id)
        return self.outcomes.get(asker.task_attempt_id, TaskOutcome.SUCCEEDED)

    def acknowledge(self, checkpoint_id, uid, subtask, state, metrics):
        self.acknowledged[checkpoint_id] = (state, metrics)

    def decline(self, checkpoint_id, uid, subtask, error, reason):
        self.declined[checkpoint_id] = error
        self.reasons[checkpoint_id] = reason

    def task_failed(self, uid, subtask, error, stack_trace, record=None):
        self.failures.append((error, stack_trace))
        self.records.append(record)


class SlotHarness:
    """Subtask `index` of a keyed task, reachable as exchanges reach it."""

    def __init__(
        self,
        tmp_path,
        function=None,
        *,
        chain=None,
        index=0,
        parallelism=1,
        restored=None,
        checkpoint_id=None,
        checkpoint_timestamp=None,
        finished_epoch=-1,
        name="slot",
        state_backend="hashmap",
        configuration=None,
    ):
        self.coordinator = RecordingCoordinator()
        self.directory = tmp_path / name
        self.directory.mkdir()
        key_type: TypeInformation = Types.STRING()
        self.codec = KeyCodec(key_type)
        self.task = TaskSpec(
            uid=UID,
            name="count",
            vertex_id="c" * 32,
            parallelism=parallelism,
            max_parallelism=MAX_PARALLELISM,
            inputs=[TaskInput(Types.STRING(), KeyColumn("value", key_type))],
            head=OperatorSpec(UID, "count", OperatorKind.PROCESS, function or Count()),
            chain=chain or Chain(outputs=[OUT]),
        )
        environment = JobEnvironment(JOB_ID, "job", 0, configuration or {}, state_backend, 1 << 20, str(self.directory))
        # uploads run at once, on the caller's thread: tests see their result without waiting
        self.subtask = MicroBatchSubtask(
            self.task, index, environment, self.coordinator, self.coordinator, lambda run: run(), finished_epoch
        )
        self.subtask.open(restored, checkpoint_id, checkpoint_timestamp)
        self.server = DataServer(
            SECRET, JOB_ID, 0, {UID: self.subtask}, host="127.0.0.1", path=str(self.directory / "exchange")
        )
        self.server.start()
        self.index = index

    def close(self):
        self.server.close()
        self.subtask.close()

    def batch(self, words: Iterable[str]) -> pa.RecordBatch:
        words = list(words)
        groups = [self.codec.key_group(word, MAX_PARALLELISM) for word in words]
        arrays = [pa.array(words, pa.string()), pa.array(groups, pa.int32())]
        return pa.RecordBatch.from_arrays(arrays, names=["value", KEY_GROUP_FIELD])

    def header(self, epoch, *, stage=1, attempt=0, op=ExchangeOp.PROCESS, job_id=JOB_ID, execution=0, clock=None):
        who = (op.value, job_id, execution, UID, self.index)
        return EpochHeader(*who, epoch, stage, attempt, (OUT_TAG,), clock=clock)

    def connect(self, header):
        connection = connect(self.server.address, SECRET)
        send_message(connection, header.to_plain())
        return connection

    def run_epoch(self, epoch, words=(), *, barrier=None, **who) -> list[tuple[str, int]]:
        """Bring an epoch's words, and be the driver that finishes it. Return the output."""
        output = self.bring(epoch, words, **who)
        self.finish(epoch, barrier)
        return output

    def bring(self, epoch, words=(), **who) -> list[tuple[str, int]]:
        """Be an exchange: send the words in batches of three, return the output."""
        words = list(words)
        with self.connect(self.header(epoch, **who)) as connection:
            if receive_admission(connection) is Admission.SEND:
                chunks = [words[i : i + 3] for i in range(0, len(words), 3)]
                send_trailer(connection, send_batches(connection, [(0, self.batch(chunk)) for chunk in chunks]), len(words))
                receive_admission(connection)
            return rows(receive_kept(connection))

    def finish(self, epoch, barrier=None):
        """Be the driver, to whom Spark has said that the latest attempt which brought rows is successful."""
        self.subtask.finish_epoch(epoch, self.coordinator.prepared[-1].task_attempt_id, barrier)

    def fetch(self, epoch) -> list[tuple[str, int]]:
        with self.connect(self.header(epoch, op=ExchangeOp.FETCH)) as connection:
            receive_admission(connection)
            return rows(receive_kept(connection))


def send_batches(connection: Any, batches: Iterable[tuple[int, pa.RecordBatch]]) -> int:
    """Send batches, each with the index of its input, and the end. Return the number of rows."""
    sender = BatchSender(connection)
    for index, batch in batches:
        sender.send(index, batch.schema, batch.serialize(), batch.num_rows)
    return sender.end()


def rows(batches: Iterable[pa.RecordBatch]) -> list[tuple[str, int]]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def counted(words: Iterable[str]) -> list[tuple[str, int]]:
    """Return what the counter emits for these words."""
    seen: Counter[str] = Counter()
    result = []
    for word in words:
        seen[word] += 1
        result.append((word, seen[word]))
    return result
