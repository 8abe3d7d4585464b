"""The parts of a coordinator with an attempt's epochs, and no thread that acts on what they decide."""

from types import SimpleNamespace

from pystate.common.configuration.configuration import Configuration
from pystate.core.snapshot.metadata import CheckpointType, SavepointFormatType
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from pystate.runtime.checkpoint.checkpoint_request import CheckpointRequest
from pystate.runtime.checkpoint.pending_checkpoint import AckResult, PendingCheckpoint
from pystate.runtime.checkpoint.stats.checkpoint_stats import CheckpointedTask
from pystate.runtime.engines.micro_batch.driver.epoch_coordinator import EpochCoordinator
from pystate.runtime.engines.micro_batch.driver.epoch_numbers import EpochNumbers
from pystate.runtime.engines.micro_batch.slot.prepared_epoch import PreparedEpoch
from tests.runtime.checkpoint.harness import JOB, SUBTASKS, TASK, FakeSlots, FakeSpark

TOLERANT = {"execution.checkpointing.tolerable-failed-checkpoints": "9"}
EVERY_EPOCH = {"execution.checkpointing.every-epoch": "true"}


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Parts:
    def __init__(self, tmp_path, options):
        self.root = tmp_path
        self.clock = Clock()
        configuration = Configuration({"execution.checkpointing.dir": str(tmp_path / "ck"), **options})
        self.coordinator = coordinator = CheckpointCoordinator(JOB, configuration, tmp_path / "checkpoints.json", self.clock)
        self.tracker = coordinator.tracker
        self.tracker.describe_tasks([CheckpointedTask(TASK.uid, TASK.vertex_id, TASK.name)])
        self.pending, self.schedule = coordinator.pending, coordinator._schedule
        self.failures, self.completion = coordinator._failures, coordinator._thread._completion
        self.slots = FakeSlots()
        self.slots.coordinator = SimpleNamespace(acknowledge=lambda *_: AckResult.UNKNOWN)  # nobody hears of it
        self.ended = []
        jobs = EpochCoordinator(coordinator, EpochNumbers(tmp_path / "epochs.json"), self.clock)
        jobs.describe([TASK])
        spark = FakeSpark(tmp_path / "spark").directory
        self.epochs = jobs.attempt_started(self.slots, spark, -1, -1, self.ended.append)
        self.barriers = self.epochs._barriers

    def running(self, checkpoint_id=1, kind=CheckpointType.CHECKPOINT, **request):
        """Return a checkpoint that is being triggered."""
        checkpoint = PendingCheckpoint(
            checkpoint_id,
            checkpoint_type=kind,
            format=SavepointFormatType.CANONICAL,
            trigger_timestamp=0,
            tasks={("count", subtask) for subtask in SUBTASKS},
            location=SnapshotLocation(str(self.root / f"chk-{checkpoint_id}")),
            request=CheckpointRequest(kind, **request),
        )
        checkpoint.created = True
        assert self.pending.take_in(checkpoint)
        return checkpoint

    def in_turn(self, epoch, kind=None):
        """Begin an epoch; return what rides on it from the start, a checkpoint of that kind."""
        self.barriers.await_turn(lambda: None)
        rider = None if kind is None else self.running(1, kind)
        self.epochs.begin(epoch, rider)
        self.barriers.turn_over()
        return rider

    def prepared(self, epoch):
        for subtask in SUBTASKS:
            self.epochs.subtask_prepared("count", subtask, PreparedEpoch(epoch, 7, subtask, 0, 0, 0))

    def place(self, checkpoint):
        """Be the coordinator's thread: place a barrier between two epochs."""
        ask = self.barriers.place(checkpoint)
        assert ask is not None
        ask()
