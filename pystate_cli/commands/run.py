"""`pystate run [OPTIONS] job.py [ARGUMENTS]`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pystate.common.errors import JobCancelledError, UsageError
from pystate.common.job_status import JobStatus
from pystate_cli.attached_run import AttachedRun
from pystate_cli.job_manager import ensure_job_manager, find_job_manager
from pystate_cli.options import JOB_MANAGER_NAMES, VERBOSE_NAMES, JobManagerOption, VerboseOption, absolute_path
from pystate_cli.program_check import check_program
from pystate_cli.rest_client import RestClient
from pystate_cli.session import Session, job_failure, show_warnings
from pystate_cli.waiting import await_state

if TYPE_CHECKING:
    from pystate.common.configuration import Configuration

_DETACHED = ("-d", "--detached")
_SAVEPOINT = ("-s", "--fromSavepoint")
_ALLOW_NON_RESTORED = ("-n", "--allowNonRestoredState")
_PARALLELISM = ("-p", "--parallelism")
_PROPERTY = ("-D",)
_CONF_DIR = ("--conf-dir",)
_PYTHON = ("-py", "--python")

_FLAGS = frozenset((*_DETACHED, *_ALLOW_NON_RESTORED, *VERBOSE_NAMES))
_WITH_VALUE = frozenset((*_SAVEPOINT, *_PARALLELISM, *_PROPERTY, *_CONF_DIR, *JOB_MANAGER_NAMES))
_RUNNING = frozenset((JobStatus.RUNNING,))


def run(
    context: typer.Context,
    job_file: Annotated[str, typer.Argument(metavar="JOB.PY", help="The program; -py JOB.PY means the same.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGUMENTS]", help="All that follows goes to the program.")
    ] = None,
    detached: Annotated[
        bool, typer.Option(*_DETACHED, help="Return once the job runs, and print its id.", show_default=False)
    ] = False,
    savepoint_path: Annotated[
        str | None,
        typer.Option(
            *_SAVEPOINT, metavar="PATH|ID", help="The savepoint or retained checkpoint to start from; its id will do."
        ),
    ] = None,
    allow_non_restored_state: Annotated[
        bool,
        typer.Option(*_ALLOW_NON_RESTORED, help="Leave out state that no operator of the job claims.", show_default=False),
    ] = False,
    parallelism: Annotated[
        int | None, typer.Option(*_PARALLELISM, metavar="N", min=1, help="The number of subtasks of each operator.")
    ] = None,
    properties: Annotated[
        list[str] | None, typer.Option(*_PROPERTY, metavar="KEY=VALUE", help="Set an option, above the file's.")
    ] = None,
    conf_dir: Annotated[str | None, typer.Option(*_CONF_DIR, metavar="DIR", help="The folder of flink-conf.toml.")] = None,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> int:
    """Run a job: attached until it ends, or detached with -d.

    Attached, the output is what the job prints, and Ctrl-C cancels it.
    """
    from pystate.common.configuration import parse_dynamic_properties
    from pystate.common.service_options import ClientOptions, RestOptions

    session = Session.of(context)
    path = _job_path(job_file)
    if path.suffix == ".py":  # Python also runs archives and compiled programs
        check_program(path)
    configuration = session.configuration(conf_dir, parse_dynamic_properties(properties or [])).configuration
    starting = None if savepoint_path is None else _starting_snapshot(savepoint_path, configuration)
    timeout = configuration.get(ClientOptions.CLIENT_TIMEOUT) / 1000
    if job_manager is None:
        client = ensure_job_manager(
            session.home, configuration.get(RestOptions.ADDRESS), configuration.get(RestOptions.PORT), timeout
        )
    else:
        client = find_job_manager(session.home, job_manager, timeout)
    submission = {
        "job_file": str(path),
        "arguments": arguments or [],
        "working_directory": os.getcwd(),
        "parallelism": parallelism,
        "savepoint_path": starting,
        "allow_non_restored_state": allow_non_restored_state,
        "configuration": configuration.to_dict(),
        "attached": not detached,
        "python": sys.executable,
        "environment": dict(os.environ),
    }
    job_id = str(client.post("/pystate/jobs", submission)["job_id"])
    session.console.story(f"Job has been submitted with JobID {job_id}")
    if detached:
        return _await_start(session, client, job_id)
    return AttachedRun(session.console, client, job_id).follow()


def with_job_file_behind_options(words: list[str]) -> list[str]:
    """Return the arguments of `run` with the value of Flink's `-py` as the positional it stands for.

    As in Flink, the first word that is neither an option of `run` nor its value begins the program's arguments.
    """
    kept: list[str] = []
    job_file: str | None = None
    index = 0
    while index < len(words):
        word = words[index]
        name, equals, value = word.partition("=")
        if word in _PYTHON:
            if index + 1 == len(words):
                message = f"{word} needs the path of the program."
                raise UsageError(message, hint="pystate run --help")
            job_file, index = words[index + 1], index + 2
        elif name in _PYTHON and equals:
            job_file, index = value, index + 1
        elif word in _WITH_VALUE:
            kept += words[index : index + 2]
            index += 2
        elif word in _FLAGS or (equals and name in _WITH_VALUE) or (word[:2] in _WITH_VALUE and word[:2] != "--"):
            kept.append(word)
            index += 1
        else:
            break
    return words if job_file is None else [*kept, job_file, *words[index:]]


def _job_path(job_file: str) -> Path:
    path = Path(job_file).expanduser().absolute()
    if not path.exists():
        message = f"The job file does not exist: {job_file}"
        raise UsageError(message, where=str(path.parent))
    if not path.is_file():
        message = f"The job file is not a file: {job_file}"
        raise UsageError(message, where=str(path))
    return path


def _starting_snapshot(text: str, configuration: Configuration) -> str:
    """Return the path of the snapshot that a path or an id means; whether a path leads to one the driver finds out."""
    from pystate_cli.savepoint_places import configured_directories, find_by_id, means_id

    if not means_id(text):
        return absolute_path(text)
    return find_by_id(text, configured_directories(configuration, checkpoints=True)).uri


def _await_start(session: Session, client: RestClient, job_id: str) -> int:
    """Wait until the job is past its initialisation, so that an error in it is this command's error."""
    try:
        with session.console.waiting("The job is starting"):
            state = await_state(client, job_id, _RUNNING)
    except KeyboardInterrupt:
        session.console.story(f"Job {job_id} goes on; pystate cancel {job_id} ends it.")
        raise
    if state is JobStatus.FAILED:
        raise job_failure(client, job_id)
    if state is JobStatus.CANCELED:
        message = f"Job {job_id} was cancelled before it ran."
        raise JobCancelledError(message)
    show_warnings(session.console, client, job_id)
    session.console.result(job_id)
    return 0
