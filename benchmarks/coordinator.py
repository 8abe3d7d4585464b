"""The coordinator alone: acknowledgements per second and memory with many simulated subtasks.

    python benchmarks/coordinator.py [SUBTASKS] [CHECKPOINTS] [FILES]

No Spark, no slots, no sockets: one task of SUBTASKS subtasks, whose acknowledgements (each with one keyed handle of 128
bytes inline, or an incremental one of FILES shared files of 64 MB, of which the checkpoint has written one) come in from
four threads as they do over the wire. Reported are the processor time of the acknowledgements, of the completion after the
last of them (`_metadata` written and synced), its size, and the memory the process has gained. Beside it, in the same run:
packing and unpacking the same data with msgpack alone, which has to be paid whatever the coordinator does.
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
from pystate.core.snapshot.handles.handles import ByteStreamStateHandle, FileStateHandle
from pystate.core.snapshot.handles.incremental_handle import IncrementalKeyedStateHandle, SharedFile
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.operator_state import OperatorSubtaskState, TaskState
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
FILE_BYTES = 64 << 20


class Slots:
    """The slots: every subtask acknowledges a snapshot at once, over a few threads."""

    def __init__(self, subtasks, files):
        self.coordinator = None
        self.subtasks, self.files = subtasks, files
        self.seconds = 0.0
        self.last_ack = 0.0
        self.barrier = None

    def notify(self, checkpoint_id, *, completed):
        done = Future()
        done.set_result(None)
        return done

    def call_all(self, op, arguments, answered=None, bounded=None):
        request = CheckpointBarrier.from_plain(arguments(0)["barrier"])
        threading.Thread(target=self.acknowledge_all, args=(request,)).start()

    def acknowledge_all(self, barrier):
        self.barrier = barrier
        calls = [acknowledgement(barrier, index, self.subtasks, self.files) for index in range(self.subtasks)]
        started = time.process_time()

        def run(part):
            for call in part:
                answer_slot_call(self.coordinator, "acknowledge", {"parts": [call]})

        threads = [threading.Thread(target=run, args=(calls[number::THREADS],)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.last_ack = time.process_time()
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


def incremental(subtask, subtasks, files, barrier):
    """Return the state of a subtask in shared files, one for each of the last checkpoints."""
    groups = key_group_range(subtask, subtasks, MAX_PARALLELISM)
    shared = {}
    for number in range(max(0, barrier.checkpoint_id - files), barrier.checkpoint_id):
        written_by = barrier.shared_prefix.split("-")
        written_by[1] = str(number + 1)
        path = f"{barrier.shared}/{'-'.join(written_by)}{subtask:05d}{number:05d}"
        shared[f"{number:06d}.sst"] = SharedFile(f"{subtask:032d}-{number:06d}", FileStateHandle(path, FILE_BYTES, number))
    for number in range(files - len(shared)):
        path = f"{barrier.shared}/{barrier.shared_prefix.split('-')[0]}-0-00000000-{subtask:05d}{number:05d}"
        shared[f"a{number:06d}.sst"] = SharedFile(f"{subtask:032d}-a{number:06d}", FileStateHandle(path, FILE_BYTES, number))
    meta = ByteStreamStateHandle(bytes(128))
    return IncrementalKeyedStateHandle(groups.start, groups.end, "rocksdb", f"{subtask:032d}", shared, {}, meta, FILE_BYTES)


def acknowledgement(barrier, subtask, subtasks, files=0):
    state, metrics = acknowledged(subtask, subtasks)
    if files:
        state = TaskState({"count": OperatorSubtaskState(keyed_state=[incremental(subtask, subtasks, files, barrier)])})
    return {
        "uid": "count",
        "subtask": subtask,
        "checkpoint_id": barrier.checkpoint_id,
        "state": state.packed(),
        "metrics": metrics.to_plain(),
    }


def rss_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    subtasks = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    checkpoints = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    files = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        spark = root / "spark"
        for log in ("offsets", "commits"):
            (spark / log).mkdir(parents=True)
        (spark / "metadata").write_text('{"id":"query"}')
        options = {"execution.checkpointing.dir": str(root / "checkpoints")}
        if files:
            options |= {"execution.checkpointing.incremental": "true", "state.backend.type": "rocksdb"}
        configuration = Configuration(options)
        job = JobDescription("a" * 32, "job", subtasks, {}, "0", "0")
        coordinator = CheckpointCoordinator(job, configuration, root / "statistics.json")
        slots = Slots(subtasks, files)
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
            rows.append((subtasks / slots.seconds, time.process_time() - slots.last_ack))
            size = (Path(completed.path.removeprefix("file:")) / "_metadata").stat().st_size
        gained = rss_mb() - before
        coordinator.close(JobStatus.CANCELED)
    calls = [acknowledgement(slots.barrier, index, subtasks, files) for index in range(subtasks)]
    started = time.process_time()
    for call in calls:  # a state comes as bytes in the message
        state = {uid: msgpack.unpackb(packed) for uid, packed in call["state"].items()}
        msgpack.unpackb(msgpack.packb({**call, "state": state}, use_bin_type=True), raw=False)
    bare = subtasks / (time.process_time() - started)
    rate, finish = sorted(rate for rate, _ in rows)[len(rows) // 2], sorted(end for _, end in rows)[len(rows) // 2]
    print(machine())
    print(
        "| subtasks | files | acks per second | msgpack alone | ratio | last ack to complete | _metadata | memory gained |"
    )
    print("|---" * 8 + "|")
    figures = f"{rate:,.0f} | {bare:,.0f} | {bare / rate:.1f} | {finish:.2f} s | {size / 1e6:.1f} MB | {gained:.0f} MB"
    print(f"| {subtasks:,} | {files} | {figures} |")


if __name__ == "__main__":
    main()
