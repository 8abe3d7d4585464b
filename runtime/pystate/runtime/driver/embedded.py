"""The embedded runtime of a plain `python job.py`: same slots, same checkpoints, no job manager."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from traceback import format_exception
from typing import TYPE_CHECKING, cast

from pystate.common.configuration.configuration import Configuration, OriginKind
from pystate.common.configuration.file_system_settings import current_settings, initialize
from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.configuration.groups.restart_strategy_options import RestartStrategyOptions, RestartStrategyType
from pystate.common.configuration.loaded_configuration import load_configuration
from pystate.common.errors import ConfigurationError, ExternalSystemError, JobTerminatedError, PystateError
from pystate.common.files.folders import make_private_folder
from pystate.common.files.home import JobDirectory, PystateHome, new_job_id, parse_job_id, write_file_atomically
from pystate.common.files.private_home import close_to_others
from pystate.common.job_client import JobClient
from pystate.common.job_execution_result import JobExecutionResult
from pystate.common.job_status import JobStatus
from pystate.common.processes.control import new_secret
from pystate.core.api.executor import Executor, for_widest_step
from pystate.core.api.stream_graph import StreamGraph
from pystate.runtime.driver.control_endpoint import ControlEndpoint
from pystate.runtime.driver.engines import job_engine
from pystate.runtime.driver.job_master import JobMaster
from pystate.runtime.driver.library_logs import keep_libraries_off_stdout
from pystate.runtime.driver.program.early_check import check_before_spark
from pystate.runtime.driver.program.resolved_execution_mode import in_execution_mode
from pystate.runtime.driver.program_jobs import ProgramJob, ProgramJobs, Share
from pystate.runtime.driver.registered_program import JobManagerTerms, RegisteredProgram
from pystate.runtime.driver.resumed_job import check_not_left_elsewhere, resume
from pystate.runtime.driver.uncaught_errors import tell_errors_in_words
from pystate.runtime.execution.status import JobStatusStore, failure_dict
from pystate.runtime.job_folder.job_liveness import alone_in, job_runs
from pystate.runtime.job_folder.small_files import EmbeddedProgramFile
from pystate.runtime.spark.applications.kubernetes import kubernetes_start
from pystate.runtime.spark.applications.yarn_start import watched_start
from pystate.runtime.spark.sessions.session import create_session
from pystate.runtime.spark.sessions.submitted import submitted_settings, with_submitted
from pystate.runtime.spark.spark_resource_manager import SparkResourceManager
from pystate.runtime.spark.workers.python_files import add_python_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pystate.core.api.collected_results import ResultQueue
    from pystate.runtime.spark.sessions.present_session import PresentSession


class LocalExecutor(Executor):
    """Runs jobs in this process.

    Args:
        configuration: The configuration of file and command line.
        home: The installation.

    Attributes:
        supervised: Whether a job manager starts another process for the job if this one gives up.
    """

    supervised = False

    def __init__(self, configuration: Configuration, home: PystateHome) -> None:
        self._configuration = configuration
        self._home = home
        self._session: SparkSession | None = None
        self._log_job: str | None = None  # the job whose folder has the session's log
        self._job_id = new_job_id()
        self._jobs = ProgramJobs()
        self._preparing = threading.RLock()  # several threads of a program may start jobs

    def base_configuration(self) -> Configuration:
        """Return the configuration of file and command line."""
        return self._configuration.copy()

    def spark_session(self, configuration: Configuration) -> SparkSession:
        """Return the session: the program's own, if it has made one, else ours, which the first call makes."""
        keep_libraries_off_stdout()
        with self._preparing:
            present = self.present_session()
            if present is not None:
                return present
            if self._session is None:
                directory = self.job_directory()
                self._log_job = self._job_id
                name = f"pystate {self._job_id}"
                with watched_start(configuration, name, self.waits), kubernetes_start(configuration):
                    self._session = create_session(configuration, name, directory.log)
            return self._session

    def present_session(self) -> SparkSession | None:
        """Return the session that the program has made itself; None if it has none."""
        if self._session is not None or "pyspark" not in sys.modules:
            return None
        from pystate.runtime.spark.sessions.present_session import present_session  # late: it imports pyspark

        return cast("SparkSession | None", present_session())

    def waits(self, sentence: str) -> None:
        """Report what the session waits for, before there is a job."""
        sys.stderr.write(f"{sentence}\n")

    def execute(self, graph: StreamGraph, configuration: Configuration, job_name: str) -> JobExecutionResult:
        """Run the job to its end, after the background jobs that still run."""
        job = self.prepared(graph, configuration, job_name)
        self._jobs.wait_for_turn()
        return job.run()

    def execute_async(
        self, graph: StreamGraph, configuration: Configuration, job_name: str, results: ResultQueue | None = None
    ) -> JobClient:
        """Start the job in the background, after those that still run."""
        job = self.prepared(graph, configuration, job_name, results)
        self._jobs.start(job)
        return job

    def wait_for_jobs(self) -> None:
        """Wait for the background jobs at the program's end. A job whose results are no longer consumed is cancelled.

        Raises:
            PystateError: The last one failed or was cancelled.
        """
        self._jobs.wait_at_end()

    def prepared(
        self, graph: StreamGraph, configuration: Configuration, job_name: str, results: ResultQueue | None = None
    ) -> ProgramJob:
        """Return a job that is ready to run.

        Raises:
            PystateError: It can't be run.
        """
        initialize(configuration)
        directory = self.job_directory()
        status = self.new_status(directory, job_name)
        try:
            configuration = in_execution_mode(graph, configuration)
            check_before_spark(graph, configuration, starts=status.attempt == 0)
        except ExternalSystemError as error:  # the job asks again, where its restart strategy decides
            sys.stderr.write(f"WARNING: {error}\n")
        except PystateError as error:
            status.update(JobStatus.FAILED, failure=failure_dict(error, traceback.format_exc()))
            raise
        wide = for_widest_step(configuration, graph)
        spark = self.spark_session(wide) if graph.session is None else graph.session
        with ExitStack() as undo:
            present = _present(spark, wide, status)
            if present is not None:
                undo.callback(present.job_ended)
                spark = present.for_job()
            master = JobMaster(
                self._job_id,
                job_name,
                graph,
                configuration,
                SparkResourceManager(spark, () if present is None else present.notices()),
                partial(job_engine, spark=spark),
                directory,
                status,
                home=self._home,
                job_runs=partial(job_runs, self._home),
                supervised=self.supervised,
            )
            self.started(master)
            share = None if present is None else Share(present.cores(graph), present.all_cores(), current_settings())
            job = ProgramJob(self._job_id, master, status, results, share)
            ended = undo.pop_all()
            job.when_ended(lambda _: ended.close())
            return job

    def job_directory(self) -> JobDirectory:
        """Return the job's folder, made at the first call."""
        directory = self._home.job(self._job_id)
        make_private_folder(directory.path)
        return directory

    def new_status(self, directory: JobDirectory, job_name: str) -> JobStatusStore:
        """Return the store of the job's status."""
        return JobStatusStore(directory, job_name)

    def started(self, master: JobMaster) -> None:
        """Record the job before it runs."""


def _present(spark: SparkSession, configuration: Configuration, status: JobStatusStore) -> PresentSession | None:
    """Return a session that the program has made itself, once it is checked; None for one of ours.

    Raises:
        ConfigurationError: The job can't run in it.
    """
    from pystate.runtime.spark.sessions.present_session import PresentSession, is_present  # late: it imports pyspark

    if not is_present(spark):
        return None
    try:
        return PresentSession(spark, configuration)
    except PystateError as error:
        status.update(JobStatus.FAILED, failure=failure_dict(error, traceback.format_exc()))
        raise


def with_own_restarts_only(configuration: Configuration) -> Configuration:
    """Return the options of a plain program: it restarts only if restarts or checkpoints are configured.

    Flink restarts jobs with checkpoints, and those of pystate's built-in settings would make each failing function of a
    first try come back for ever. Under `pystate run` a job is watched and can be cancelled; here `execute()` is to end.
    """
    interval = configuration.origin(CheckpointingOptions.CHECKPOINTING_INTERVAL.key)
    if interval.kind is not OriginKind.BUILT_IN or configuration.contains(RestartStrategyOptions.RESTART_STRATEGY):
        return configuration
    return configuration.copy().set(RestartStrategyOptions.RESTART_STRATEGY, RestartStrategyType.NONE)


class EmbeddedExecutor(LocalExecutor):
    """The executor of a program that was started as plain `python job.py`.

    Each `execute` is a job with its own id; several may run one after another in one session. The job's folder records which
    process runs it and its address, for job managers and for tools that look after the process is gone.

    Args:
        home: The installation; None for that of the environment.
        configuration: The options; None for those of the configuration file.
    """

    def __init__(self, home: PystateHome | None = None, configuration: Configuration | None = None) -> None:
        tell_errors_in_words()
        self._record: _EmbeddedRecord | None = None
        self._registered: RegisteredProgram | None = None
        home = PystateHome() if home is None else home
        if configuration is None:
            loaded = load_configuration(home=home)
            configuration = loaded.configuration
            for notice in loaded.notices:
                sys.stderr.write(f"{notice}\n")
        submitted = submitted_settings()
        notices = [] if submitted is None else with_submitted(configuration, submitted)
        for sentence in [*notices, *close_to_others(home)]:
            sys.stderr.write(f"{sentence}\n")
        super().__init__(configuration, home)
        fixed = configuration.get(PystateOptions.JOB_ID)
        self._fixed_id = None if fixed is None else parse_job_id(fixed)
        self._job_id = self._fixed_id or self._job_id
        home.remove_old_secrets()
        add_python_files(configuration)
        # modules beside the program must be found by the workers too
        folder = str(Path(sys.argv[0] or os.curdir).absolute().parent)
        if folder not in map(os.path.abspath, sys.path):  # Python has put it there for a script
            sys.path.insert(0, folder)

    def prepared(
        self, graph: StreamGraph, configuration: Configuration, job_name: str, results: ResultQueue | None = None
    ) -> ProgramJob:
        """Return a job that is ready to run; the next one has another id."""
        configuration = with_own_restarts_only(configuration)
        self._check_id(configuration)
        with self._preparing:
            self._record = None
            self._registered = self._registration(configuration)
            if self._job_id == self._fixed_id:
                initialize(configuration)
                check_not_left_elsewhere(configuration, self._home.job(self._job_id), self._job_id)
            try:
                job = super().prepared(graph, configuration, job_name, results)
            except BaseException as error:
                if self._record is not None:
                    self._record.ended(error)
                else:  # refused before anything was written, unless the session has its log there
                    with suppress(OSError):
                        self._home.job(self._job_id).path.rmdir()
                raise
            finally:
                self._job_id = new_job_id()
            assert self._record is not None  # noqa: S101 - made with its status
            job.when_ended(self._record.ended)
            return job

    def _check_id(self, configuration: Configuration) -> None:
        """Refuse an id that the program sets: the session and its log belong to a job from the program's start on."""
        own = configuration.get(PystateOptions.JOB_ID)
        if own is not None and parse_job_id(own) != self._fixed_id:
            key = PystateOptions.JOB_ID.key
            message = f"The program sets {key} = {own}, which must be known before it starts."
            hint = f"set it in flink-conf.toml, or with spark-submit --conf spark.{key}={own}"
            raise ConfigurationError(message, where=key, hint=hint)

    def execute(self, graph: StreamGraph, configuration: Configuration, job_name: str) -> JobExecutionResult:
        """Run the job to its end, after the background jobs that still run; an interrupt cancels it."""
        return self._jobs.run(self.prepared(graph, configuration, job_name))

    def new_status(self, directory: JobDirectory, job_name: str) -> JobStatusStore:
        """Return the store of the job's status, and write the files by which others find the job.

        Raises:
            PystateError: The program has started the job before, and it can't go on.
        """
        registered = self._registered
        if registered is not None:
            registered.check()
        try:
            with alone_in(directory):  # whoever sees the job go on has to see in which process
                told = resume(directory, self._job_id) if self._job_id == self._fixed_id else None
                EmbeddedProgramFile.of_this_process(self._log_job or self._job_id).write_to(directory.embedded)
        except JobTerminatedError:
            if registered is not None:
                registered.tell_earlier_end()
            raise
        if told is not None:
            sys.stderr.write(f"{told}\n")
        write_file_atomically(directory.secret, new_secret() if registered is None else registered.secret)
        status = super().new_status(directory, job_name)
        if registered is None:
            self._record = _EmbeddedRecord(status, ControlEndpoint(directory, status))
        else:
            terms = registered.terms
            self._record = _EmbeddedRecord(status, ControlEndpoint(directory, status, host=terms.bind, ports=terms.ports))
            registered.begin()
            self._record.registered = registered
        return status

    def _registration(self, configuration: Configuration) -> RegisteredProgram | None:
        """Return the registration of the next job with a job manager; None where none is named.

        Raises:
            PystateError: The job manager's address, its host or the secret is not what it should be.
        """
        terms = JobManagerTerms.of(configuration, self._home)
        if terms is None:
            return None
        directory, log_job = self._home.job(self._job_id), self._log_job or self._job_id
        return RegisteredProgram(terms, terms.client(configuration), self._job_id, self._home, directory, log_job)

    def started(self, master: JobMaster) -> None:
        """Let control calls reach the job."""
        assert self._record is not None  # noqa: S101 - made with its status
        self._record.endpoint.serve(master)
        if self._registered is not None:
            self._registered.give_way = master.cancel

    def execute_async(
        self, graph: StreamGraph, configuration: Configuration, job_name: str, results: ResultQueue | None = None
    ) -> JobClient:
        """Start the job in the background, after those that still run; the program ends only after it."""
        self._jobs.outlive_program()
        return super().execute_async(graph, configuration, job_name, results)


class _EmbeddedRecord:
    """The public record of one job: its status, and its address while it runs."""

    def __init__(self, status: JobStatusStore, endpoint: ControlEndpoint) -> None:
        self._status = status
        self.endpoint = endpoint
        self.registered: RegisteredProgram | None = None
        endpoint.start()

    def ended(self, error: BaseException | None) -> None:
        """Record how the job has ended, if that isn't recorded yet."""
        if not self._status.state.is_terminal:
            if isinstance(error, Exception):
                self._status.update(JobStatus.FAILED, failure=failure_dict(error, "".join(format_exception(error))))
            else:  # an interrupt before there was anything to cancel
                self._status.update(JobStatus.CANCELED)
        if self.registered is not None:
            self.registered.end()
        self.endpoint.close()
