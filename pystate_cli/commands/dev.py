"""`pystate dev [OPTIONS] job.py [ARGUMENTS]`."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from pystate.common.errors import PystateError
from pystate_cli.arguments.completions import complete_savepoint
from pystate_cli.arguments.options import ConfDirOption, JobManagerOption, PropertyOption, VerboseOption, absolute_path
from pystate_cli.arguments.savepoint_places import check_starting_snapshot
from pystate_cli.programs.given_program import given_program
from pystate_cli.programs.program_arguments import (
    PROGRAM_FLAGS,
    PROGRAM_WITH_VALUE,
    SAVEPOINT_NAMES,
    AllowNonRestoredOption,
    JobFileArgument,
    ParallelismOption,
    ProgramArgumentsArgument,
    PythonFilesOption,
    job_path,
    with_job_file_after_options,
)
from pystate_cli.session import Session

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration
    from pystate_cli.client.rest_client import RestClient
    from pystate_cli.dev.dev_folder import DevFolder
    from pystate_cli.dev.dev_job import DevJob
    from pystate_cli.dev.left_jobs import LeftJob
    from pystate_cli.programs.given_program import GivenProgram

_FLAGS = PROGRAM_FLAGS | {"--keep", "--from-start", "--no-screen"}
_WITH_VALUE = PROGRAM_WITH_VALUE | {"--savepoint-dir"}
_END_SECONDS = 60.0


def dev(
    context: typer.Context,
    job_file: JobFileArgument,
    arguments: ProgramArgumentsArgument = None,
    savepoint_path: Annotated[
        str | None,
        typer.Option(
            *SAVEPOINT_NAMES,
            metavar="PATH|ID",
            help="The savepoint or checkpoint that the first version starts from.",
            autocompletion=complete_savepoint,
        ),
    ] = None,
    savepoint_dir: Annotated[
        str | None,
        typer.Option(
            "--savepoint-dir", metavar="DIR", help="Where the savepoints go; default: below dev in this PYSTATE_HOME."
        ),
    ] = None,
    from_start: Annotated[
        bool,
        typer.Option(
            "--from-start",
            help="A job that has read all of its input starts over at the next save, not from its last savepoint.",
            show_default=False,
        ),
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the job running at the end, and print its id.", show_default=False)
    ] = False,
    allow_non_restored_state: AllowNonRestoredOption = False,
    no_screen: Annotated[
        bool, typer.Option("--no-screen", help="Print lines on a terminal, too, as in a pipe.", show_default=False)
    ] = False,
    parallelism: ParallelismOption = None,
    properties: PropertyOption = None,
    conf_dir: ConfDirOption = None,
    python_files: PythonFilesOption = None,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> int:
    """Run a job, and at each save of its program go on with the new code from the state of a moment ago.

    The program's file, the modules beside it that it imports and what -pyfs names are watched. After a save the program is
    checked as pystate check does it, against a savepoint that is taken while the job goes on. If it fits, the job is stopped
    with a savepoint and the new code starts from that, in a driver that is warm already; if not, what is wrong is said and
    the job goes on with the old code.

    One screen shows the job's figures, its output, what is wrong and exceptions with the line of the program; in a pipe
    there are lines. q, Ctrl-C and SIGTERM end the session and the job.
    """
    session = Session.of(context)
    path = job_path(job_file, savepoint_path)
    program = given_program(
        session,
        str(path),
        arguments,
        _FLAGS | _WITH_VALUE,
        properties=properties,
        conf_dir=conf_dir,
        python_files=python_files,
        savepoint_path=savepoint_path,
        compiled=False,
    )
    check_starting_snapshot(program.starting, here=job_manager is None)
    from pystate_cli.dev.dev_folder import DevFolder

    folder = DevFolder(session.home, program.path, keep=keep)
    if folder.has_other_session():
        session.console.warning(f"Another pystate dev of {program.path} goes on: each has a job of its own.")
    try:
        with suppress(KeyboardInterrupt), _handled(_interrupt, signal.SIGTERM, signal.SIGHUP):
            _run(
                session,
                program,
                folder,
                parallelism=parallelism,
                savepoint_dir=None if savepoint_dir is None else absolute_path(savepoint_dir),
                job_manager=job_manager,
                from_start=from_start,
                allow_non_restored_state=allow_non_restored_state,
                keep=keep,
                screen=session.console.is_terminal and not no_screen,
            )
    finally:
        folder.close(keep=keep)
    return 0


def _run(
    session: Session,
    program: GivenProgram,
    folder: DevFolder,
    *,
    parallelism: int | None,
    savepoint_dir: str | None,
    job_manager: str | None,
    from_start: bool,
    allow_non_restored_state: bool,
    keep: bool,
    screen: bool,
) -> None:
    from pystate.common.configuration.groups.execution_options import CoreOptions
    from pystate.runtime.spark.workers.python_files import python_files
    from pystate_cli.console.watching import Keyboard
    from pystate_cli.dev.code_versions import CodeVersions
    from pystate_cli.dev.dev_job import DevJob, JobProgram
    from pystate_cli.dev.dev_loop import DevLoop
    from pystate_cli.dev.file_watch import FileWatch
    from pystate_cli.dev.screens import FullScreen, LineScreen
    from pystate_cli.programs.program_process import WaitingProcess

    console = session.console
    configuration = program.configuration
    _be_quick_and_forgetful(configuration, folder)
    watch = FileWatch(program.path)
    extra = python_files(configuration)
    watch.watch([*extra, *(below for path in extra if path.is_dir() for below in path.rglob("*") if below.is_dir())])
    submitted = JobProgram(
        program.arguments,
        parallelism,
        configuration.to_dict(),
        configuration.origins(),
        allow_non_restored_state=allow_non_restored_state,
    )
    with _job_manager(session, job_manager, configuration, folder, keep=keep) as client, ExitStack() as stack:
        savepoints = savepoint_dir or folder.savepoints.as_uri()
        earlier = [] if savepoint_dir else folder.earlier_savepoints()
        left = _left_job(session, program, folder, client, job_manager)
        job = DevJob(client, submitted, savepoints, earlier, program.starting, None if left is None else left.job_id)
        stack.callback(_end, session, job, program, folder, keep=keep)
        shown: FullScreen | LineScreen
        if screen:
            keyboard = stack.enter_context(Keyboard())
            shown = FullScreen(console, client, stack.enter_context(console.redrawn_result()), keyboard)
            stack.callback(shown.close)
        else:
            shown = LineScreen(console, client)
        DevLoop(
            replace(program, starting=None),
            parallelism or configuration.get(CoreOptions.DEFAULT_PARALLELISM),
            job,
            CodeVersions(program.path, folder.code, extra),
            watch,
            lambda: WaitingProcess("program_check"),
            shown,
            from_start=from_start,
            allow_non_restored_state=allow_non_restored_state,
            left=left,
        ).run()


def _left_job(
    session: Session, program: GivenProgram, folder: DevFolder, client: RestClient, job_manager: str | None
) -> LeftJob | None:
    """Return the job that this session goes on with: one that a killed session has left; name others that go on."""
    from pystate.common.configuration.groups.service_options import ClientOptions
    from pystate_cli.client.job_manager import find_job_manager
    from pystate_cli.dev.left_jobs import left_jobs

    timeout = program.configuration.get(ClientOptions.CLIENT_TIMEOUT) / 1000

    def connect(address: str | None) -> RestClient:
        same = address == job_manager
        return client if same else find_job_manager(session.home, address, timeout, program.configuration)

    left = left_jobs(folder.left_sessions(), connect)
    killed = [one for one in left if not one.session.kept and one.session.job_manager == job_manager]
    taken = killed[-1] if killed and program.starting is None else None
    for job in left:
        if job.session.kept:
            session.console.info(f"Job {job.job_id}, which an earlier session was told to keep, still runs.")
        elif job is taken:
            folder.take_over(job.session)
            session.console.info(f"Job {job.job_id} still runs, and its session was killed: this one takes it over.")
            continue
        else:
            session.console.warning(f"Job {job.job_id} still runs, and its session was killed.")
        session.console.info(f"To end it: {job.cancel_command}")
    return taken


def _be_quick_and_forgetful(configuration: Configuration, folder: DevFolder) -> None:
    """Set what suits a job under development, unless -D says otherwise: it shows its first failure, and keeps its state."""
    from pystate.common.configuration.configuration import Origin, OriginKind
    from pystate.common.configuration.execution_target import execution_target
    from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions
    from pystate.common.configuration.groups.deployment_options import ExecutionTarget
    from pystate.common.configuration.groups.restart_strategy_options import RestartStrategyOptions

    wanted = {
        CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION.key: "RETAIN_ON_CANCELLATION",
        RestartStrategyOptions.RESTART_STRATEGY.key: "none",
    }
    if execution_target(configuration) is ExecutionTarget.LOCAL:  # a cluster has to reach the folder
        wanted[CheckpointingOptions.CHECKPOINTS_DIRECTORY.key] = folder.checkpoints.as_uri()
    for key, value in wanted.items():
        if configuration.origin(key).kind is not OriginKind.COMMAND_LINE:
            configuration.set_checked(key, value, Origin(OriginKind.COMMAND_LINE, "pystate dev"))


@contextmanager
def _job_manager(
    session: Session, address: str | None, configuration: Configuration, folder: DevFolder, *, keep: bool
) -> Iterator[RestClient]:
    """Yield a client of the job manager.

    One that was started for this session, or for one that was killed, ends with it unless it has other jobs.
    """
    from pystate.common.configuration.groups.service_options import ClientOptions, RestOptions
    from pystate.common.files.job_manager_entry import read_job_manager
    from pystate_cli.client.job_manager import ensure_job_manager, find_job_manager, own_job_manager, stop_job_manager
    from pystate_cli.client.rest_client import NoJobManagerError

    timeout = configuration.get(ClientOptions.CLIENT_TIMEOUT) / 1000
    try:
        client, ours = find_job_manager(session.home, address, timeout, configuration), False
    except NoJobManagerError:
        if address is not None:
            raise
        host, port = configuration.get(RestOptions.ADDRESS), configuration.get(RestOptions.PORT)
        warn = session.console.warning
        client, ours = (
            ensure_job_manager(session.home, host, port, timeout, configuration=configuration, warn=warn),
            True,
        )
    instance = (read_job_manager(session.home) or {}).get("instance") if address is None else None
    killed = [one for one in folder.left_sessions() if not one.kept]
    ours = ours or (instance is not None and any(one.started == instance for one in killed))
    folder.note(address, instance if ours else None)
    try:
        yield client
    finally:
        with _uninterrupted(), suppress(PystateError):
            entry = own_job_manager(session.home, timeout) if ours and not keep and not _has_jobs(client) else None
            if entry is not None:
                stop_job_manager(entry[0], _END_SECONDS)


def _has_jobs(client: RestClient) -> bool:
    from pystate.runtime.rest.job_messages import MultipleJobsDetails

    return any(not job.state.is_terminal for job in client.get("/jobs/overview", MultipleJobsDetails).jobs)


def _end(session: Session, job: DevJob, program: GivenProgram, folder: DevFolder, *, keep: bool) -> None:
    """End the job, or say that it goes on."""
    console = session.console
    with _uninterrupted():
        job.release_driver()
        if job.job_id is None:
            return
        if keep:
            console.info(f"Job {job.job_id} goes on. To end it: pystate cancel {job.job_id}")
            console.result(job.job_id)
            return
        try:
            with console.waiting("The job is ending"):
                for _ in job.cancel():
                    _pause()
        except PystateError:  # the job manager is gone, which is told
            folder.leave_job()
            console.warning(
                f"Job {job.job_id} could not be ended. If it goes on, the next session of the program takes it over."
            )
            return
        if job.savepoint_taken is not None:
            console.info(f"To go on from the last savepoint: pystate dev -s {job.savepoint_taken} {program.path}")


def _pause() -> None:
    import time

    time.sleep(0.03)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let no signal end what ends the session: a job would be left behind."""
    with _handled(signal.SIG_IGN, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        yield


@contextmanager
def _handled(handler: Any, *numbers: signal.Signals) -> Iterator[None]:
    before: list[Any] = [signal.signal(number, handler) for number in numbers]
    try:
        yield
    finally:
        for number, previous in zip(numbers, before, strict=True):
            signal.signal(number, previous)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def dev_arguments(arguments: list[str]) -> list[str]:
    """Return the arguments of `dev` with the value of Flink's `-py` as a positional argument."""
    return with_job_file_after_options(arguments, _FLAGS, _WITH_VALUE, "dev")
