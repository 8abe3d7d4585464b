"""`run` without `-d`, attached: prints the job's output; a second Ctrl-C cancels the job, with `-sae` the first one."""

from __future__ import annotations

import contextlib
import time

from pystate.common.errors import JobCancelledError, JobExecutionError, PystateError
from pystate.common.job_status import JobStatus
from pystate.runtime.rest.job_detail_messages import JobDetailsInfo
from pystate.runtime.rest.own_job_messages import DriverInfo
from pystate_cli.client.job_output import JobOutput, lost_sentence
from pystate_cli.client.program_end import program_failure
from pystate_cli.client.rest_client import RestClient
from pystate_cli.console.console import Console, OutputError
from pystate_cli.console.live_region import LiveRegion
from pystate_cli.running.waiting import await_end
from pystate_cli.sampling.job_sampler import JobSampler
from pystate_cli.session import job_failure, job_result, job_state, restart_sentence, tell_plan

INTERRUPTED = 130
_POLL_SECONDS = 0.1
_REDRAW_SECONDS = 0.25
_NEWS_SECONDS = 1.0
SECOND_THOUGHT_SECONDS = 3.0
"""How long after the first Ctrl-C a second one cancels the job."""


class AttachedRun:
    """Follows one job until its end.

    Args:
        console: The console.
        client: The job manager.
        job_id: The job.
        shutdown_on_exit: Whether the first Ctrl-C cancels the job.
    """

    def __init__(self, console: Console, client: RestClient, job_id: str, *, shutdown_on_exit: bool = False) -> None:
        self._console = console
        self._client = client
        self._job_id = job_id
        self._shutdown_on_exit = shutdown_on_exit
        self._offset = 0
        self._output = JobOutput(client, job_id, "stdout", lost=lambda count: console.warning(lost_sentence(count)))
        self._plan_told = False
        self._attempt = 0
        self._next_news = 0.0

    def follow(self) -> int:
        """Print the job's output until its driver has ended; return the exit code.

        Raises:
            PystateError: The job failed, or was cancelled by another client.
        """
        try:
            if self._console.can_redraw:
                self._copy_below_live_view()
            else:
                self._copy_output(None)
        except KeyboardInterrupt:
            return self._interrupted()
        except BrokenPipeError:
            # the reader of the output has closed the pipe, like `| head`
            self._cancel()
            raise
        except OutputError:  # the disk of the output may be full
            self._console.info(f"Let go of job {self._job_id}, which goes on: its output can't be written here.")
            raise
        return self._report()

    def _copy_below_live_view(self) -> None:
        sampler = JobSampler(self._client.another(), self._job_id)
        sampler.start()
        try:
            with self._console.live_view() as region:
                self._copy_output(_View(region, sampler, unicode=self._console.info_has_unicode))
        finally:
            sampler.stop()

    def _copy_output(self, view: _View | None) -> None:
        """Copy until the driver has ended: programs print after execute(), too."""
        while True:
            data, ended, self._offset = self._output.read_on(self._offset)
            if data:
                self._console.raw(data)
                self._offset += len(data)
            if ended:
                return
            if view is not None:
                view.draw()
            self._tell_news()
            if not data:
                time.sleep(_POLL_SECONDS)

    def _tell_news(self) -> None:
        """Print the plan's warnings once the job runs, and each restart."""
        now = time.monotonic()
        if now < self._next_news:
            return
        details = self._details()
        if not self._plan_told and (details.state is JobStatus.RUNNING or details.pystate.guarantees):
            self._tell_plan(details)
        attempt = details.pystate.attempt
        if attempt > self._attempt:
            self._attempt = attempt
            self._console.warning(restart_sentence(details, attempt - 1))
        self._next_news = now + (_NEWS_SECONDS if self._plan_told else 0)

    def _details(self) -> JobDetailsInfo:
        return self._client.get(f"/jobs/{self._job_id}", JobDetailsInfo)

    def _tell_plan(self, details: JobDetailsInfo) -> None:
        self._plan_told = True
        tell_plan(self._console, details)

    def _report(self) -> int:
        if not self._plan_told:  # it ended before anybody had seen it run
            self._tell_plan(self._details())
        result = job_result(self._client, self._job_id)
        driver = self._client.get(f"/pystate/jobs/{self._job_id}", DriverInfo)
        if result.application_status == "FAILED":
            raise job_failure(self._client, self._job_id)
        if result.application_status == "CANCELED":
            message = "Job was cancelled."
            raise JobCancelledError(message, where=f"job {self._job_id}")
        self._console.info("Program execution finished")
        self._console.info(f"Job with JobID {self._job_id} has finished.")
        self._console.info(f"Job Runtime: {result.net_runtime} ms")
        failure = program_failure(self._client, self._job_id, 0.0)
        if failure is not None:
            raise failure
        if driver.exit_code:
            message = f"The program ended with exit code {driver.exit_code} after its job had finished."
            raise JobExecutionError(message, hint=f"see {driver.log}")
        return 0

    def _interrupted(self) -> int:
        try:
            if job_state(self._client, self._job_id).is_terminal:  # the program continues after its job
                return INTERRUPTED
            if not self._shutdown_on_exit and self._lets_go():
                return INTERRUPTED
            self._console.info(f"Cancelling job {self._job_id}. Ctrl-C once more leaves at once.")
            self._cancel()
            with self._console.waiting("The job is ending"):
                state = await_end(self._client, self._job_id)
        except KeyboardInterrupt:
            self._console.info(f"Job {self._job_id} is still being cancelled.")
            return INTERRUPTED
        self._console.info(
            f"Cancelled job {self._job_id}." if state is JobStatus.CANCELED else f"Job {self._job_id} ended: {state.value}."
        )
        return INTERRUPTED

    def _lets_go(self) -> bool:
        """Detach from the job, like Flink's client; False if a second Ctrl-C follows soon."""
        try:
            self._console.info(
                f"Let go of job {self._job_id}, which goes on. "
                f"Ctrl-C once more within {SECOND_THOUGHT_SECONDS:g} seconds cancels it."
            )
            time.sleep(SECOND_THOUGHT_SECONDS)
        except KeyboardInterrupt:
            return False
        self._console.info(f"What it prints: pystate logs -f --stdout {self._job_id}")
        self._console.info(f"To end it: pystate cancel {self._job_id}")
        return True

    def _cancel(self) -> None:
        with contextlib.suppress(PystateError):  # it may have just ended
            self._client.patch(f"/jobs/{self._job_id}?mode=cancel")


class _View:
    """The live view, redrawn at a readable rate."""

    def __init__(self, region: LiveRegion, sampler: JobSampler, *, unicode: bool) -> None:
        self._region = region
        self._sampler = sampler
        self._unicode = unicode
        self._next = 0.0

    def draw(self) -> None:
        now = time.monotonic()
        sample = self._sampler.latest
        if now < self._next or sample is None:
            return
        from pystate_cli.views.run_view import run_view

        self._next = now + _REDRAW_SECONDS
        self._region.draw(run_view(sample, self._region.width, unicode=self._unicode))
