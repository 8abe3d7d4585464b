"""Jobs, as far as Flink's REST has no word for it: drivers, progress, submissions."""

from __future__ import annotations

from pystate.common.configuration.groups.execution_options import ExecutionEngine
from pystate.common.job_status import JobStatus
from pystate.common.text.plain_data import entry
from pystate.runtime.rest.message import HexId, RestMessage


class JobSubmitResponseBody(RestMessage):
    """A job that has been submitted."""

    job_id: HexId


class OutputExtents(RestMessage):
    """From which byte to which a job's output is kept."""

    log: tuple[int, ...]
    stdout: tuple[int, ...]


class DriverInfo(RestMessage):
    """A job's driver process and its files.

    Attributes:
        pid: The process; null before there is one.
        exit_code: Of the last driver that ended; null where it isn't known.
        directory: The job's folder.
        log: Its log file.
        extents: What is kept of what it writes.
    """

    job_id: HexId
    pid: int | None
    driver_running: bool
    exit_code: int | None
    directory: str
    log: str
    extents: OutputExtents


class RestoreProgress(RestMessage):
    """How far a restore is.

    Attributes:
        checkpoint_id: What is restored.
        bytes: What has been read.
        total: Of how many bytes.
    """

    checkpoint_id: int | None = entry("checkpoint-id")
    bytes: int | None
    total: int | None


class EpochParts(RestMessage):
    """What the parts of an epoch took, in ms.

    Attributes:
        began: ms since 1970.
        duration: The whole of it.
        sources: To ask the sources how far there is something to read.
        planning: For Spark to plan it.
        log: To write down what is to be read and what was done.
        run: To read, to compute in the subtasks and to hand on results. Of an epoch that is no batch of Spark's (of
            sources in slots, of timers) the whole duration.
    """

    began: int
    duration: int
    sources: int
    planning: int
    log: int
    run: int


class JobProgress(RestMessage):
    """How far a job is; null for what isn't known.

    Attributes:
        attempt: The number of the execution attempt, from 0.
        engine: What brings records and barriers to its subtasks; on the real-time engine there are no epochs.
        epoch: The last one that ended.
        records_in: Rows read.
        records_out: Rows written.
        epoch_durations: Of the last epochs, in ms, the newest last.
        epoch_running: For how many ms the next one runs; null between two.
        epochs: Parts of the last epochs, the newest last, as far as somebody has looked at the job's progress.
        backlog: Rows that the sources have and nobody has read.
        restore: How far a restore is, while there is one.
        watermark: The lowest of all subtasks that have one, in Flink's numbers: ms since 1970, -2^63 before the first,
            2^63 - 1 at the end of event time.
        watermark_task: The task that it is of.
    """

    name: str
    state: JobStatus
    attempt: int
    start_time: int = entry("start-time")
    end_time: int = entry("end-time")
    engine: ExecutionEngine | None = None
    epoch: int | None = None
    records_in: int | None = entry("records-in", default=None)
    records_out: int | None = entry("records-out", default=None)
    epoch_durations: tuple[int, ...] = entry("epoch-durations", default=())
    epoch_running: int | None = entry("epoch-running", default=None)
    epochs: tuple[EpochParts, ...] = ()
    backlog: int | None = None
    restore: RestoreProgress | None = None
    watermark: int | None = None
    watermark_task: str | None = entry("watermark-task", default=None)


class ResubmissionInfo(RestMessage):
    """What is kept of a job to start it with again.

    Attributes:
        submitted_parallelism: What it was submitted with.
        parallelism: What its successor is to get.
        successor: The job that was started in its place; null before.
        keeper: The id of the client that asked last to keep it.
    """

    job_id: HexId
    job_file: str
    arguments: list[str]
    submitted_parallelism: int = entry("submitted-parallelism")
    parallelism: int
    successor: HexId | None
    keeper: HexId | None = None


class SettingInfo(RestMessage):
    """A setting of a job.

    Attributes:
        value: As text; null for an option without a value.
        origin: What has set it: `default`, `built-in`, `file`, `command line` or `program`; null where the client that
            submitted the job did not say.
        place: The file and its line, or the option of the command line; empty where the origin says all.
    """

    key: str
    value: str | None
    origin: str | None
    place: str


class SubmissionInfo(RestMessage):
    """What a job was submitted with, and the settings that it has by that and by its program; secrets are hidden.

    Attributes:
        submitted_at: ms since 1970.
        parallelism: The value of `-p`.
        savepoint_path: The value of `-s`.
        job_name: The value of `--name`.
        settings: All options, and what Spark and the program are given, by key.
    """

    job_id: HexId
    job_file: str
    arguments: list[str]
    working_directory: str
    python: str
    submitted_at: int
    parallelism: int | None
    savepoint_path: str | None
    allow_non_restored_state: bool
    job_name: str | None
    settings: list[SettingInfo]
