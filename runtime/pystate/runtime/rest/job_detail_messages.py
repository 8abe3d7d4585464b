"""A job with its vertices and its plan, how it was configured, failed and ended."""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import Any, Literal

from pystate.common.job_status import JobStatus
from pystate.common.stream_guarantee import EndToEndGuarantee, StreamGuarantee
from pystate.common.text.plain_data import entry, unless_none
from pystate.runtime.rest.failure_messages import AttemptError, FailureCause
from pystate.runtime.rest.message import EmptyResponseBody, HexId, RestMessage
from pystate.runtime.rest.operation_messages import QueueStatus, RescalingInfo


class TaskState(str, Enum):
    """Where a vertex stands (Flink's `ExecutionState`)."""

    CREATED = "CREATED"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELING = "CANCELING"
    FAILED = "FAILED"
    DEPLOYING = "DEPLOYING"
    INITIALIZING = "INITIALIZING"
    CANCELED = "CANCELED"
    SCHEDULED = "SCHEDULED"
    RECONCILING = "RECONCILING"


class IOMetricsInfo(RestMessage):
    """Counters of a vertex or subtask: records and bytes read and written, and how it spent its time, in ms.

    Attributes:
        read_bytes: 0 where it isn't known.
        read_bytes_complete: Whether `read-bytes` is known; the other three likewise.
        busy_time: "NaN" where it isn't known.
    """

    read_bytes: int = entry("read-bytes", default=0)
    read_bytes_complete: bool = entry("read-bytes-complete", default=False)
    write_bytes: int = entry("write-bytes", default=0)
    write_bytes_complete: bool = entry("write-bytes-complete", default=False)
    read_records: int = entry("read-records", default=0)
    read_records_complete: bool = entry("read-records-complete", default=False)
    write_records: int = entry("write-records", default=0)
    write_records_complete: bool = entry("write-records-complete", default=False)
    backpressured_time: int = entry("accumulated-backpressured-time", default=0)
    idle_time: int = entry("accumulated-idle-time", default=0)
    busy_time: float | Literal["NaN"] = entry("accumulated-busy-time", default="NaN")


class JobVertexDetails(RestMessage):
    """A vertex of a job: operators that run as one task.

    Attributes:
        id: The hash of its uid.
        slot_sharing_group_id: Zeros.
        name: What people call it.
        max_parallelism: The number of key groups.
        parallelism: Its subtasks.
        start_time: When the job last came to run; -1 before.
        end_time: When the job ended; -1 before.
        tasks: Its subtasks by state.
        metrics: Its counters.
        uid: The uid of its operator.
    """

    id: HexId
    slot_sharing_group_id: HexId = entry("slotSharingGroupId", default="0" * 32)
    name: str
    max_parallelism: int = entry("maxParallelism")
    parallelism: int
    status: TaskState
    start_time: int = entry("start-time")
    end_time: int = entry("end-time")
    duration: int
    tasks: dict[TaskState, int] = field(default_factory=dict)
    metrics: IOMetricsInfo = IOMetricsInfo()
    uid: str


class PlanInput(RestMessage):
    """What feeds a node.

    Attributes:
        id: The node that does.
        num: Its number among the node's inputs.
        exchange: How what it sends is kept.
        ship_strategy: How what it sends is spread over subtasks.
    """

    id: HexId
    num: int
    exchange: str
    ship_strategy: str


class PlanNode(RestMessage):
    """A vertex in the plan, or a source.

    Attributes:
        id: The hash of its uid.
        operator: Empty.
        operator_strategy: Empty.
        description: Its operators as HTML.
        inputs: What feeds it; missing where nothing does.
    """

    id: HexId
    operator: str = ""
    parallelism: int = -1
    operator_strategy: str = ""
    description: str
    optimizer_properties: EmptyResponseBody = EmptyResponseBody()
    uid: str = ""
    inputs: list[PlanInput] | None = unless_none(default=None)


class JobPlan(RestMessage):
    """Which operator feeds which.

    Attributes:
        nodes: Downstream nodes first.
    """

    jid: HexId
    name: str
    type: Literal["STREAMING"] = "STREAMING"
    nodes: list[PlanNode]


class JobPlanInfo(RestMessage):
    """A job's plan."""

    plan: JobPlan


class StreamGuaranteeInfo(RestMessage):
    """What holds for the elements of a source that get to a sink, failures included.

    Attributes:
        source: The source's name.
        source_uid: Its uid.
        sink: The sink's name.
        sink_uid: Its uid.
        guarantee: How often an element gets there.
        reason: Why.
    """

    source: str
    source_uid: str = entry("source-uid")
    sink: str
    sink_uid: str = entry("sink-uid")
    guarantee: EndToEndGuarantee
    reason: str

    @staticmethod
    def of(one: StreamGuarantee) -> StreamGuaranteeInfo:
        """Return the message that tells of a guarantee."""
        return StreamGuaranteeInfo(
            source=one.source,
            source_uid=one.source_uid,
            sink=one.sink,
            sink_uid=one.sink_uid,
            guarantee=one.guarantee,
            reason=one.reason,
        )

    def guarantee_of_stream(self) -> StreamGuarantee:
        """Return what the message tells of."""
        return StreamGuarantee(**vars(self))


class JobDetailsOurs(RestMessage):
    """What pystate adds to a job.

    Attributes:
        attempt: The number of the execution attempt, from 0.
        warnings: What people should change in the program.
        guarantees: What holds for the elements of each source that get to each sink; empty before the job has been planned.
        waits_for: What keeps it from running.
        failure: What the last attempt failed of.
        rescaling: Its last rescale by the job manager; missing where there was none.
    """

    attempt: int = 0
    warnings: list[str] = field(default_factory=list)
    guarantees: list[StreamGuaranteeInfo] = field(default_factory=list)
    waits_for: str | None = entry("waits-for", default=None)
    failure: FailureCause | None = None
    rescaling: RescalingInfo | None = unless_none(default=None)


class JobDetailsInfo(RestMessage):
    """A job with its vertices and its plan.

    Attributes:
        jid: Its id.
        application_id: The same.
        stoppable: Always false, as in Flink.
        max_parallelism: The number of key groups; -1 before the job has been planned.
        now: When this was answered.
        timestamps: When it last came to each state; 0 where it never did.
        vertices: The tasks that run in slots; a source that Spark reads is a node of the plan only.
        status_counts: Vertices by state.
        pystate: What pystate adds.
    """

    jid: HexId
    application_id: HexId = entry("application-id", default="")
    name: str
    stoppable: bool = entry("isStoppable", default=False)
    state: JobStatus
    job_type: str = entry("job-type", default="STREAMING")
    scheduler_type: str = entry("schedulerType", default="Default")
    start_time: int = entry("start-time")
    end_time: int = entry("end-time")
    duration: int
    max_parallelism: int = entry("maxParallelism")
    now: int
    timestamps: dict[JobStatus, int]
    vertices: list[JobVertexDetails]
    status_counts: dict[TaskState, int] = entry("status-counts")
    plan: JobPlan
    pending_operators: int = entry("pending-operators", default=0)
    pystate: JobDetailsOurs = JobDetailsOurs()


class SubtaskExecutionAttemptDetails(RestMessage):
    """A subtask; it has the state and the times of its vertex.

    Attributes:
        subtask: Its number, from 0.
        attempt: The execution attempt.
        endpoint: Null.
        taskmanager_id: The id of the job.
        status_duration: For how long it has been in its state; -1 of the others.
        other_concurrent_attempts: Null.
    """

    subtask: int
    status: TaskState
    attempt: int
    endpoint: str | None = None
    start_time: int = entry("start-time")
    end_time: int = entry("end-time")
    duration: int
    metrics: IOMetricsInfo
    taskmanager_id: str = entry("taskmanager-id")
    status_duration: dict[TaskState, int] = entry("status-duration")
    other_concurrent_attempts: None = entry("other-concurrent-attempts", default=None)


class JobVertexDetailsInfo(RestMessage):
    """A vertex, subtask by subtask."""

    id: HexId
    name: str
    parallelism: int
    max_parallelism: int = entry("maxParallelism")
    now: int
    subtasks: list[SubtaskExecutionAttemptDetails]
    uid: str


class ExecutionConfigInfo(RestMessage):
    """How a job runs.

    Attributes:
        restart_strategy: When it is restarted, in words.
        parallelism: The highest of its vertices; -1 before it has been planned.
        object_reuse: Whether functions of a task get the same object where an element has several owners.
        user_config: Empty.
    """

    restart_strategy: str = entry("restart-strategy")
    parallelism: int = entry("job-parallelism")
    object_reuse: bool = entry("object-reuse-mode")
    user_config: dict[str, str] = entry("user-config")


class JobConfigOurs(RestMessage):
    """What pystate adds to a job's configuration.

    Attributes:
        configuration: The options it was submitted with, secrets hidden.
    """

    configuration: dict[str, str]


class JobConfigInfo(RestMessage):
    """How a job was configured."""

    jid: HexId
    name: str
    execution_config: ExecutionConfigInfo = entry("execution-config")
    pystate: JobConfigOurs


class RootExceptionInfo(RestMessage):
    """A failure of a job.

    Attributes:
        exception_name: The name of the error's class; where a function of the job raised it, the author's.
        stacktrace: Its stack trace.
        timestamp: When.
        failure_labels: Empty.
        task_name: Always null, like the next two.
        concurrent_exceptions: Empty.
        pystate: The same with place and hint.
    """

    exception_name: str = entry("exceptionName")
    stacktrace: str
    timestamp: int
    failure_labels: EmptyResponseBody = entry("failureLabels", default=EmptyResponseBody())
    task_name: str | None = entry("taskName", default=None)
    endpoint: str | None = None
    task_manager_id: str | None = entry("taskManagerId", default=None)
    concurrent_exceptions: list[Any] = entry("concurrentExceptions")
    pystate: AttemptError


class JobExceptionHistory(RestMessage):
    """The last failures of a job.

    Attributes:
        entries: The newest first.
        truncated: Whether there were more.
    """

    entries: list[RootExceptionInfo]
    truncated: bool = False


class JobExceptionsInfoWithHistory(RestMessage):
    """The last failures of a job."""

    exception_history: JobExceptionHistory = entry("exceptionHistory")


class JobExecutionResult(RestMessage):
    """How a job ended.

    Attributes:
        accumulator_results: Empty.
        net_runtime: From start to end.
        application_id: The id of the job.
        failure_cause: Why it FAILED.
    """

    id: HexId
    name: str
    application_status: Literal["SUCCEEDED", "CANCELED", "FAILED"] = entry("application-status")
    accumulator_results: dict[str, str] = entry("accumulator-results")
    net_runtime: int = entry("net-runtime")
    application_id: HexId = entry("application-id", default="")
    start_time: int = entry("start-time")
    end_time: int = entry("end-time")
    failure_cause: FailureCause | None = unless_none("failure-cause", default=None)


class JobExecutionResultResponseBody(RestMessage):
    """How a job ended, if it has.

    Attributes:
        status: Whether it has.
        job_execution_result: How; missing before.
    """

    status: QueueStatus
    job_execution_result: JobExecutionResult | None = unless_none("job-execution-result", default=None)


class UserTaskAccumulator(RestMessage):
    """An accumulator."""

    name: str
    type: str
    value: str


class JobAccumulatorsInfo(RestMessage):
    """A job's accumulators; there are none."""

    job_accumulators: list[Any] = entry("job-accumulators")
    user_task_accumulators: list[UserTaskAccumulator] = entry("user-task-accumulators")
    serialized_user_task_accumulators: dict[str, str] = entry("serialized-user-task-accumulators")
