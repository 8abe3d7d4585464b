"""`pystate run [OPTIONS] job.py [ARGUMENTS]`."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Annotated, NoReturn

import typer

from pystate.common.errors import UsageError
from pystate.common.job_status import JobStatus
from pystate.runtime.rest.own_job_messages import JobSubmitResponseBody
from pystate.runtime.rest.request_bodies import JobSubmitRequestBody
from pystate_cli.arguments.options import ConfDirOption, JobManagerOption, JsonOption, PropertyOption, VerboseOption
from pystate_cli.arguments.savepoint_places import check_starting_snapshot
from pystate_cli.arguments.snapshot_options import ClaimModeOption, RestoreModeOption
from pystate_cli.client.job_manager import ensure_job_manager, find_job_manager
from pystate_cli.client.program_end import program_failure
from pystate_cli.client.rest_client import SilentJobManagerError
from pystate_cli.programs.given_program import given_program
from pystate_cli.programs.program_arguments import (
    NAME_NAMES,
    PROGRAM_FLAGS,
    PROGRAM_WITH_VALUE,
    TARGET_NAMES,
    AllowNonRestoredOption,
    JobFileArgument,
    ParallelismOption,
    ProgramArgumentsArgument,
    PythonArchivesOption,
    PythonExecutableOption,
    PythonFilesOption,
    starting_option,
    with_job_file_after_options,
)
from pystate_cli.running.attached_run import AttachedRun
from pystate_cli.running.detached_start import DetachedStart
from pystate_cli.session import Session, show_plan

_DETACHED = ("-d", "--detached")
_TIMEOUT = ("--timeout",)
_SHUTDOWN = ("-sae", "--shutdownOnAttachedExit")

_FLAGS = frozenset((*_DETACHED, *_SHUTDOWN, *PROGRAM_FLAGS))
_WITH_VALUE = frozenset((*_TIMEOUT, *PROGRAM_WITH_VALUE))


def run(
    context: typer.Context,
    job_file: JobFileArgument,
    arguments: ProgramArgumentsArgument = None,
    detached: Annotated[
        bool, typer.Option(*_DETACHED, help="Return once the job runs, and print its id.", show_default=False)
    ] = False,
    savepoint_path: Annotated[
        str | None, starting_option("The savepoint or retained checkpoint to start from; its id will do.")
    ] = None,
    allow_non_restored_state: AllowNonRestoredOption = False,
    claim_mode: ClaimModeOption = None,
    restore_mode: RestoreModeOption = None,
    parallelism: ParallelismOption = None,
    properties: PropertyOption = None,
    conf_dir: ConfDirOption = None,
    target: Annotated[
        str | None,
        typer.Option(
            *TARGET_NAMES, metavar="TARGET", help="Where the job runs, as -D execution.target says it.", show_default=False
        ),
    ] = None,
    python_files: PythonFilesOption = None,
    python_archives: PythonArchivesOption = None,
    python_executable: PythonExecutableOption = None,
    job_name: Annotated[
        str | None,
        typer.Option(*NAME_NAMES, metavar="NAME", help="What the job is called, above the name that the program gives it."),
    ] = None,
    shutdown_on_attached_exit: Annotated[
        bool,
        typer.Option(
            *_SHUTDOWN,
            help="Cancel an attached job at the first Ctrl-C, and when this command is terminated or its terminal goes.",
            show_default=False,
        ),
    ] = False,
    start_timeout: Annotated[
        float | None,
        typer.Option(
            *_TIMEOUT, metavar="SECONDS", min=0, help="With -d: give up then if the job doesn't run yet; it goes on."
        ),
    ] = None,
    as_json: JsonOption = False,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> int:
    """Run a job: attached until it ends, or detached with -d.

    Attached, the output is what the job prints. Ctrl-C lets go of the job, which goes on; a second one within 3 seconds
    cancels it.
    """
    from pystate.common.configuration.execution_target import execution_target
    from pystate.common.configuration.groups.checkpointing_options import StateRecoveryOptions
    from pystate.common.configuration.groups.service_options import ClientOptions, RestOptions

    session = Session.of(context)
    if job_name is not None and not job_name.strip():
        message = "The name of a job can't be empty."
        raise UsageError(message, hint="leave --name out for the name that the program gives")
    if start_timeout is not None and not detached:
        message = "--timeout is about the start of a detached job."
        raise UsageError(message, hint="add -d; pystate wait has a --timeout for the end of a job")
    if as_json and not detached:
        message = "--json needs -d: attached, stdout is what the job prints."
        raise UsageError(message, hint="add -d, or leave --json out")
    program = given_program(
        session,
        job_file,
        arguments,
        _FLAGS | _WITH_VALUE,
        properties=properties,
        python_files=python_files,
        python_archives=python_archives,
        python_executable=python_executable,
        target=target,
        claim_mode=claim_mode,
        restore_mode=restore_mode,
        conf_dir=conf_dir,
        savepoint_path=savepoint_path,
    )
    configuration, starting = program.configuration, program.starting
    if restore_mode is not None:
        session.console.warning("--restoreMode is deprecated, please use --claimMode instead")
    execution_target(configuration)
    check_starting_snapshot(starting or configuration.get(StateRecoveryOptions.SAVEPOINT_PATH), here=job_manager is None)
    timeout = configuration.get(ClientOptions.CLIENT_TIMEOUT) / 1000
    if job_manager is None:
        client = ensure_job_manager(
            session.home,
            configuration.get(RestOptions.ADDRESS),
            configuration.get(RestOptions.PORT),
            timeout,
            configuration=configuration,
            warn=session.console.warning,
        )
    else:
        client = find_job_manager(session.home, job_manager, timeout, configuration)
    submission = JobSubmitRequestBody(
        job_file=str(program.path),
        arguments=program.arguments,
        working_directory=os.getcwd(),
        parallelism=parallelism,
        savepoint_path=starting,
        allow_non_restored_state=allow_non_restored_state,
        configuration=configuration.to_dict(),
        origins=configuration.origins(),
        job_name=job_name,
        attached=not detached,
        python=sys.executable,
        environment=dict(os.environ),
    )
    job_id = client.post("/pystate/jobs", submission, JobSubmitResponseBody).job_id
    session.console.info(f"Job has been submitted with JobID {job_id}")
    if detached:
        state, failure = None, None
        try:
            state = DetachedStart(session.console, client, job_id, start_timeout).wait()
            show_plan(session.console, client, job_id)
            failure = None if state is JobStatus.RUNNING else program_failure(client, job_id)
        except SilentJobManagerError as silent:  # an error would make a script start the job again
            go_on = f"Job {job_id} was submitted, and goes on; pystate wait {job_id} --for running tells how it starts."
            session.console.warning(f"{silent.message} {go_on}")
        if as_json:
            session.console.result_json({"jobId": job_id, "state": None if state is None else state.value})
        else:
            session.console.result(job_id)
        if failure is not None:
            raise failure
        return 0
    if shutdown_on_attached_exit:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _interrupt)
    return AttachedRun(session.console, client, job_id, shutdown_on_exit=shutdown_on_attached_exit).follow()


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def run_arguments(arguments: list[str]) -> list[str]:
    """Return the arguments of `run` with the value of Flink's `-py` as a positional argument."""
    return with_job_file_after_options(arguments, _FLAGS, _WITH_VALUE, "run")
