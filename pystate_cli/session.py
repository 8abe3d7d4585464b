"""What every command needs: console, home, settings, the job manager."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pystate.common.errors import PystateError, error_from_dict
from pystate.common.home import PystateHome
from pystate.common.job_status import JobStatus
from pystate_cli.console import Console
from pystate_cli.job_manager import find_job_manager
from pystate_cli.rest_client import RestClient

if TYPE_CHECKING:
    import typer

    from pystate.common.configuration import LoadedConfiguration


class Session:
    """One call of the command line.

    Args:
        console: Prints.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.home = PystateHome()

    @staticmethod
    def of(context: typer.Context) -> Session:
        """Return the session that `main` handed in."""
        return cast(Session, context.obj)

    def configuration(self, conf_dir: str | None = None, overrides: dict[str, str] | None = None) -> LoadedConfiguration:
        """Read the settings and pass their notices on."""
        from pystate.common.configuration import load_configuration

        loaded = load_configuration(conf_dir, overrides, home=self.home)
        for notice in loaded.notices:
            self.console.warning(notice)
        return loaded

    def connect(self, address: str | None) -> RestClient:
        """Return a client of the job manager that runs.

        Args:
            address: The value of `-m`.

        Raises:
            NoJobManagerError: There is none.
        """
        from pystate.common.options import ClientOptions

        timeout = self.configuration().configuration.get(ClientOptions.CLIENT_TIMEOUT) / 1000
        return find_job_manager(self.home, address, timeout)


def job_state(client: RestClient, job_id: str) -> JobStatus:
    """Return where a job stands."""
    return JobStatus(client.get(f"/jobs/{job_id}/status")["status"])


def failure_of(cause: dict[str, Any]) -> PystateError:
    """Return the error in a failure cause."""
    ours = cause.get("pystate")
    if isinstance(ours, dict):
        error = error_from_dict(ours)
        name = ours.get("class")
        if type(error) is PystateError and name not in (None, PystateError.__name__):
            # somebody else's exception: its message alone may say little
            return PystateError(f"{name}: {error.message}", where=error.where, hint=error.hint)
        return error
    return PystateError(str(cause.get("stack-trace") or cause.get("class") or "unknown failure").splitlines()[0])


def job_failure(console: Console, client: RestClient, job_id: str) -> PystateError:
    """Return the error of a job that has FAILED; its stack trace is told with -v."""
    cause = client.get(f"/jobs/{job_id}/execution-result")["job-execution-result"]["failure-cause"]
    console.details(cause["stack-trace"])
    error = failure_of(cause)
    if error.hint is None:
        error.hint = f"see {client.get(f'/pystate/jobs/{job_id}')['log']}"
    return error


def show_warnings(console: Console, client: RestClient, job_id: str) -> None:
    """Tell what the job's plan warns of."""
    for warning in client.get(f"/jobs/{job_id}")["pystate"]["warnings"]:
        console.warning(warning)
