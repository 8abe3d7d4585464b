"""The session of a command: console, home, settings, the job manager."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, cast

from pystate.common.errors import PystateError, UsageError
from pystate.common.files.home import PystateHome
from pystate.common.job_status import JobStatus
from pystate.runtime.rest.job_messages import JobStatusInfo
from pystate_cli.client.job_manager import ensure_job_manager, find_job_manager
from pystate_cli.client.rest_client import NoJobManagerError, RestClient
from pystate_cli.console.console import Console

if TYPE_CHECKING:
    import typer

    from pystate.common.configuration.loaded_configuration import LoadedConfiguration
    from pystate.runtime.rest.job_detail_messages import JobDetailsInfo, JobExecutionResult


class Session:
    """One call of the command line.

    Args:
        console: The console.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._told: set[str] = set()

    @cached_property
    def home(self) -> PystateHome:
        """The folder of this installation.

        Raises:
            UsageError: It is a file, or would be below one.
        """
        home = PystateHome()
        there = next(path for path in (home.root, *home.root.parents) if os.path.lexists(path))
        if not there.is_dir():
            message = f"The folder of this installation can't be {home.root}: {there} is not a folder."
            raise UsageError(message, hint="PYSTATE_HOME names another one")
        return home

    @staticmethod
    def of(context: typer.Context) -> Session:
        """Return the session that `main` passed."""
        return cast(Session, context.obj)

    def configuration(self, conf_dir: str | None = None, overrides: dict[str, str] | None = None) -> LoadedConfiguration:
        """Read the settings and pass their notices on."""
        from pystate.common.configuration.file_system_settings import initialize
        from pystate.common.configuration.loaded_configuration import load_configuration

        loaded = load_configuration(conf_dir, overrides, home=self.home)
        initialize(loaded.configuration)
        for notice in loaded.notices:
            if notice not in self._told:
                self._told.add(notice)
                self.console.warning(notice)
        return loaded

    def connect(self, address: str | None) -> RestClient:
        """Return a client of the running job manager; one is started if there are embedded jobs to look at.

        Args:
            address: The value of `-m`.

        Raises:
            NoJobManagerError: There is none.
        """
        from pystate.common.configuration.groups.service_options import ClientOptions, RestOptions

        configuration = self.configuration().configuration
        timeout = configuration.get(ClientOptions.CLIENT_TIMEOUT) / 1000
        try:
            return find_job_manager(self.home, address, timeout, configuration)
        except NoJobManagerError:
            from pystate_cli.client.absent_job_manager import has_embedded_jobs_only

            if address is not None or not has_embedded_jobs_only(self.home):
                raise
        self.console.info("A job manager is started, which lists the jobs that programs run themselves.")
        host, port = configuration.get(RestOptions.ADDRESS), configuration.get(RestOptions.PORT)
        return ensure_job_manager(self.home, host, port, timeout, configuration=configuration, warn=self.console.warning)


def job_state(client: RestClient, job_id: str) -> JobStatus:
    """Return the state of a job."""
    return client.get(f"/jobs/{job_id}/status", JobStatusInfo).status


def job_result(client: RestClient, job_id: str) -> JobExecutionResult:
    """Return how a job has ended.

    Raises:
        UnreadableAnswerError: It hasn't ended.
    """
    from pystate.runtime.rest.job_detail_messages import JobExecutionResultResponseBody
    from pystate.runtime.rest.message import UnreadableAnswerError

    result = client.get(f"/jobs/{job_id}/execution-result", JobExecutionResultResponseBody).job_execution_result
    if result is None:
        message = f"The job manager says nothing of the end of job {job_id}."
        raise UnreadableAnswerError(message)
    return result


def job_failure(client: RestClient, job_id: str) -> PystateError:
    """Return the error of a job that has FAILED."""
    from pystate.runtime.rest.message import UnreadableAnswerError
    from pystate.runtime.rest.own_job_messages import DriverInfo
    from pystate_cli.client.failures import failure_of

    cause = job_result(client, job_id).failure_cause
    if cause is None:
        message = f"The job manager says nothing of the failure of job {job_id}."
        raise UnreadableAnswerError(message)
    error = failure_of(cause.pystate, cause.stack_trace)
    if error.hint is None:
        log = client.get(f"/pystate/jobs/{job_id}", DriverInfo).log
        error.hint = f"see {log}" if error.__cause__ is None else f"pystate exceptions -v {job_id}, or see {log}"
        if "ModuleNotFoundError: " in error.message:
            error.hint = f"install it for the Python that runs the job, or bring it along with -pyfs; {error.hint}"
    return error


def show_plan(console: Console, client: RestClient, job_id: str) -> None:
    """Print the warnings of the job's plan, and its delivery guarantees."""
    from pystate.runtime.rest.job_detail_messages import JobDetailsInfo

    tell_plan(console, client.get(f"/jobs/{job_id}", JobDetailsInfo))


def tell_plan(console: Console, details: JobDetailsInfo) -> None:
    """Do the same as `show_plan`, for a job whose details are known."""
    for warning in details.pystate.warnings:
        console.warning(warning)
    console.guarantees([one.guarantee_of_stream() for one in details.pystate.guarantees])


def restart_sentence(details: JobDetailsInfo, attempt: int) -> str:
    """Return the message that a job was restarted, and why its attempt failed.

    Args:
        details: The answer to GET /jobs/:id.
        attempt: The attempt that failed.
    """
    sentence = f"attempt {attempt} failed and the job restarts"
    cause = details.pystate.failure
    if cause is None:
        return sentence
    from pystate_cli.client.failures import failure_of

    error = failure_of(cause.pystate, cause.stack_trace)
    error.hint = None
    return f"{sentence}: {error}"
