"""The catalog of pystate's own metrics: names, units, meanings. With Flink's names, if Flink has the metric."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pystate.core.metrics.sample import Groups, MetricKind

PENDING_RECORDS = "pendingRecords"
"""What a source's system has and nobody has read: Flink's name, which connectors use."""


class MetricScope(Enum):
    """The scope of a metric."""

    JOB_MANAGER = "job manager"
    JOB = "job"
    TASK = "task"  # a subtask of a task
    OPERATOR = "operator"  # an operator in a subtask


@dataclass(frozen=True)
class SystemMetric:
    """One metric.

    Attributes:
        name: Its name.
        scopes: Its scopes.
        kind: Its kind.
        unit: Its unit.
        meaning: Its description.
        ours: Whether Flink doesn't have it.
    """

    name: str
    scopes: tuple[MetricScope, ...]
    kind: MetricKind
    unit: str
    meaning: str
    ours: bool = False


_JOB_MANAGER = (MetricScope.JOB_MANAGER,)
_JOB = (MetricScope.JOB,)
_TASK = (MetricScope.TASK,)
_BOTH = (MetricScope.TASK, MetricScope.OPERATOR)
_COUNTER, _GAUGE = MetricKind.COUNTER, MetricKind.GAUGE

SYSTEM_METRICS: tuple[SystemMetric, ...] = (
    SystemMetric("numRunningJobs", _JOB_MANAGER, _GAUGE, "jobs", "Jobs that have not ended."),
    SystemMetric("numRegisteredTaskManagers", _JOB_MANAGER, _GAUGE, "drivers", "Drivers of jobs that have not ended."),
    SystemMetric("taskSlotsTotal", _JOB_MANAGER, _GAUGE, "slots", "Slots of all jobs that have not ended."),
    SystemMetric(
        "taskSlotsAvailable", _JOB_MANAGER, _GAUGE, "slots", "Slots without a job: always 0, a job brings its own."
    ),
    SystemMetric(
        "diskFree",
        _JOB_MANAGER,
        _GAUGE,
        "bytes",
        "What is free on the disk of home, logs, checkpoints.",
        ours=True,
    ),
    SystemMetric("diskTotal", _JOB_MANAGER, _GAUGE, "bytes", "What that disk holds in all.", ours=True),
    SystemMetric("numRestarts", _JOB, _COUNTER, "restarts", "How often the job was restarted, over all its drivers."),
    SystemMetric("uptime", _JOB, _GAUGE, "ms", "How long the job has been RUNNING without a break; -1 once it has ended."),
    SystemMetric(
        "downtime", _JOB, _GAUGE, "ms", "How long the job has not been RUNNING; 0 while it runs, -1 once it has ended."
    ),
    SystemMetric("initializingTime", _JOB, _GAUGE, "ms", "How long the job has been INITIALIZING; 0 in any other state."),
    SystemMetric(
        "createdTime",
        _JOB,
        _GAUGE,
        "ms",
        "How long the job has been CREATED, the slots of its first attempt restoring their state; else 0.",
    ),
    SystemMetric("runningTime", _JOB, _GAUGE, "ms", "How long the job has been RUNNING; 0 in any other state."),
    SystemMetric("restartingTime", _JOB, _GAUGE, "ms", "How long the job has been RESTARTING; 0 in any other state."),
    SystemMetric("cancellingTime", _JOB, _GAUGE, "ms", "How long the job has been CANCELLING; 0 in any other state."),
    SystemMetric(
        "totalNumberOfCheckpoints", _JOB, _COUNTER, "checkpoints", "Checkpoints and savepoints that were triggered."
    ),
    SystemMetric("numberOfCompletedCheckpoints", _JOB, _COUNTER, "checkpoints", "Those that completed."),
    SystemMetric("numberOfFailedCheckpoints", _JOB, _COUNTER, "checkpoints", "Those that failed."),
    SystemMetric("numberOfInProgressCheckpoints", _JOB, _GAUGE, "checkpoints", "Those under way."),
    SystemMetric("lastCompletedCheckpointId", _JOB, _GAUGE, "id", "The last one that completed; -1 before the first."),
    SystemMetric(
        "lastCheckpointDuration", _JOB, _GAUGE, "ms", "From its trigger to its last acknowledgement; -1 before it."
    ),
    SystemMetric("lastCheckpointSize", _JOB, _GAUGE, "bytes", "What was written for it; -1 before the first."),
    SystemMetric("lastCheckpointFullSize", _JOB, _GAUGE, "bytes", "The state it stands for; -1 before the first."),
    SystemMetric(
        "lastCheckpointAlignmentBuffered",
        _JOB,
        _GAUGE,
        "bytes",
        "Held back during its alignment, on the real-time engine; 0 on the other.",
        ours=True,
    ),
    SystemMetric(
        "lastCheckpointProcessedData",
        _JOB,
        _GAUGE,
        "bytes",
        "Processed during its alignment, on the real-time engine; 0 on the other.",
    ),
    SystemMetric(
        "lastCheckpointPersistedData", _JOB, _GAUGE, "bytes", "Records in flight that are in it: those of an unaligned one."
    ),
    SystemMetric(
        "lastCheckpointCompletedTimestamp", _JOB, _GAUGE, "ms since 1970", "Its last acknowledgement; -1 before the first."
    ),
    SystemMetric("lastCheckpointExternalPath", _JOB, _GAUGE, "text", "Where it lies; n/a before the first. In REST only."),
    SystemMetric(
        "lastCheckpointRestoreTimestamp", _JOB, _GAUGE, "ms since 1970", "The last restore by this job; -1 without one."
    ),
    SystemMetric(
        "numberOfFinishedEpochs", _JOB, _COUNTER, "epochs", "Epochs (micro-batches) finished by this driver.", ours=True
    ),
    SystemMetric("lastFinishedEpoch", _JOB, _GAUGE, "epoch", "The number of the last one; -1 before the first.", ours=True),
    SystemMetric(
        "lastEpochDuration", _JOB, _GAUGE, "ms", "How long it took, sinks included; -1 before the first.", ours=True
    ),
    SystemMetric("numRecordsIn", _BOTH, _COUNTER, "records", "Records read. Those read again after a failure count again."),
    SystemMetric("numRecordsInPerSecond", _BOTH, _GAUGE, "records/s", "The same as a rate over the last 60 s."),
    SystemMetric("numRecordsOut", _BOTH, _COUNTER, "records", "Records written, to the next tasks and to sinks."),
    SystemMetric("numRecordsOutPerSecond", _BOTH, _GAUGE, "records/s", "The same as a rate over the last 60 s."),
    SystemMetric("numBytesIn", _TASK, _COUNTER, "bytes", "Arrow data read."),
    SystemMetric("numBytesInPerSecond", _TASK, _GAUGE, "bytes/s", "The same as a rate over the last 60 s."),
    SystemMetric("numBytesOut", _TASK, _COUNTER, "bytes", "Arrow data written."),
    SystemMetric("numBytesOutPerSecond", _TASK, _GAUGE, "bytes/s", "The same as a rate over the last 60 s."),
    SystemMetric(
        "busyTimeMsPerSecond", _TASK, _GAUGE, "ms/s", "Time spent on records and at ends of epochs, over the last 60 s."
    ),
    SystemMetric("idleTimeMsPerSecond", _TASK, _GAUGE, "ms/s", "The rest: waiting for rows, for Spark, for the next epoch."),
    SystemMetric(
        "backPressuredTimeMsPerSecond",
        _TASK,
        _GAUGE,
        "ms/s",
        "Time spent waiting for room in the inputs of the next tasks, on the real-time engine; 0 on the other.",
    ),
    SystemMetric("accumulateBusyTimeMs", _TASK, _COUNTER, "ms", "Busy time in all."),
    SystemMetric("accumulateIdleTimeMs", _TASK, _COUNTER, "ms", "Idle time in all."),
    SystemMetric("accumulateBackPressuredTimeMs", _TASK, _COUNTER, "ms", "Back-pressured time in all."),
    SystemMetric(
        "currentInputWatermark",
        _TASK,
        _GAUGE,
        "ms since 1970",
        "Event time: the lowest watermark of the inputs; -2^63 before the first. Of tasks that times come to.",
    ),
    SystemMetric(
        "currentOutputWatermark",
        _TASK,
        _GAUGE,
        "ms since 1970",
        "The watermark that the task hands on; after an assigner of its own, the assigner's.",
    ),
    SystemMetric("numEpochs", _TASK, _COUNTER, "epochs", "Epochs that the subtask has finished.", ours=True),
    SystemMetric(
        "lastEpochDurationMs", _TASK, _GAUGE, "ms", "How long the last one took in this subtask; -1 before it.", ours=True
    ),
    SystemMetric(
        "checkpointStartDelayNanos",
        _TASK,
        _GAUGE,
        "ns",
        "From the last completed checkpoint's trigger to its first barrier in the subtask; in whole ms.",
    ),
    SystemMetric(
        "checkpointAlignmentTime",
        _TASK,
        _GAUGE,
        "ns",
        "From that barrier to the last one; in whole ms. Of subtasks that know it.",
    ),
    SystemMetric(
        "lastCheckpointStateSize", _TASK, _GAUGE, "bytes", "The subtask's state in the last completed checkpoint.", ours=True
    ),
)

BY_NAME = {metric.name: metric for metric in SYSTEM_METRICS}
"""Name -> metric; a name has the same meaning in all scopes."""


def system_metric(name: str, groups: Groups) -> SystemMetric | None:
    """Return pystate's own metric of that name; None for a function's metric, which is in a group or has another name."""
    return None if groups else BY_NAME.get(name)
