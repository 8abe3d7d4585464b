"""All jobs, in short."""

from __future__ import annotations

from pystate.common.job_status import JobStatus
from pystate.common.text.plain_data import entry, unless_none
from pystate.runtime.rest.message import HexId, RestMessage
from pystate.runtime.rest.operation_messages import RescalingInfo


class JobIdWithStatus(RestMessage):
    """A job's id and state."""

    id: HexId
    status: JobStatus


class JobIdsWithStatusOverview(RestMessage):
    """The ids and states of all jobs."""

    jobs: list[JobIdWithStatus]


class JobStatusInfo(RestMessage):
    """The state of a job."""

    status: JobStatus


class TasksByState(RestMessage):
    """Subtasks, counted by state.

    Attributes:
        total: All of them.
    """

    created: int = 0
    running: int = 0
    finished: int = 0
    canceling: int = 0
    failed: int = 0
    deploying: int = 0
    initializing: int = 0
    canceled: int = 0
    scheduled: int = 0
    reconciling: int = 0
    total: int = 0


class EmbeddedProgram(RestMessage):
    """A program that runs its job itself, without a driver of a job manager's: a script, a notebook.

    Attributes:
        host: Its machine.
        pid: Its process there.
        program: Its file; empty where it has none.
    """

    host: str
    pid: int
    program: str


class JobSummaryOurs(RestMessage):
    """What pystate adds to a job in short.

    Attributes:
        restarts: How often it was restarted.
        application_id: The Spark application that runs it; null before there is one.
        silent_since: Since when its driver gives no answer, ms since 1970; null where it does.
        embedded: The program that runs it itself; null for a job of the job manager's.
        rescaling: Its last rescale by the job manager; missing where there was none.
        waits_for: What keeps it from running, or, of a running one, why it stands still; missing where nothing does.
    """

    restarts: int = 0
    application_id: str | None = entry("application-id", default=None)
    silent_since: int | None = entry("silent-since", default=None)
    embedded: EmbeddedProgram | None = None
    rescaling: RescalingInfo | None = unless_none(default=None)
    waits_for: str | None = unless_none("waits-for", default=None)


class JobDetails(RestMessage):
    """A job in short.

    Attributes:
        jid: Its id.
        name: Its name.
        start_time: When its first driver began.
        end_time: When it ended; -1 before.
        duration: From start to end, or to now.
        state: Where it stands.
        last_modification: When it came to that state.
        tasks: Its subtasks.
        pending_operators: 0.
        pystate: What pystate adds.
    """

    jid: HexId
    name: str
    job_type: str = entry("jobType", default="STREAMING")
    scheduler_type: str = entry("schedulerType", default="Default")
    start_time: int = entry("start-time")
    end_time: int = entry("end-time")
    duration: int
    state: JobStatus
    last_modification: int = entry("last-modification")
    tasks: TasksByState
    pending_operators: int = entry("pending-operators", default=0)
    pystate: JobSummaryOurs = JobSummaryOurs()


class MultipleJobsDetails(RestMessage):
    """All jobs, in short."""

    jobs: list[JobDetails]
