"""The coordinator with slots and Spark replaced."""

import math
import threading
import time
from concurrent.futures import Future
from dataclasses import replace

from pystate.common import Types
from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import ControlError
from pystate.core.records.key_column import KeyColumn
from pystate.core.snapshot.operator_state import TaskState
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from pystate.runtime.checkpoint.snapshot_metadata import JobDescription
from pystate.runtime.checkpoint.subtask_metrics import SubtaskCheckpointMetrics
from pystate.runtime.engines.micro_batch.driver.epoch_coordinator import EpochCoordinator
from pystate.runtime.engines.micro_batch.driver.epoch_numbers import EpochNumbers
from pystate.runtime.engines.micro_batch.slot.prepared_epoch import PreparedEpoch
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import SparkCheckpointDirectory, SparkSource
from pystate.runtime.execution.slots.slot_calls import answer_slot_call
from pystate.runtime.plan.job_plan import vertex_id
from pystate.runtime.plan.task import TaskInput, TaskSpec
from tests.waiting import LONGEST_S

JOB = JobDescription("a" * 32, "job", 2, {}, "0", "4.3.0")


SUBTASKS = [0, 1]
TASK = TaskSpec(
    uid="count",
    name="count",
    vertex_id=vertex_id("count"),
    parallelism=2,
    max_parallelism=128,
    inputs=[TaskInput(Types.STRING(), KeyColumn("value", Types.STRING()))],
)


class FakeSpark:
    """Spark's side: a checkpoint directory that a test fills batch by batch."""

    def __init__(self, root):
        self.root = root
        self.directory = SparkCheckpointDirectory(root, [SparkSource("source", 0, 0)])
        for log in ("offsets", "commits"):
            (root / log).mkdir(parents=True)
        (root / "metadata").write_text('{"id":"query"}')

    def plan(self, batch):
        (self.root / "offsets" / str(batch)).write_text(f'v1\n{{}}\n{{"offset":{batch}}}')

    def commit(self, batch):
        (self.root / "commits" / str(batch)).write_text("v1\n{}")


class CalledSlots:
    """Slots of which a test says how they take a snapshot between two epochs."""

    def call_all(self, op, arguments, answered=None, bounded=None):
        assert op == "snapshot"
        self.snapshot(CheckpointBarrier.from_plain(arguments(0)["barrier"]))


class FakeSlots(CalledSlots):
    """The slots: snapshots between epochs are acknowledged, or declined."""

    def __init__(self):
        self.coordinator = None
        self.snapshots = []
        self.decline = False
        self.block = threading.Event()
        self.block.set()
        self.told = []
        self.telling = None  # a future that holds a notification back

    def notify(self, checkpoint_id, *, completed):
        self.told.append((checkpoint_id, completed))
        done = self.telling or Future()
        if self.telling is None:
            done.set_result(True)
        return done

    def snapshot(self, request):
        self.snapshots.append(request)
        self.block.wait(LONGEST_S)
        if self.decline:
            message = "no"
            raise ControlError(message)
        for subtask in SUBTASKS:
            acknowledge(self.coordinator, request.checkpoint_id, subtask)


def acknowledge(coordinator, checkpoint_id, subtask, **changes):
    metrics = SubtaskCheckpointMetrics(
        ack_timestamp=int(time.time() * 1000),
        sync_ms=1,
        async_ms=2,
        start_delay_ms=3,
        alignment_ms=None,
        checkpointed_size=0,
        state_size=0,
    )
    arguments = {"uid": "count", "subtask": subtask, "checkpoint_id": checkpoint_id}
    state = TaskState().packed()
    part = {**arguments, "state": state, "metrics": metrics.to_plain(), **changes}
    return answer_slot_call(coordinator, "acknowledge", {"parts": [part]})[0]


def expire(one):
    """Let the time of what is pending be over: it comes when the test wants it, however slow the machine is."""
    pending = one.coordinator.pending
    with pending.lock:
        for checkpoint in pending:
            checkpoint.deadline = 0.0
            if checkpoint._handed_out_at is not None:
                checkpoint._handed_out_at = -math.inf
        pending.lock.notify_all()


class Bench:
    def __init__(self, tmp_path, options):
        defaults = {
            "execution.checkpointing.dir": str(tmp_path / "ck"),
            "execution.checkpointing.savepoint-dir": str(tmp_path / "sp"),
        }
        self.spark = FakeSpark(tmp_path / "spark")
        self.slots = FakeSlots()
        self.failures = []
        self.coordinator = CheckpointCoordinator(
            JOB,
            Configuration({**defaults, **options}),
            tmp_path / "checkpoints.json",
        )
        self.slots.coordinator = self.coordinator
        self.epochs = EpochCoordinator(self.coordinator, EpochNumbers(tmp_path / "epochs.json"))
        self.epochs.describe([TASK])
        self.coordinator.start([replace(TASK)], None)  # some tests give it another head
        self.start_attempt()

    def start_attempt(self, next_timer=None, **options):
        started = self.epochs.attempt_started
        self.attempt = started(self.slots, self.spark.directory, -1, -1, self.failures.append, next_timer, **options)

    def prepared(self, subtask, epoch, rows_in=0, rows_out=0, next_timer=None):
        """Be a subtask that has got all rows of an epoch."""
        share = PreparedEpoch(epoch, 7, 70 + subtask, rows_in, rows_in, rows_out, next_timer)
        self.attempt.subtask_prepared("count", subtask, share)

    @property
    def barriers(self):
        return self.attempt._barriers

    def begin(self, epoch):
        self.spark.plan(epoch)
        self.attempt.begin_epoch(epoch)

    def end(self, epoch, commit=True, batch=None, timers=(None, None)):
        """End an epoch; return the barrier that it carries. It is behind a batch of another number, where one is given."""
        for subtask in SUBTASKS:
            self.prepared(subtask, epoch, next_timer=timers[subtask])
        barrier = self.attempt.decide(epoch)
        self.finish(epoch, commit, batch)
        return barrier

    def finish(self, epoch, commit=True, batch=None):
        """Be the driver whose slots have finished an epoch that is decided."""
        for slot in SUBTASKS:
            self.attempt.slot_finished(slot)
        self.attempt.subtasks_finished(epoch)
        self.attempt.finish_epoch(epoch, epoch if batch is None else batch)
        if commit:
            self.spark.commit(epoch)

    def epoch(self, number):
        self.begin(number)
        return self.end(number)


def in_thread(run):
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def raised(run):
    try:
        run()
    except Exception as error:
        return error
    return None
