"""The metrics of a job, its tasks and subtasks, as collected by the driver and displayed by the job manager."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgpack

from pystate.common.job_status import JobStatus
from pystate.common.text.plain_data import PlainData, PlainDataError
from pystate.core.metrics.sample import MetricSample, counter, gauge, identifier_part

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
class SubtaskMetricStore(PlainData):
    """One subtask's metrics.

    Attributes:
        index: Its number.
        host: The host of its present or last slot; None if there is none, or if unknown.
        samples: Its samples.
    """

    index: int
    host: str | None
    samples: list[MetricSample]

    def packed(self) -> bytes:
        """Return it as the bytes that a slot's report has of it."""
        data: bytes = msgpack.packb(self.to_plain(), use_bin_type=True, unicode_errors="surrogatepass")
        return data

    @staticmethod
    def unpacked(data: bytes) -> SubtaskMetricStore:
        """Rebuild it from its bytes.

        Raises:
            PlainDataError: They are damaged.
        """
        try:
            plain = msgpack.unpackb(data, raw=False, strict_map_key=False, unicode_errors="surrogatepass")
        except (ValueError, TypeError, msgpack.exceptions.UnpackException) as error:
            raise PlainDataError(str(error)) from error
        return SubtaskMetricStore.from_plain(plain)


@dataclass(frozen=True)
class OperatorLabel(PlainData):
    """The identity of an operator: its id in REST, and its name."""

    id: str
    name: str


@dataclass(frozen=True)
class TaskMetricStore(PlainData):
    """One task's metrics.

    Attributes:
        operators: By uid.
    """

    uid: str
    vertex_id: str
    name: str
    parallelism: int
    operators: dict[str, OperatorLabel]
    subtasks: list[SubtaskMetricStore]

    def operator_name(self, sample: MetricSample) -> str | None:
        """Return the name of the operator a sample belongs to; None for one of the whole subtask."""
        return None if sample.operator is None else self.label_of(sample.operator).name

    def label_of(self, uid: str) -> OperatorLabel:
        """Return the identity of an operator; an unknown one has no id, and its uid as name."""
        return self.operators.get(uid) or OperatorLabel("", uid)


@dataclass(frozen=True)
class DriverMetrics(PlainData):
    """The metrics that a driver reports about its job.

    Attributes:
        job: The samples of the job as a whole, without those of its status and its checkpoints.
        checkpoints: The samples of its checkpoints.
        tasks: Its tasks, the sources' stages first.
    """

    job: list[MetricSample]
    checkpoints: list[MetricSample]
    tasks: list[TaskMetricStore]


@dataclass(frozen=True)
class JobMetricStore:
    """One job's metrics.

    Attributes:
        is_up: Whether its driver answers.
        job: The samples of the job as a whole.
        tasks: The metrics of its tasks, the sources' stages first.
    """

    is_up: bool
    job: list[MetricSample] = field(default_factory=list)
    tasks: list[TaskMetricStore] = field(default_factory=list)

    @staticmethod
    def of(status: Mapping[str, Any], told: DriverMetrics, now: int, *, is_up: bool) -> JobMetricStore:
        """Return the metrics of a job.

        Args:
            status: What `status.json` holds.
            told: What its driver says, or said; where nobody knows, just what stands in the job's files.
            now: Milliseconds since 1970.
            is_up: Whether its driver answers.
        """
        return JobMetricStore(is_up, [*status_samples(status, now), *told.checkpoints, *told.job], told.tasks)

    def task(self, vertex_id: str) -> TaskMetricStore | None:
        """Return the task with that id in REST; None if there is none."""
        return next((task for task in self.tasks if task.vertex_id == vertex_id), None)


def status_samples(status: Mapping[str, Any], now: int) -> list[MetricSample]:
    """Return the samples derived from the job's status.

    Args:
        status: What `status.json` holds.
        now: Milliseconds since 1970.
    """
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


def figures(samples: Iterable[MetricSample], task: TaskMetricStore | None = None) -> dict[str, Figure]:
    """Return single values by their ids in REST: `numRecordsIn`, `operator.numRecordsIn`, `operator.group.name`."""
    found: dict[str, Figure] = {}
    for sample in samples:
        operator = None if task is None else task.operator_name(sample)
        path = [*([] if operator is None else [operator]), *sample.path]
        name = ".".join(map(identifier_part, path))
        for end, value in sample.figures().items():
            found.setdefault(f"{name}{end}", value)
    return found
