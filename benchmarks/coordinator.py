"""The coordinator alone: acknowledgements per second and memory with many simulated subtasks.

    python benchmarks/coordinator.py [SUBTASKS] [CHECKPOINTS]

No Spark, no slots, no sockets: one task of SUBTASKS subtasks, whose acknowledgements (each with one keyed handle of 128
bytes inline) come in from four threads as plain data, as they do over the wire. Reported are the time of the
acknowledgements, of the completion after the last of them (`_metadata` written and synced), its size, and the memory the
process has gained. Beside it, in the same run: packing and unpacking the same plain data with msgpack alone, which has to
be paid whatever the coordinator does.
"""

import resource
import sys
import tempfile
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import msgpack
from keyed_count import machine

from pystate.common import Types
from pystate.common.configuration import Configuration
from pystate.common.job_status import JobStatus
from pystate.common.key_groups import key_group_range
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.records.key_column import KeyColumn
from pystate.core.snapshot.handles.handles import ByteStreamStateHandle
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.metadata import OperatorSubtaskState, TaskState
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from pystate.runtime.checkpoint.snapshot_metadata import JobDescription
from pystate.runtime.checkpoint.subtask_metrics import SubtaskCheckpointMetrics
from pystate.runtime.engines.micro_batch.driver.epoch_coordinator import EpochCoordinator
from pystate.runtime.engines.micro_batch.driver.epoch_numbers import EpochNumbers
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import SparkCheckpointDirectory, SparkSource
from pystate.runtime.execution.slots.slot_calls import answer_slot_call
from pystate.runtime.plan.chain import OperatorSpec
from pystate.runtime.plan.task import TaskInput, TaskSpec

MAX_PARALLELISM = 32768
THREADS = 4


class Slots:
    """The slots: every subtask acknowledges a snapshot at once, over a few threads."""

    def __init__(self, subtasks):
        self.coordinator = None
        self.subtasks = subtasks
        self.seconds = 0.0
        self.last_ack = 0.0

    def notify(self, checkpoint_id, *, completed):
        done = Future()
        done.set_result(None)
        return done

    def call_all(self, op, arguments, answered=None, bounded=None):
        request = CheckpointBarrier.from_plain(arguments(0)["barrier"])
        threading.Thread(target=self.acknowledge_all, args=(request.checkpoint_id,)).start()

    def acknowledge_all(self, checkpoint_id):
        calls = [acknowledgement(checkpoint_id, index, self.subtasks) for index in range(self.subtasks)]
        started = time.perf_counter()

        def run(part):
            for call in part:
                answer_slot_call(self.coordinator, "acknowledge", {"parts": [call]})

        threads = [threading.Thread(target=run, args=(calls[number::THREADS],)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.last_ack = time.perf_counter()
        self.seconds = self.last_ack - started


def acknowledged(subtask, subtasks):
    """Return state and metrics of a subtask with one keyed handle of 128 bytes."""
    groups = key_group_range(subtask, subtasks, MAX_PARALLELISM)
    keyed = KeyedStateHandle(groups.start, groups.end, "canonical", ByteStreamStateHandle(bytes(128)))
    state = TaskState({"count": OperatorSubtaskState(keyed_state=[keyed])})
    now = int(time.time() * 1000)
    metrics = SubtaskCheckpointMetrics(
        ack_timestamp=now, sync_ms=1, async_ms=2, start_delay_ms=3, alignment_ms=None, checkpointed_size=128, state_size=128
    )
    return state, metrics


def acknowledgement(checkpoint_id, subtask, subtasks):
    state, metrics = acknowledged(subtask, subtasks)
    return {
        "uid": "count",
        "subtask": subtask,
        "checkpoint_id": checkpoint_id,
        "state": state.packed(),
        "metrics": metrics.to_plain(),
    }


def rss_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    subtasks = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    checkpoints = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        spark = root / "spark"
        for log in ("offsets", "commits"):
            (spark / log).mkdir(parents=True)
        (spark / "metadata").write_text('{"id":"query"}')
        configuration = Configuration({"execution.checkpointing.dir": str(root / "checkpoints")})
        job = JobDescription("a" * 32, "job", subtasks, {}, "0", "0")
        coordinator = CheckpointCoordinator(job, configuration, root / "statistics.json")
        slots = Slots(subtasks)
        slots.coordinator = coordinator
        task = TaskSpec(
            uid="count",
            name="count",
            vertex_id="c" * 32,
            parallelism=subtasks,
            max_parallelism=MAX_PARALLELISM,
            inputs=[TaskInput(Types.STRING(), KeyColumn("value", Types.STRING()))],
            head=OperatorSpec("count", "count", OperatorKind.MAP, lambda word: word),
        )
        epochs = EpochCoordinator(coordinator, EpochNumbers(root / "epochs.json"))
        epochs.describe([task])
        coordinator.start([task], None)
        directory = SparkCheckpointDirectory(spark, [SparkSource("source", 0, 0)])
        before = rss_mb()
        epochs.attempt_started(slots, directory, -1, -1, print)
        rows, size = [], 0
        for _ in range(checkpoints):
            completed = coordinator.trigger_checkpoint().result(600)
            rows.append((subtasks / slots.seconds, time.perf_counter() - slots.last_ack))
            size = (Path(completed.path.removeprefix("file:")) / "_metadata").stat().st_size
        gained = rss_mb() - before
        coordinator.close(JobStatus.CANCELED)
    calls = [acknowledgement(1, index, subtasks) for index in range(subtasks)]
    started = time.perf_counter()
    for call in calls:
        msgpack.unpackb(msgpack.packb(call, use_bin_type=True), raw=False)
    bare = subtasks / (time.perf_counter() - started)
    rate, finish = sorted(rate for rate, _ in rows)[len(rows) // 2], sorted(end for _, end in rows)[len(rows) // 2]
    print(machine())
    print("| subtasks | acks per second | msgpack alone | ratio | last ack to complete | _metadata | memory gained |")
    print("|---|---|---|---|---|---|---|")
    figures = f"{rate:,.0f} | {bare:,.0f} | {bare / rate:.1f} | {finish:.2f} s | {size / 1e6:.1f} MB | {gained:.0f} MB"
    print(f"| {subtasks:,} | {figures} |")


if __name__ == "__main__":
    main()
