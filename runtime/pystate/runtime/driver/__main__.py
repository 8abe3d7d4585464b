"""The driver process of one job: `python -m pystate.runtime.driver --home DIR --job-id ID -- job.py [args]`."""

from __future__ import annotations

import argparse
import contextlib
import os
import runpy
import signal
import sys
import time
import traceback
from functools import partial
from pathlib import Path
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, NoReturn

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.file_system_settings import SETTINGS_VARIABLE
from pystate.common.errors import (
    DriverReplacedError,
    ExternalSystemError,
    JobCancelledError,
    JobGraphError,
    PystateError,
    SparkLostError,
)
from pystate.common.files.home import JobDirectory, PystateHome, parse_job_id
from pystate.common.job_status import JobStatus
from pystate.common.processes.garbage_collector import YOUNG_OBJECTS_OF_DRIVER, scan_seldom
from pystate.common.text.bounded_text import first_line
from pystate.common.user_code.user_frames import add_user_frame
from pystate.core.api.executor import register_executor
from pystate.core.api.stream_graph import StreamGraph
from pystate.runtime.driver.control_endpoint import ControlEndpoint
from pystate.runtime.driver.embedded import LocalExecutor
from pystate.runtime.driver.job_master import JobMaster
from pystate.runtime.driver.program.submitted_program import program_place, program_trace, submitted_configuration
from pystate.runtime.driver.program_jobs import ProgramJob
from pystate.runtime.driver.replicated_directory import job_directory
from pystate.runtime.execution.outside_failures import may_pass
from pystate.runtime.execution.status import JobStatusStore, failure_dict
from pystate.runtime.job_folder.driver_term import leader_of_this_process
from pystate.runtime.job_folder.small_files import SessionFile
from pystate.runtime.job_folder.submission import SubmissionFile
from pystate.runtime.logs.pipes import log_bounds, print_into
from pystate.runtime.spark.workers.python_files import add_python_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pystate.core.api.collected_results import ResultQueue
    from pystate.runtime.spark.sessions.warm_session import WarmSession


_LAST_WRITES_SECONDS = 10.0
"""How long an ended driver waits for files that others may ask it for instead, such as a savepoint's result."""


_START_ENDS_SECONDS = 5.0
"""How long a program that is cancelled before its job may take to end itself."""


class DriverExecutor(LocalExecutor):
    """The executor of a program that a job manager started.

    Args:
        job_id: The id assigned by the job manager.
        configuration: The configuration of the submission.
        home: The installation.
        directory: The job's files.
        status: The job's status.
        endpoint: The control endpoint.
        job_name: The job name of the submission, which overrides the program's.
        warm: An existing session, used if it has the settings that the job needs.
    """

    supervised = True

    def __init__(
        self,
        job_id: str,
        configuration: Configuration,
        home: PystateHome,
        directory: JobDirectory,
        status: JobStatusStore,
        endpoint: ControlEndpoint,
        job_name: str | None = None,
        warm: WarmSession | None = None,
    ) -> None:
        super().__init__(configuration, home)
        self._warm = warm
        self._job_name = job_name
        self._job_id = job_id
        self._directory = directory
        self._status = status
        self._endpoint = endpoint
        self.executed = False
        self.program: ModuleType = sys.modules["__main__"]

    def prepared(
        self, graph: StreamGraph, configuration: Configuration, job_name: str, results: ResultQueue | None = None
    ) -> ProgramJob:
        """Return the job; a program under a job manager has one.

        Raises:
            JobGraphError: It is the second one.
        """
        if self.executed:
            message = "Cannot have more than one execute() or executeAsync() call in a single environment."
            hint = "under `pystate run` a program is one job, which is started again with it: make two programs of it"
            raise JobGraphError(message, hint=hint)
        self.executed = True
        self.program = sys.modules["__main__"]
        return super().prepared(graph, configuration, self._job_name or job_name, results)

    def job_directory(self) -> JobDirectory:
        """Return the job's files, which the job manager created."""
        return self._directory

    def new_status(self, directory: JobDirectory, job_name: str) -> JobStatusStore:
        """Return the store that was created before the program ran."""
        del directory, job_name
        return self._status

    def spark_session(self, configuration: Configuration) -> SparkSession:
        """Return the session.

        Raises:
            SparkLostError: There is no Spark for a job that has run before, or no master answers: another driver will try,
                by the job's restart strategy.
            PystateError: There is none for a new job.
        """
        if self.present_session() is not None:
            self._end_warm()
            return super().spark_session(configuration)
        if self._session is None:
            self._write_down(configuration)
        try:
            self._session = self._session or self._from_warm(configuration)
            return super().spark_session(configuration)
        except Exception as error:  # py4j and PySpark have many classes for a Spark that does not start
            if not self._status.attempt and not isinstance(error, ExternalSystemError):
                raise
            lost = SparkLostError(f"The job's driver got no Spark application: {first_line(error)}")
            self._status.report_failure(failure_dict(lost, traceback.format_exc()))
            raise lost from error

    def waits(self, sentence: str) -> None:
        """Report what the session waits for, to the log and in the job's status."""
        super().waits(sentence)
        self._status.waits(sentence)

    def _write_down(self, configuration: Configuration) -> None:
        """Record what the session was created for, so that the job manager can prepare another one for the job."""
        with contextlib.suppress(OSError):  # a full disk: then none is ready
            SessionFile(configuration.to_dict()).write_to(self._directory.session)

    def _from_warm(self, configuration: Configuration) -> SparkSession | None:
        """Return the existing session; None if there is none with the settings that the job needs."""
        warm, self._warm = self._warm, None
        if warm is None:
            return None
        unlike = warm.unlike(configuration)
        if not unlike:
            return warm.become(configuration)
        what = ", ".join(unlike)
        sys.stderr.write(f"The spare driver's Spark session is not what the job needs, so a new one is made: {what}\n")
        warm.end()
        return None

    def _end_warm(self) -> None:
        warm, self._warm = self._warm, None
        if warm is not None:
            warm.end()

    def started(self, master: JobMaster) -> None:
        """Let control calls reach the job."""
        self._endpoint.serve(master)


def run_program(job_file: Path, arguments: list[str], executor: DriverExecutor, status: JobStatusStore) -> int:
    """Run the program; return the exit code. A program that fails before its job starts results in a FAILED job."""
    sys.argv = [str(job_file), *arguments]
    sys.path.insert(0, str(job_file.parent))
    try:
        try:
            runpy.run_path(str(job_file), run_name="__main__")
        except SystemExit as error:
            if error.code or not executor.executed:
                raise
        if not executor.executed:
            message = f"{job_file.name} never calls execute()."
            raise JobGraphError(message, where=str(job_file), hint='end the program with env.execute("name")')
        sys.modules["__main__"] = executor.program  # what goes on in the background makes objects of its classes
        executor.wait_for_jobs()
    except JobCancelledError:
        return 0
    except (SparkLostError, DriverReplacedError):
        traceback.print_exc()
        return 1  # without a last word: the job manager starts another driver, or has done so
    except _Terminated as signalled:
        return int(signalled.code or 0)  # the same
    except SystemExit as error:
        failure = JobGraphError(f"{job_file.name} ended with exit code {error.code} before its job.", where=str(job_file))
        status.update(JobStatus.FAILED, failure=failure_dict(failure, traceback.format_exc()))
        return 1
    except BaseException as error:
        traceback.print_exc()
        # raised by the program itself at its first start, before the job was announced
        asked = executor.executed or status.attempt > 0 or isinstance(error, ExternalSystemError)
        if asked and not status.state.is_terminal and may_pass(error, begun=status.attempt > 0):
            # without a last word: what is away, or full, may come back, and the job's strategy decides
            status.report_failure(failure_dict(error, program_trace(error, job_file)))
            return 1
        if isinstance(error, PystateError):
            add_user_frame(error, "".join(traceback.format_exception(error)))
        failed = failure_dict(error, program_trace(error, job_file))
        failed["where"] = failed["where"] or program_place(error, job_file)
        if not status.update(JobStatus.FAILED, failure=failed):
            status.report_program_failure(failed)
        return 1
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run the driver."""
    parser = argparse.ArgumentParser(prog="pystate.runtime.driver", description="The driver process of one job.")
    parser.add_argument("--home", required=True, help="the installation's folder (PYSTATE_HOME)")
    parser.add_argument("--job-id", required=True, type=parse_job_id, help="32 hex digits")
    parser.add_argument("job_file", type=Path)
    parser.add_argument("job_arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    return run_driver(PystateHome(options.home), options.job_id, options.job_file, options.job_arguments)


def run_driver(
    home: PystateHome,
    job_id: str,
    job_file: Path,
    arguments: list[str],
    warm: WarmSession | None = None,
    pipe: tuple[int, int] | None = None,
) -> int:
    """Run a job in this process; return the exit code.

    Args:
        home: The installation.
        job_id: The job.
        job_file: The program.
        arguments: Its arguments.
        warm: A session that is there already.
        pipe: The two ends of the pipe that it prints into.
    """
    scan_seldom(YOUNG_OBJECTS_OF_DRIVER)
    os.environ["PYSTATE_HOME"] = str(home.root)
    directory = job_directory(home, job_id, leader_of_this_process())
    os.environ.pop(SETTINGS_VARIABLE, None)  # they were the job manager's, for the job's files; the program has its own
    job_file = job_file.absolute()
    try:
        submission = SubmissionFile.read(directory)
    except PystateError as error:
        status = JobStatusStore(directory, job_file.stem)
        status.update(JobStatus.FAILED, failure=failure_dict(error, ""))
        status.wait_until_written()
        return 1
    status = JobStatusStore(directory, submission.initial_name)
    endpoint = ControlEndpoint(directory, status, partial(_end_start, status))
    try:
        endpoint.start()
    except OSError as error:
        with contextlib.suppress(OSError):  # the log may be on the same disk
            traceback.print_exc()
        status.report_failure(failure_dict(error, traceback.format_exc()))
        return 1
    signal.signal(signal.SIGTERM, _exit_on_signal)
    try:
        configuration = submitted_configuration(
            submission.configuration,
            submission.parallelism,
            submission.savepoint_path,
            allow_non_restored_state=submission.allow_non_restored_state,
        )
        bounds = log_bounds(configuration)
        add_python_files(configuration)
    except PystateError as error:
        status.update(JobStatus.FAILED, failure=failure_dict(error, ""))
        status.wait_until_written()
        return 1
    print_into([directory.stdout, directory.log] if submission.attached else [directory.log], bounds, pipe)
    executor = DriverExecutor(job_id, configuration, home, directory, status, endpoint, submission.job_name, warm)
    register_executor(executor)
    code = run_program(job_file, arguments, executor, status)
    status.wait_until_written()
    status.writes.wait_for_all(_LAST_WRITES_SECONDS)
    return code


class _Terminated(SystemExit):
    """A signal asked this process to end; the job has not."""


def _exit_on_signal(number: int, _: FrameType | None) -> None:
    raise _Terminated(128 + number)


def _end_start(status: JobStatusStore) -> None:
    """End a program whose job is cancelled before it has come to it: as by a signal, and for sure some seconds later."""
    status.wait_until_written()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_START_ENDS_SECONDS)
    end_process(0)


def end_process(code: int) -> NoReturn:
    """End this process."""
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    # the job has ended and its record is written; threads that still wait for Spark must not keep the process
    os._exit(code)


if __name__ == "__main__":
    end_process(main())
