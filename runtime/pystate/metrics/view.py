"""A job's metrics as the job manager sees them: what its driver says, and what stands in its files. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pystate.common.job_status import JobStatus
from pystate.metrics.sample import MetricSample, counter, gauge, identifier_part, samples_from_plain

Figure = int | float | bool | str

_TIMED_STATES = {
    JobStatus.INITIALIZING: "initializingTime",
    JobStatus.CREATED: "createdTime",
    JobStatus.RUNNING: "runningTime",
    JobStatus.RESTARTING: "restartingTime",
    JobStatus.CANCELLING: "cancellingTime",
}
_UNKNOWN = -1


@dataclass(frozen=True)
class SubtaskView:
    """One subtask's metrics; `host` is where it runs, None where that isn't known."""

    index: int
    host: str | None
    samples: list[MetricSample]


@dataclass(frozen=True)
class TaskView:
    """One task's metrics.

    Attributes:
        operators: By uid: `id` and `name`.
    """

    uid: str
    vertex_id: str
    name: str
    parallelism: int
    operators: dict[str, dict[str, str]]
    subtasks: list[SubtaskView]

    def operator_name(self, sample: MetricSample) -> str | None:
        """Return the name of the operator a sample belongs to; None for one of the whole subtask."""
        if sample.operator is None:
            return None
        return self.operators.get(sample.operator, {}).get("name", sample.operator)


@dataclass(frozen=True)
class JobMetricsView:
    """One job's metrics.

    Attributes:
        is_up: Whether its driver answers.
        job: The samples of the job as a whole.
        tasks: Those of its tasks, the sources' stages first.
    """

    is_up: bool
    job: list[MetricSample] = field(default_factory=list)
    tasks: list[TaskView] = field(default_factory=list)

    def task(self, vertex_id: str) -> TaskView | None:
        """Return the task with that id in REST; None where there is none."""
        return next((task for task in self.tasks if task.vertex_id == vertex_id), None)


def view_of_driver(status: Mapping[str, Any], answer: Mapping[str, Any], now: int, *, is_up: bool = True) -> JobMetricsView:
    """Return the metrics of a job whose driver has answered.

    Args:
        status: What `status.json` holds.
        answer: What the driver said.
        now: Milliseconds since 1970.
        is_up: Whether it still does.
    """
    job = [*status_samples(status, now), *checkpoint_samples(answer["checkpoints"]), *samples_from_plain(answer["job"])]
    return JobMetricsView(is_up, job, [_task(task) for task in answer["tasks"]])


def view_of_files(
    status: Mapping[str, Any], statistics: Mapping[str, Any], now: int, *, is_up: bool = False
) -> JobMetricsView:
    """Return the metrics of a job whose driver has nothing to say: those that stand in its files."""
    return JobMetricsView(is_up, [*status_samples(status, now), *checkpoint_samples(statistics)])


def view_of_ended(
    status: Mapping[str, Any], statistics: Mapping[str, Any], kept: Mapping[str, Any], now: int
) -> JobMetricsView:
    """Return the metrics of a job that has ended, as its driver said them last.

    Args:
        status: What `status.json` holds.
        statistics: Of its checkpoints, from its files.
        kept: What the driver left: `job` and `tasks`.
        now: Milliseconds since 1970.
    """
    return view_of_driver(status, {**kept, "checkpoints": statistics}, now, is_up=False)


def status_samples(status: Mapping[str, Any], now: int) -> list[MetricSample]:
    """Return what the job's status says."""
    state = JobStatus(status["state"])
    since = int(status["timestamps"].get(state.value, now))
    lasted = max(0, now - since)
    running = state is JobStatus.RUNNING
    samples = [
        counter("numRestarts", int(status["attempt"])),
        gauge("uptime", _UNKNOWN if state.is_terminal else lasted if running else 0),
        gauge("downtime", _UNKNOWN if state.is_terminal else 0 if running else lasted),
    ]
    return samples + [gauge(name, lasted if timed is state else 0) for timed, name in _TIMED_STATES.items()]


def checkpoint_samples(statistics: Mapping[str, Any]) -> list[MetricSample]:
    """Return what the statistics of the checkpoints say.

    Args:
        statistics: At least `counts` and `latest` of the answer to GET /jobs/:id/checkpoints.
    """
    counts, last, restored = statistics["counts"], latest_completed(statistics) or {}, statistics["latest"]["restored"]
    return [
        counter("totalNumberOfCheckpoints", counts["total"]),
        counter("numberOfCompletedCheckpoints", counts["completed"]),
        counter("numberOfFailedCheckpoints", counts["failed"]),
        gauge("numberOfInProgressCheckpoints", counts["in_progress"]),
        gauge("lastCompletedCheckpointId", last.get("id", _UNKNOWN)),
        gauge("lastCheckpointDuration", last.get("end_to_end_duration", _UNKNOWN)),
        gauge("lastCheckpointSize", last.get("checkpointed_size", _UNKNOWN)),
        gauge("lastCheckpointFullSize", last.get("state_size", _UNKNOWN)),
        gauge("lastCheckpointProcessedData", last.get("processed_data", _UNKNOWN)),
        gauge("lastCheckpointPersistedData", last.get("persisted_data", _UNKNOWN)),
        gauge("lastCheckpointCompletedTimestamp", last.get("latest_ack_timestamp", _UNKNOWN)),
        gauge("lastCheckpointExternalPath", last.get("external_path") or "n/a"),
        gauge("lastCheckpointRestoreTimestamp", _UNKNOWN if restored is None else restored["restore_timestamp"]),
    ]


def latest_completed(statistics: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the last checkpoint or savepoint that completed, as REST has it; None where there is none."""
    latest = statistics["latest"]
    done = [latest[kind] for kind in ("completed", "savepoint") if latest[kind] is not None]
    return max(done, key=lambda one: int(one["id"]), default=None)


def figures(samples: list[MetricSample], task: TaskView | None = None) -> dict[str, Figure]:
    """Return single values by their ids in REST: `numRecordsIn`, `operator.numRecordsIn`, `operator.group.name`."""
    found: dict[str, Figure] = {}
    for sample in samples:
        operator = None if task is None else task.operator_name(sample)
        path = [*([] if operator is None else [operator]), *sample.path]
        name = ".".join(map(identifier_part, path))
        for end, value in sample.figures().items():
            found.setdefault(f"{name}{end}", value)
    return found


def _task(plain: Mapping[str, Any]) -> TaskView:
    subtasks = [SubtaskView(one["index"], one["host"], samples_from_plain(one["samples"])) for one in plain["subtasks"]]
    return TaskView(plain["uid"], plain["vertex_id"], plain["name"], plain["parallelism"], plain["operators"], subtasks)
