"""A job with incremental checkpoints in one thread: the real coordinator and the slots' real classes, each step on call.

Backends are folders of small files that come and go as RocksDB's do: a name never stands for other bytes, and one that went
never comes back. What slots upload, and when they hear of what, is up to the caller.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast
from unittest.mock import patch

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import ControlError
from pystate.common.key_groups import KeyGroupRange, key_group_range
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.snapshot.metadata import CheckpointMetadata
from pystate.core.snapshot.metadata_file import read_metadata
from pystate.core.snapshot.native_state import NativeUpload
from pystate.core.snapshot.operator_state import OperatorSubtaskState, TaskState
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.base.backend_snapshot import NativeSnapshot, NativeSource
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.runtime.checkpoint import coordinator_thread
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from pystate.runtime.checkpoint.snapshot_metadata import JobDescription
from pystate.runtime.checkpoint.subtask_metrics import SubtaskCheckpointMetrics
from pystate.runtime.engines.micro_batch.driver.epoch_coordinator import EpochCoordinator
from pystate.runtime.engines.micro_batch.driver.epoch_numbers import EpochNumbers
from pystate.runtime.engines.micro_batch.slot.prepared_epoch import PreparedEpoch
from pystate.runtime.execution.slots.slot_calls import answer_slot_call
from pystate.runtime.plan.chain import OperatorSpec
from pystate.runtime.slot.snapshots.keyed_snapshots import KeyedSnapshots
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator
from tests.runtime.checkpoint.harness import TASK, CalledSlots, FakeSpark

JOB_ID = "a" * 32
MAX_PARALLELISM = 128
HEAD = OperatorSpec("count", "count", OperatorKind.PROCESS, print)


class CrashError(BaseException):
    """The driver is gone in the midst of a step."""


class FolderSnapshot(NativeSnapshot):
    """The files of a backend at one moment."""

    shared_files: Mapping[str, str] = {}
    private_files: Mapping[str, str] = {}

    def __init__(self, folder: str, backend_id: str) -> None:
        self.format = "folder"
        self.backend_id = backend_id
        self._folder = folder
        self.shared_files = {name: os.path.join(folder, name) for name in sorted(os.listdir(folder))}

    def write_meta(self, sink: BinaryIO) -> None:
        sink.write(b"meta")

    def release(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class FolderBackend:
    """A backend whose state is the content of its files."""

    native_format = "folder"
    _made = 0

    def __init__(self, parent: str, groups: KeyGroupRange, base: int) -> None:
        FolderBackend._made += 1
        self.backend_id = f"b{FolderBackend._made}"
        self.configuration = Configuration()
        self.working_directory = parent
        self.key_group_range = groups
        self.files: dict[str, bytes] = {}
        self._base = base
        self._written = 0

    def write(self) -> None:
        """Bring a new file."""
        self._written += 1
        name = f"{self.backend_id}.{self._written}.sst"
        self.files[name] = name.encode()

    def compact(self) -> None:
        """Replace the older half of the files by a new one."""
        for name in sorted(self.files)[: (len(self.files) + 1) // 2]:
            del self.files[name]
        self.write()

    def snapshot_native(self) -> FolderSnapshot:
        folder = tempfile.mkdtemp(prefix="frozen-", dir=self.working_directory)
        for name, content in self.files.items():
            Path(folder, name).write_bytes(content)
        return FolderSnapshot(folder, self.backend_id)

    def restore(self, files: Sequence[BinaryIO]) -> None:
        assert not files, "all state is in native files"

    def restore_native(self, sources: Sequence[NativeSource]) -> int:
        base = self._base % len(sources)
        for source in sources:
            found = {path.name: path.read_bytes() for path in Path(source.directory).iterdir()}
            assert all(name.encode() == content for name, content in found.items()), "the files are those that were written"
            if source is sources[base]:
                self.files = found
            shutil.rmtree(source.directory)
        return base


@dataclass
class Upload:
    """The asynchronous part of one subtask's snapshot."""

    subtask: int
    request: CheckpointBarrier
    frozen: NativeUpload


class ModelSlots(CalledSlots):
    """The slots of one attempt: snapshots are frozen when they are asked for, and written when the test says so."""

    def __init__(self, coordinator: CheckpointCoordinator, parallelism: int, parent: str, bases: int) -> None:
        self._coordinator = coordinator
        groups = [key_group_range(index, parallelism, MAX_PARALLELISM) for index in range(parallelism)]
        self.backends = [FolderBackend(parent, one, bases + index) for index, one in enumerate(groups)]
        self.keyed = [KeyedSnapshots(cast(KeyedStateBackend, backend)) for backend in self.backends]
        self.uploads: list[Upload] = []
        self.notifications: list[tuple[int, int, bool]] = []

    def restore(self, location: str, metadata: CheckpointMetadata) -> None:
        (operator,) = metadata.operators
        handles = [handle for state in operator.subtasks.values() for handle in state.keyed_state]
        for backend, keyed in zip(self.backends, self.keyed, strict=True):
            mine = [one for one in handles if one.key_group_range.intersect(backend.key_group_range)]
            keyed.restore(RestoredOperator(location, mine, owned=True))

    def snapshot(self, request: CheckpointBarrier) -> None:
        for subtask in range(len(self.keyed)):
            self.freeze(subtask, request)

    def freeze(self, subtask: int, request: CheckpointBarrier) -> None:
        request = CheckpointBarrier.from_plain(request.to_plain())  # as it comes over the wire
        frozen = self.keyed[subtask].freeze(request.checkpoint_id, request.shared_target, native=request.native)
        assert isinstance(frozen, NativeUpload)
        self.uploads.append(Upload(subtask, request, frozen))

    def notify(self, checkpoint_id: int, *, completed: bool) -> Future[bool]:
        self.notifications += [(subtask, checkpoint_id, completed) for subtask in range(len(self.keyed))]
        done: Future[bool] = Future()
        done.set_result(True)
        return done

    def hear(self, index: int) -> None:
        """Let a slot hear of one checkpoint's end, in the order in which it was told."""
        subtask = self.notifications[index][0]
        first = next(told for told in self.notifications if told[0] == subtask)
        self.notifications.remove(first)
        if not first[2]:
            self.keyed[subtask].checkpoint_failed(first[1])

    def upload(self, index: int, *, failing: bool = False) -> None:
        """Write and acknowledge one snapshot; or decline it when all is written but the last file."""
        one = self.uploads.pop(index)
        checkpoint = {"uid": "count", "subtask": one.subtask, "checkpoint_id": one.request.checkpoint_id}
        location = SnapshotLocation(one.request.location)
        try:
            handle = one.frozen.write(location, f"state-{one.subtask}", 100)
        finally:
            one.frozen.release()
        if failing:
            error = ControlError("no").to_dict()
            answer_slot_call(
                self._coordinator, "decline", {**checkpoint, "error": error, "reason": "CHECKPOINT_ASYNC_EXCEPTION"}
            )
            return
        state = TaskState({"count": OperatorSubtaskState([handle])})
        metrics = SubtaskCheckpointMetrics(int(time.time() * 1000), 1, 2, 3, None, state.checkpointed_size, state.state_size)
        plain = {"state": state.packed(), "metrics": metrics.to_plain()}
        answer_slot_call(self._coordinator, "acknowledge", {"parts": [{**checkpoint, **plain}]})


class ModelJob:
    """The job, over its attempts and drivers.

    Args:
        root: An empty folder.
        options: Of checkpointing.
    """

    def __init__(self, root: Path, options: dict[str, str]) -> None:
        self.root = root
        self.options = {
            "execution.checkpointing.incremental": "true",
            "execution.checkpointing.tolerable-failed-checkpoints": "1000000",
            "execution.checkpointing.dir": str(root / "ck"),
            "execution.checkpointing.savepoint-dir": str(root / "sp"),
            **options,
        }
        (root / "working").mkdir()
        self.now = 0.0
        self.drivers = self.attempts = 0
        self.epoch = -1
        self.coordinator: CheckpointCoordinator
        self.start_driver(2, 0)

    # -- drivers and attempts

    def start_driver(self, parallelism: int, bases: int) -> None:
        """Start a driver, which takes over what the one before has left."""
        self.drivers += 1
        self.parallelism = parallelism
        self.coordinator = CheckpointCoordinator(
            JobDescription(JOB_ID, "job", parallelism, {}, "0", "4.3.0"),
            Configuration(self.options),
            self.root / "checkpoints.json",
            lambda: self.now,
        )
        numbers = EpochNumbers(self.root / "epochs.json")
        self.epochs = EpochCoordinator(self.coordinator, numbers, lambda: self.now)
        self.coordinator.recover(lambda _: None)
        self.coordinator._thread._thread = cast(Any, _NoThread())
        tasks = [replace(TASK, parallelism=parallelism, head=HEAD)]
        self.epochs.describe(tasks)
        self.coordinator.start(tasks, None)
        self._start_attempt(bases)

    def crash(self, parallelism: int, bases: int) -> None:
        """Let the driver die without a word, and another one take over."""
        self.coordinator._statistics.close()
        self.start_driver(parallelism, bases)

    def restart(self, bases: int) -> None:
        """End the attempt and begin another one."""
        self.coordinator.attempt_over()
        late = self.slots.uploads
        self._start_attempt(bases)
        self.slots.uploads = late  # a slot that was cut off goes on with its work

    def _start_attempt(self, bases: int) -> None:
        self.attempts += 1
        self.running: int | None = None  # the batch that runs
        self.batch = -1
        self.base_epoch = self.epoch
        self.spark = FakeSpark(self.root / f"spark-{self.attempts}")
        self.slots = ModelSlots(self.coordinator, self.parallelism, str(self.root / "working"), bases)
        latest = self.coordinator.latest_snapshot()
        if latest is not None:
            self.slots.restore(latest.location.uri, latest.metadata)
        slots = cast(Any, self.slots)
        self.attempt = self.epochs.attempt_started(slots, self.spark.directory, self.base_epoch, -1, lambda _: None)
        self.pump()

    # -- steps

    def pump(self) -> None:
        """Let the coordinator's thread do all that it would do now."""
        while True:
            self.coordinator.pending.settle_cuts()
            step = self.coordinator._schedule.next_step()
            if step is None:
                return
            with patch.object(coordinator_thread, "_beside", lambda run: run()):  # storage, which may hang elsewhere
                self.coordinator._thread.take(step)

    def trigger(self, *, full: bool = False) -> Future[Any]:
        future = self.coordinator.trigger_checkpoint(full=full)
        self.pump()
        return future

    def begin_epoch(self) -> None:
        self.batch += 1
        self.epoch += 1
        self.running, self.asked = self.batch, 0
        self.spark.plan(self.batch)
        self.attempt.begin_epoch(self.batch)
        self.pump()

    def ask(self) -> None:
        """Let the next subtask finish the running epoch, whose rows are all in; after the last one Spark commits it."""
        epochs = self.attempt
        if self.asked == 0:
            for subtask in range(self.parallelism):
                epochs.subtask_prepared("count", subtask, PreparedEpoch(self.epoch, 7, subtask, 0, 0, 0))
        request = epochs.decide(self.epoch)
        if request is not None:
            self.slots.freeze(self.asked, request)
        epochs.slot_finished(self.asked)
        self.asked += 1
        if self.asked == self.parallelism:
            epochs.subtasks_finished(self.epoch)
            epochs.finish_epoch(self.epoch, self.batch)
            self.spark.commit(self.batch)
            self.running = None
        self.pump()

    def upload(self, index: int = 0, *, failing: bool = False) -> None:
        self.slots.upload(index, failing=failing)
        self.pump()

    def complete_all(self) -> None:
        """Let everything that is under way come to its end, and slots hear of it."""
        while self.running is not None:
            self.ask()
        while self.slots.uploads:
            self.upload()
        while self.slots.notifications:
            self.slots.hear(0)

    # -- what is there

    @property
    def folder(self) -> Path:
        return self.root / "ck" / JOB_ID

    def snapshots(self) -> dict[str, CheckpointMetadata]:
        """Return what a restore would find: the `_metadata` of every checkpoint of the job, by directory."""
        found = {}
        for path in sorted(self.folder.glob("chk-*/_metadata")):
            found[path.parent.name] = read_metadata(path.read_bytes(), str(path.parent))
        return found

    def missing(self) -> list[str]:
        """Return what checkpoints that could be restored name, and is not there."""
        return [
            f"{name}: {file.handle.path.rsplit('/', 1)[-1]}"
            for name, metadata in self.snapshots().items()
            for file in metadata.shared_files
            if not os.path.exists(file.handle.path.removeprefix("file:"))
        ]

    def files(self) -> set[str]:
        """Return the names in the folder of shared files."""
        return set(os.listdir(self.folder / "shared"))

    def named(self) -> set[str]:
        """Return the names of the shared files that checkpoints refer to."""
        handles = (file.handle for metadata in self.snapshots().values() for file in metadata.shared_files)
        return {handle.path.rsplit("/", 1)[-1] for handle in handles}


class _NoThread:
    """Stands for the coordinator's thread: the test does its steps."""

    def start(self) -> None:
        """Do nothing."""

    def is_alive(self) -> bool:
        return False


def write_all(job: ModelJob, change: Callable[[FolderBackend], None] = FolderBackend.write) -> None:
    """Change the state of every subtask."""
    for backend in job.slots.backends:
        change(backend)
