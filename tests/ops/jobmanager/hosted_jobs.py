"""Many running jobs in one process, which answer a job manager by the code of real drivers. They process nothing."""

from __future__ import annotations

import json
import sys
import threading
from types import SimpleNamespace
from typing import Any

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.execution_options import ExecutionEngine
from pystate.common.files.home import JobDirectory, PystateHome, write_file_atomically
from pystate.common.job_status import JobStatus
from pystate.common.processes.control import new_secret
from pystate.common.time import current_time_ms
from pystate.core.metrics.sample import MetricSample, counter, gauge
from pystate.core.metrics.store import DriverMetrics, OperatorLabel, SubtaskMetricStore, TaskMetricStore
from pystate.core.snapshot.metadata import CheckpointType, SavepointFormatType
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.checkpoint.pending_checkpoint import PendingCheckpoint
from pystate.runtime.checkpoint.settings.rest_checkpoint_config import checkpoint_config
from pystate.runtime.checkpoint.stats.file import encode_statistics
from pystate.runtime.checkpoint.stats.tracker import CheckpointStatsTracker
from pystate.runtime.driver.control_endpoint import ControlEndpoint
from pystate.runtime.execution.status import JobStatusStore
from pystate.runtime.job_folder.small_files import EmbeddedProgramFile
from tests.runtime.checkpoint.stats.statistics import metrics
from tests.runtime.checkpoint.stats.tasks import COUNT


class HostedJob:
    """A job without slots and without Spark, which this process runs.

    Args:
        home: Where it is listed.
        job_id: 32 hex digits.
        name: Its name.
        subtasks: The number of its task's subtasks.
        history: How many checkpoints are listed.
    """

    def __init__(self, home: PystateHome, job_id: str, name: str, subtasks: int = 2, history: int = 10) -> None:
        self.directory: JobDirectory = home.job(job_id)
        self.directory.path.mkdir(parents=True, mode=0o700)
        EmbeddedProgramFile.of_this_process(job_id).write_to(self.directory.embedded)
        write_file_atomically(self.directory.secret, new_secret())
        self.subtasks = subtasks
        self.tracker = CheckpointStatsTracker(history, current_time_ms)
        self.tracker.describe_tasks([COUNT])
        self.status = JobStatusStore(self.directory, name)
        self._began = current_time_ms()
        self._taken = 0
        self._endpoint = ControlEndpoint(self.directory, self.status)
        self._endpoint.start()
        self._endpoint.serve(self._master())
        self.status.update(JobStatus.CREATED)
        node: Any = SimpleNamespace(
            vertex_id=COUNT.vertex_id, uid=COUNT.uid, name=COUNT.name, parallelism=subtasks, max_parallelism=1024
        )
        settings = checkpoint_config(Configuration({})).to_plain()
        self.status.describe_plan(name, [node], [], [], ExecutionEngine.MICRO_BATCH, settings)
        self.status.update(JobStatus.RUNNING)

    def _master(self) -> Any:
        coordinator = SimpleNamespace(
            statistics=self.tracker.to_rest,
            statistics_of=self.tracker.details,
            statistics_of_subtasks=self.tracker.subtask_details,
        )
        engine = SimpleNamespace(progress=lambda: {"records": {}, "epoch": self._taken, "epoch_durations": []})
        return SimpleNamespace(
            coordinator=coordinator,
            engine=engine,
            metrics=self.metrics,
            io_metrics=lambda _uid: {},
            event_time=dict,
            restore_progress=lambda: None,
        )

    def metrics(self) -> DriverMetrics:
        """Return what a driver tells, with other rates at each moment."""
        seconds = (current_time_ms() - self._began) / 1000
        subtasks = [
            SubtaskMetricStore(index, "here", task_samples(index, seconds, self.status.state))
            for index in range(self.subtasks)
        ]
        label = {COUNT.uid: OperatorLabel(COUNT.vertex_id, "Process: count")}
        task = TaskMetricStore(COUNT.uid, COUNT.vertex_id, COUNT.name, self.subtasks, label, subtasks)
        return DriverMetrics([], self.tracker.samples(), [task])

    def take(self, checkpoints: int, *, every: int = 1000) -> None:
        """Take further checkpoints, the last of them now."""
        for left in reversed(range(checkpoints)):
            self._taken += 1
            at = current_time_ms() - every * left
            pending = PendingCheckpoint(
                self._taken,
                self._taken,
                checkpoint_type=CheckpointType.CHECKPOINT,
                format=SavepointFormatType.CANONICAL,
                trigger_timestamp=at,
                tasks=[(COUNT.uid, index) for index in range(self.subtasks)],
                location=SnapshotLocation(f"file:/checkpoints/chk-{self._taken}"),
            )
            self.tracker.report_pending(pending)
            for index in range(self.subtasks):
                self.tracker.report_ack(self._taken, COUNT.uid, index, metrics(at + 100 + index, size=1000 * (index + 1)))
            done: Any = SimpleNamespace(
                checkpoint_id=self._taken, epoch=self._taken, path=pending.location.uri, completion_timestamp=at + 110
            )
            self.tracker.report_completed(done)

    def finish(self) -> None:
        """End the job, and leave what drivers leave."""
        write_file_atomically(self.directory.checkpoints, encode_statistics(self.tracker.to_plain()))
        self.status.update(JobStatus.FINISHED)
        self._endpoint.close()


def task_samples(subtask: int, seconds: float, state: JobStatus) -> list[MetricSample]:
    """Return the samples of a subtask."""
    rate = 0.0 if state.is_terminal else 1000.0 + (seconds * 37 + subtask * 11) % 100
    return [
        counter("numRecordsIn", int(seconds * 1000)),
        counter("numRecordsOut", int(seconds * 500)),
        gauge("numRecordsInPerSecond", rate),
        gauge("numRecordsOutPerSecond", rate / 2),
        gauge("busyTimeMsPerSecond", int(rate) % 400),
        gauge("backPressuredTimeMsPerSecond", 0),
        gauge("lastCheckpointStateSize", 5000 * (subtask + 1)),
        gauge("currentInputWatermark", current_time_ms() - 1500),
    ]


def main() -> None:
    """Host jobs until the end of the input.

    Arguments: the home, and JSON with `jobs`, `subtasks`, `checkpoints`, `ended` (whether the jobs have ended), and `every`
    (seconds between two further checkpoints of each; 0 for none).
    """
    home, given = PystateHome(sys.argv[1]), json.loads(sys.argv[2])
    jobs = []
    for number in range(given["jobs"]):
        job_id, history = f"{number + 1:032x}", max(10, given["checkpoints"])
        job = HostedJob(home, job_id, f"job {number + 1}", given["subtasks"], history)
        job.take(given["checkpoints"])
        if given.get("ended"):
            job.finish()
        jobs.append(job)
    print("ready", flush=True)
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    every = given.get("every", 0)
    while not ended.wait(every or None):
        for job in jobs:
            job.take(1)


if __name__ == "__main__":
    main()
