"""The routes about jobs that Flink's REST API doesn't have."""

from __future__ import annotations

from functools import partial
from typing import Any

from starlette.responses import Response

from pystate.common.errors import PystateError
from pystate.ops.jobmanager.rest import status_answers as messages
from pystate.ops.jobmanager.rest.job_settings import job_settings
from pystate.ops.jobmanager.rest.parameters import CHOSEN_JOB_ID, Parameter, number
from pystate.ops.jobmanager.rest.rest_errors import NotFoundError
from pystate.ops.jobmanager.rest.route import RestRequest, RestRoute
from pystate.ops.jobmanager.rest.schemas import TEXT, TRUTH, Schema, array, mapping, nullable
from pystate.ops.jobmanager.web.request_guard import MAX_BODY_BYTES
from pystate.runtime.job_folder.small_files import SessionFile
from pystate.runtime.job_folder.submission import Submission, SubmissionFile, environment_from_json
from pystate.runtime.logs.log_reader import log_extent
from pystate.runtime.rest.own_job_messages import (
    DriverInfo,
    JobProgress,
    JobSubmitResponseBody,
    OutputExtents,
    SubmissionInfo,
)

_OUTPUT_CHUNK = 1 << 20
_LARGEST_FILE = 1 << 43
"""Beyond the largest file of a file system, positions are errors."""
_OUTPUT_TYPE = "application/octet-stream"
_PATH = "/pystate/jobs/{job_id}"


def _submitted(name: str, description: str, schema: Schema, *, required: bool = False) -> Parameter[Any]:
    """Return a field of a submission, which `Submission` validates."""
    return Parameter(name, description, schema, lambda _name, value: value, required)


_SUBMISSION = (
    _submitted("job_file", "The program, an absolute path on the job manager's machine.", TEXT, required=True),
    _submitted("arguments", "Its arguments.", array(TEXT)),
    _submitted("working_directory", "Where it runs, an absolute path.", TEXT, required=True),
    _submitted("python", "The interpreter, an absolute path.", TEXT, required=True),
    _submitted("parallelism", "The number of subtasks.", nullable({"type": "integer", "minimum": 1, "maximum": 1 << 15})),
    _submitted("savepoint_path", "What the job starts from.", nullable(TEXT)),
    _submitted("allow_non_restored_state", "Whether state that nobody takes is left out.", TRUTH),
    _submitted("configuration", "Options, as text.", mapping(TEXT)),
    _submitted("job_name", "What it is called; the program's name for it where null.", nullable(TEXT)),
    _submitted("attached", "Whether somebody reads what it prints.", TRUTH),
    _submitted("origins", "Where each option was set, as text, for people.", mapping(TEXT)),
    _submitted("environment", "The environment variables of the driver; the job manager's own where empty.", mapping(TEXT)),
    CHOSEN_JOB_ID,
)
_OFFSET = number("offset", "How many bytes to leave out.", 0, high=_LARGEST_FILE)


def _submit(request: RestRequest) -> JobSubmitResponseBody:
    body, chosen = request.body, request[CHOSEN_JOB_ID]
    if chosen is not None and request.dispatcher.knows(chosen):
        return JobSubmitResponseBody(job_id=chosen)
    submission, environment = Submission.from_json(body), environment_from_json(body)
    return JobSubmitResponseBody(job_id=request.dispatcher.submit(submission, environment, chosen))


def _submission(request: RestRequest) -> SubmissionInfo:
    job = request.job
    if job.program is not None:
        message = f"Job {job.job_id} is run by its own program (process {job.program.pid}), which submits nothing."
        raise NotFoundError(message)
    submission = SubmissionFile.read(job.directory)
    try:
        session = SessionFile.read_from(job.directory.session)
    except PystateError:  # it is for spare drivers, which do without a damaged one
        session = None
    return SubmissionInfo(
        job_id=job.job_id,
        job_file=submission.job_file,
        arguments=submission.arguments,
        working_directory=submission.working_directory,
        python=submission.python,
        submitted_at=submission.submitted_at,
        parallelism=submission.parallelism,
        savepoint_path=submission.savepoint_path,
        allow_non_restored_state=submission.allow_non_restored_state,
        job_name=submission.job_name,
        settings=job_settings(submission, None if session is None else session.configuration),
    )


def _driver(request: RestRequest) -> DriverInfo:
    job = request.job
    record = job.record
    return DriverInfo(
        job_id=job.job_id,
        pid=record.pid,
        driver_running=not job.driver_is_gone,
        exit_code=record.exit_code,
        directory=str(job.directory.path),
        log=str(job.directory.log),
        extents=OutputExtents(log=log_extent(job.directory.log), stdout=log_extent(job.directory.stdout)),
    )


def _progress(request: RestRequest) -> JobProgress:
    return messages.progress(request.job.progress())


def _output(request: RestRequest, name: str) -> Response:
    data, ended = request.job.read_output(name, request[_OFFSET], _OUTPUT_CHUNK)
    return Response(data, media_type=_OUTPUT_TYPE, headers={"pystate-ended": str(ended).lower()})


def _output_route(name: str, summary: str) -> RestRoute:
    handler = partial(_output, name=name)
    path = f"{_PATH}/{name}"
    return RestRoute("GET", path, handler, summary, None, query=(_OFFSET,), media_type=_OUTPUT_TYPE, owner_only=True)


ROUTES = (
    RestRoute(
        "POST",
        "/pystate/jobs",
        _submit,
        "Submit a job.",
        JobSubmitResponseBody,
        status=202,
        body=_SUBMISSION,
        max_body=MAX_BODY_BYTES,
        owner_only=True,
        refusals=(507,),
    ),
    RestRoute("GET", _PATH, _driver, "A job's driver process and its files.", DriverInfo, owner_only=True),
    RestRoute(
        "GET",
        f"{_PATH}/submission",
        _submission,
        "What a job was submitted with, and each of its settings with where it comes from; secrets hidden.",
        SubmissionInfo,
        owner_only=True,
    ),
    RestRoute("GET", f"{_PATH}/progress", _progress, "How far a job is.", JobProgress, asks_driver=True, owner_only=True),
    _output_route("stdout", "What an attached job has printed."),
    _output_route("log", "A job's log."),
)
