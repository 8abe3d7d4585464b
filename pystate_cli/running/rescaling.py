"""`pystate rescale`: the steps of a rescale, asked for by REST and told on the console."""

from __future__ import annotations

from pystate.common.errors import PystateError
from pystate.ops.rescaling import rescaling
from pystate.runtime.rest.failure_messages import FailureCause
from pystate.runtime.rest.operation_messages import SavepointResult
from pystate_cli.client.failures import failure_of
from pystate_cli.client.rest_client import BACK_AGAIN, NoJobManagerError, RestClient
from pystate_cli.console.console import Console
from pystate_cli.running.waiting import await_operation
from pystate_cli.session import job_failure, show_plan


class Rescaling(rescaling.Rescaling):
    """The rescaling of one job by a command.

    Args:
        console: The console.
        client: The job manager.
        job_id: The job.
        parallelism: The new parallelism.
        timeout: The timeout for the start of the successor in seconds.
    """

    gone = (NoJobManagerError,)

    def __init__(self, console: Console, client: RestClient, job_id: str, parallelism: int, timeout: float) -> None:
        super().__init__(console, client, job_id, parallelism, timeout)
        self._terminal = console
        self._rest = client

    def run(self, directory: str | None) -> str:  # noqa: D102
        try:
            return super().run(directory)
        except NoJobManagerError as error:
            if error.hint == BACK_AGAIN:
                error.hint = f"pystate cluster start, then: {self._go_on}"
            raise

    def savepoint_of(self, operation: str) -> str:  # noqa: D102
        with self._terminal.progress("The savepoint is being written", waiter="The savepoint") as show:
            return await_operation(self._rest, operation, SavepointResult, show).outcome

    def failure(self, job_id: str) -> PystateError:  # noqa: D102
        return job_failure(self._rest, job_id)

    def failure_of(self, cause: FailureCause) -> PystateError:  # noqa: D102
        return failure_of(cause.pystate, cause.stack_trace)

    def tell_plan(self, job_id: str) -> None:  # noqa: D102
        show_plan(self._terminal, self._rest, job_id)
