"""Job statuses as answers of Flink's REST API. Pure functions of the content of `status.json`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import pystate
from pystate.common.configuration.groups.execution_options import ExecutionEngine, PipelineOptions
from pystate.common.configuration.sensitive_keys import without_secrets
from pystate.common.errors import PystateError
from pystate.common.job_status import JobStatus
from pystate.common.stream_guarantee import StreamGuarantee
from pystate.ops.jobmanager.rescalings import Told
from pystate.ops.jobmanager.rest.serialized_throwable import serialized_throwable
from pystate.ops.jobmanager.rest.vertices import Status, plan, task_counts, vertex
from pystate.runtime.job_folder.failure_history import MAX_FAILURES, JobFailure
from pystate.runtime.job_folder.rescaling_file import RescalingFile
from pystate.runtime.job_folder.small_files import EmbeddedProgramFile
from pystate.runtime.rest.cluster_messages import ClusterOverview, DashboardConfiguration, Features
from pystate.runtime.rest.failure_messages import AttemptError, FailureCause, KeptRecordInfo, OurError
from pystate.runtime.rest.job_detail_messages import (
    ExecutionConfigInfo,
    JobConfigInfo,
    JobConfigOurs,
    JobDetailsInfo,
    JobDetailsOurs,
    JobExceptionHistory,
    JobExceptionsInfoWithHistory,
    JobExecutionResult,
    JobExecutionResultResponseBody,
    RootExceptionInfo,
    StreamGuaranteeInfo,
)
from pystate.runtime.rest.job_messages import EmbeddedProgram, JobDetails, JobSummaryOurs, TasksByState
from pystate.runtime.rest.operation_messages import (
    COMPLETED,
    IN_PROGRESS,
    AsynchronousOperationInfo,
    CheckpointInfo,
    CheckpointResult,
    DisposalResult,
    OperationProgress,
    RescalingInfo,
    SavepointInfo,
    SavepointResult,
)
from pystate.runtime.rest.own_job_messages import EpochParts, JobProgress, RestoreProgress

FLINK_VERSION = "2.3.0"
"""The Flink whose REST this is; clients look at it."""

_APPLICATION_STATUS: dict[JobStatus, Literal["SUCCEEDED", "CANCELED", "FAILED"]] = {
    JobStatus.FINISHED: "SUCCEEDED",
    JobStatus.CANCELED: "CANCELED",
    JobStatus.FAILED: "FAILED",
}


def overview(statuses: Iterable[Status]) -> ClusterOverview:
    """GET /overview. A driver counts as a task manager, and every slot has its job from the start."""
    by_state: Counter[JobStatus] = Counter()
    slots = 0
    for status in statuses:
        state = JobStatus(status["state"])
        by_state[state] += 1
        if not state.is_terminal:
            slots += max(status["parallelism"], 0)
    running = sum(count for state, count in by_state.items() if not state.is_terminal)
    return ClusterOverview(
        taskmanagers=running,
        slots_total=slots,
        slots_available=0,
        jobs_running=running,
        jobs_finished=by_state[JobStatus.FINISHED],
        jobs_cancelled=by_state[JobStatus.CANCELED],
        jobs_failed=by_state[JobStatus.FAILED],
        flink_version=FLINK_VERSION,
        flink_commit="",
        pystate_version=pystate.__version__,
    )


def dashboard_config() -> DashboardConfiguration:
    """GET /config."""
    now = time.localtime()
    return DashboardConfiguration(
        timezone_name=now.tm_zone,
        timezone_offset=now.tm_gmtoff * 1000,
        flink_version=FLINK_VERSION,
        features=Features(web_cancel=True),
        pystate_version=pystate.__version__,
    )


def job_summary(
    job_id: str,
    status: Status,
    now: int,
    program: EmbeddedProgramFile | None = None,
    rescaling: RescalingInfo | None = None,
) -> JobDetails:
    """An entry of GET /jobs/overview.

    Args:
        job_id: The job.
        status: Its status.
        now: Milliseconds since 1970.
        program: The program of an embedded job; None for others.
        rescaling: Its last rescale by the job manager; None for none.
    """
    counts = {state.value.lower(): count for state, count in task_counts(status).items()}
    return JobDetails(
        jid=job_id,
        name=status["name"],
        start_time=status["start_time"],
        end_time=status["end_time"],
        duration=_duration(status, now),
        state=JobStatus(status["state"]),
        last_modification=max(status["timestamps"].values()),
        tasks=TasksByState(**counts, total=sum(counts.values())),
        pystate=JobSummaryOurs(
            restarts=status["attempt"],
            application_id=status.get("application_id"),
            silent_since=status.get("silent_since"),
            embedded=None
            if program is None
            else EmbeddedProgram(host=program.host, pid=program.pid, program=program.program),
            rescaling=rescaling,
            waits_for=status.get("waits_for"),
        ),
    )


def job_details(job_id: str, status: Status, now: int, rescaling: RescalingInfo | None = None) -> JobDetailsInfo:
    """GET /jobs/:id."""
    return JobDetailsInfo(
        jid=job_id,
        application_id=job_id,
        name=status["name"],
        state=JobStatus(status["state"]),
        start_time=status["start_time"],
        end_time=status["end_time"],
        duration=_duration(status, now),
        max_parallelism=status["max_parallelism"],
        now=now,
        timestamps={state: status["timestamps"].get(state.value, 0) for state in JobStatus},
        vertices=[vertex(one, status, now) for one in status["vertices"]],
        status_counts=task_counts(status, per_vertex=True),
        plan=plan(job_id, status),
        pystate=JobDetailsOurs(
            attempt=status["attempt"],
            warnings=status["plan_warnings"],
            guarantees=[StreamGuaranteeInfo.of(StreamGuarantee.from_plain(one)) for one in status.get("guarantees", ())],
            waits_for=status.get("waits_for"),
            failure=_cause_or_none(status["failure"]),
            rescaling=rescaling,
        ),
    )


def rescaling_info(told: Told | None, *, unfinished: bool) -> RescalingInfo | None:
    """Return what is told of a rescale with its job.

    Args:
        told: The rescale; None for none.
        unfinished: Whether the job has ended, and can still be started by what was kept of it.
    """
    if told is None:
        return None
    cause = None if told.failure is None else failure_cause(told.failure.to_plain())
    return RescalingInfo(
        request_id=told.intent.rescaling_id,
        parallelism=told.intent.parallelism,
        snapshot=told.intent.snapshot,
        status=COMPLETED if told.is_done else IN_PROGRESS,
        managers=told.intent.managers,
        step=told.lines[-1] if told.lines else "",
        job_id=told.runs,
        failure=None if cause is None else cause.pystate,
        unfinished=told.is_done and cause is not None and told.intent.keeps and unfinished,
        unreadable=told.is_unreadable,
    )


def job_config(job_id: str, status: Status, configuration: Mapping[str, str], restart_strategy: str) -> JobConfigInfo:
    """GET /jobs/:id/config.

    Args:
        job_id: The job.
        status: Its status.
        configuration: The submitted options.
        restart_strategy: The restart strategy, in words.
    """
    execution = ExecutionConfigInfo(
        restart_strategy=restart_strategy,
        parallelism=status["parallelism"],
        object_reuse=str(configuration.get(PipelineOptions.OBJECT_REUSE.key, False)).lower() == "true",
        user_config={},
    )
    ours = JobConfigOurs(configuration=without_secrets(configuration))
    return JobConfigInfo(jid=job_id, name=status["name"], execution_config=execution, pystate=ours)


def progress(status: Status) -> JobProgress:
    """GET /pystate/jobs/:id/progress: the progress of the job; None for unknown values."""
    restore = status.get("restore")
    return JobProgress(
        name=status["name"],
        state=JobStatus(status["state"]),
        attempt=status["attempt"],
        start_time=status["start_time"],
        end_time=status["end_time"],
        engine=None if status.get("engine") is None else ExecutionEngine(status["engine"]),
        epoch=status.get("epoch"),
        records_in=status.get("records_in"),
        records_out=status.get("records_out"),
        epoch_durations=tuple(status.get("epoch_durations", ())),
        epoch_running=status.get("epoch_running"),
        epochs=tuple(EpochParts.from_plain(one) for one in status.get("epochs", ())),
        backlog=status.get("backlog"),
        watermark=status.get("watermark"),
        watermark_task=status.get("watermark_task"),
        restore=None
        if restore is None
        else RestoreProgress(checkpoint_id=restore["checkpoint_id"], bytes=restore["bytes"], total=restore["total"]),
    )


def execution_result(job_id: str, status: Status) -> JobExecutionResultResponseBody:
    """GET /jobs/:id/execution-result."""
    state = JobStatus(status["state"])
    if not state.is_terminal:
        return JobExecutionResultResponseBody(status=IN_PROGRESS)
    result = JobExecutionResult(
        id=job_id,
        name=status["name"],
        application_status=_APPLICATION_STATUS[state],
        accumulator_results={},
        net_runtime=status["end_time"] - status["start_time"],
        application_id=job_id,
        start_time=status["start_time"],
        end_time=status["end_time"],
        failure_cause=failure_cause(status["failure"] or {}) if state is JobStatus.FAILED else None,
    )
    return JobExecutionResultResponseBody(status=COMPLETED, job_execution_result=result)


def exceptions(
    status: Status,
    most: int = MAX_FAILURES,
    records: Mapping[int, KeptRecordInfo] | None = None,
    rescaling: RescalingFile | None = None,
) -> JobExceptionsInfoWithHistory:
    """GET /jobs/:id/exceptions: the last failures, newest first.

    Args:
        status: The status of the job.
        most: The maximum number of failures.
        records: The kept records by the attempt that failed at each.
        rescaling: The last rescale of the job by the job manager; None for none.
    """
    failures, records = list(status["failures"]), records or {}
    if rescaling is not None and rescaling.failure is not None:  # of no attempt, but of the job all the same
        told = {**rescaling.failure.to_plain(), "attempt": status["attempt"], "timestamp": rescaling.ended_at or 0}
        failures = sorted([told, *failures], key=lambda one: -one["timestamp"])
    kept = failures[:most]
    history = JobExceptionHistory(
        entries=[_exception(failure, records.get(failure["attempt"])) for failure in kept],
        truncated=status["failure_count"] + len(failures) - len(status["failures"]) > len(kept),
    )
    return JobExceptionsInfoWithHistory(exception_history=history)


def _exception(failure: dict[str, Any], record: KeptRecordInfo | None) -> RootExceptionInfo:
    cause = failure_cause(failure)
    return RootExceptionInfo(
        exception_name=cause.class_name,
        stacktrace=cause.stack_trace,
        timestamp=failure["timestamp"],
        concurrent_exceptions=[],
        pystate=AttemptError(**vars(cause.pystate), attempt=failure["attempt"], record=record),
    )


def savepoint_result(operation: dict[str, Any]) -> SavepointResult:
    """GET /jobs/:id/savepoints/:trigger."""
    if not _is_completed(operation):
        return SavepointResult(status=IN_PROGRESS, pystate=OperationProgress.from_plain(operation))
    cause = _cause_or_none(operation.get("failure"))
    location = operation["location"] if cause is None else None
    return SavepointResult(status=COMPLETED, operation=SavepointInfo(location=location, failure_cause=cause))


def checkpoint_result(operation: dict[str, Any]) -> CheckpointResult:
    """GET /jobs/:id/checkpoints/:trigger."""
    if not _is_completed(operation):
        return CheckpointResult(status=IN_PROGRESS, pystate=OperationProgress.from_plain(operation))
    cause = _cause_or_none(operation.get("failure"))
    checkpoint_id = operation["checkpoint_id"] if cause is None else None
    return CheckpointResult(status=COMPLETED, operation=CheckpointInfo(checkpoint_id=checkpoint_id, failure_cause=cause))


def disposal_result(disposal: dict[str, Any]) -> DisposalResult:
    """GET /savepoint-disposal/:trigger."""
    if not _is_completed(disposal):
        return DisposalResult(status=IN_PROGRESS)
    operation = AsynchronousOperationInfo(failure_cause=_cause_or_none(disposal.get("failure")))
    return DisposalResult(status=COMPLETED, operation=operation)


def _is_completed(operation: dict[str, Any]) -> bool:
    return bool(operation["status"] == COMPLETED.id)


def _cause_or_none(failure: dict[str, Any] | None) -> FailureCause | None:
    return None if failure is None else failure_cause(failure)


def failure_cause(failure: dict[str, Any]) -> FailureCause:
    """Return a failure as Flink's class and stack trace, and as pystate's own error."""
    name = failure.get("class") or PystateError.__name__
    message = failure.get("message") or name
    stack_trace = failure.get("stack_trace") or f"{name}: {message}"
    raised = JobFailure(message, name).raised
    return FailureCause(
        class_name=raised,
        stack_trace=stack_trace,
        serialized_throwable=serialized_throwable(raised, message, stack_trace),
        pystate=OurError(
            class_name=name,
            message=message,
            where=failure.get("where"),
            hint=failure.get("hint"),
            table=failure.get("table") or None,
        ),
    )


def _duration(status: Status, now: int) -> int:
    end = status["end_time"] if status["end_time"] >= 0 else now
    return int(max(0, end - status["start_time"]))
