"""Rescaling: stop with a savepoint, start from it with a new parallelism, and revert if that fails.

The job manager keeps the data to resubmit the job from before the stop until the successor runs, with the wanted
parallelism. So after a command that died half-way, another command can find the job and its savepoint, and continue. Where
the job manager takes the steps itself the next one goes on with them after its death (`Rescaling.resume`): the ids of the
stop and of successors are chosen and written down before anything is asked for with them.

A job is put back to an earlier state in the same steps: its successor starts from that, and from the savepoint of the stop
if that fails. The command line and the job manager both do all this; each asks and tells in its own way.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Sequence
from typing import NoReturn

from pystate.common.errors import JobExecutionError, JobNotFoundError, JobTerminatedError, PystateError, UsageError
from pystate.common.job_status import JobStatus
from pystate.ops.rescaling.job_calls import Calls, Teller
from pystate.ops.rescaling.started_jobs import STARTING, CancelledError, StartedJobs, StillStartsError, has_run
from pystate.runtime.job_folder.rescaling_file import SuccessorStart
from pystate.runtime.rest.checkpoint_messages import CheckpointingStatistics
from pystate.runtime.rest.cluster_messages import SpareDriversInfo
from pystate.runtime.rest.failure_messages import FailureCause
from pystate.runtime.rest.job_detail_messages import JobDetailsInfo
from pystate.runtime.rest.operation_messages import TriggerResponse
from pystate.runtime.rest.own_job_messages import JobSubmitResponseBody, ResubmissionInfo
from pystate.runtime.rest.request_bodies import ResubmissionRequestBody, ResubmitRequestBody, StopWithSavepointRequestBody

_POLL_SECONDS = 0.1
_WARMING, _READY = "WARMING", "READY"
_DRIVER_SECONDS = 120.0
"""How long the job goes on running for the driver of its successor."""
_LOOKS_FOR_DRIVER = 3
"""The number of looks without such a driver after which there will be none: on a cluster, or without memory."""
_BEFORE_RUNNING = (*STARTING, JobStatus.RESTARTING)


class Rescaling:
    """The rescaling of one job; what depends on the caller is in subclasses.

    Args:
        console: Tells how it goes.
        client: The job manager.
        job_id: The job.
        parallelism: The new parallelism.
        timeout: The timeout for the start of the successor in seconds.
        snapshot: What the successor starts from; None for the savepoint at which the job is stopped.
        without_state: Whether state of the snapshot that no operator takes is left out.
    """

    gone: tuple[type[PystateError], ...] = ()
    """What calls raise when there is no job manager: nothing else is tried then."""
    operation_id: str | None = None
    """The id of the stop and of the request to keep the job's data; None for ids that the job manager chooses."""

    def __init__(
        self,
        console: Teller,
        client: Calls,
        job_id: str,
        parallelism: int,
        timeout: float,
        *,
        snapshot: str | None = None,
        without_state: bool = False,
    ) -> None:
        self._console = console
        self._client = client
        self._job_id = job_id
        self._parallelism = parallelism
        self._timeout = timeout
        self._snapshot = snapshot
        self._without_state = without_state
        self._jobs = StartedJobs(console, client, self, former=job_id, timeout=timeout)
        self._kept = f"/pystate/jobs/{job_id}/resubmission"
        self._keeper: str | None = None
        self._go_on = f"pystate rescale {job_id} -p {parallelism}"

    # -- what subclasses know

    def savepoint_of(self, operation: str) -> str:
        """Wait for the savepoint of a stop, and return its path.

        Args:
            operation: The REST path of the operation.
        """
        raise NotImplementedError

    def failure(self, job_id: str) -> PystateError:
        """Return the error of a job that has failed."""
        raise NotImplementedError

    def failure_of(self, cause: FailureCause) -> PystateError:
        """Return the error of an attempt that has failed."""
        raise NotImplementedError

    def stop_is_known(self) -> bool:
        """Whether the job was asked to stop, and its driver knows of that."""
        raise NotImplementedError

    def begin_start(self, *, goes_back: bool) -> str | None:
        """Return the id for a job that is about to be started; None for one that the job manager chooses.

        Args:
            goes_back: Whether it is started as the stopped job was.
        """
        return None

    def give_up(self, job_id: str, reason: PystateError) -> None:
        """Note that a job that was started and does not run is about to be ended."""

    def tell_plan(self, job_id: str) -> None:
        """Tell the plan's warnings and guarantees of the successor, which runs."""

    def run(self, directory: str | None) -> str:
        """Rescale, and return the id of the job with the new parallelism.

        Args:
            directory: Where the savepoint goes; None for the configured directory.

        Raises:
            PystateError: It failed; the message names the job that runs now.
        """
        if self._jobs.state(self._job_id).is_terminal:
            savepoint, running = self._resumed()
            if running is not None:
                return running
        else:
            if not self._check():
                return self._job_id
            self._await_driver()
            savepoint = self._stopped(directory)
        try:
            return self._started(savepoint)
        except KeyboardInterrupt:
            self._console.info(f"Interrupted. What is left to do, does: {self._go_on}")
            raise

    def resume(self, starts: Sequence[SuccessorStart]) -> str:
        """Go on where another process died, and return the id of the job that runs with the new parallelism.

        Args:
            starts: What it has started, or was about to.

        Raises:
            PystateError: It failed; the message names the job that runs now.
        """
        if not self.stop_is_known():
            return self.run(None)
        savepoint = self._stopped(None)
        if not starts:
            return self._started(savepoint)
        last = starts[-1]
        if last.given_up is not None:
            failure: PystateError | None = JobExecutionError(last.given_up)
            self._jobs.end(last.job_id)
        elif self._jobs.never_began(last.job_id):
            return self._gone_back(savepoint) if last.goes_back else self._started(savepoint)
        else:
            failure = self._jobs.await_running(last.job_id, patient=last.goes_back)
        if last.goes_back:
            self._report_return(savepoint, last.job_id, failure)
        return self._after_start(savepoint, last.job_id, failure)

    # -- before anything is done

    def _check(self) -> bool:
        """Check what can be checked while the job still runs; return whether there is anything to do."""
        details = self._settled()
        wanted = self._parallelism
        if details.state is not JobStatus.RUNNING:
            message = f"Job {self._job_id} is {details.state.value}; only a job that is RUNNING can be rescaled."
            raise JobTerminatedError(message, hint=f"pystate watch {self._job_id}")
        most = details.max_parallelism
        if 0 < most < wanted:
            message = f"The parallelism can't be above the max parallelism of the job's state, which is {most}."
            raise UsageError(message, where=f"job {self._job_id}", hint=f"-p {most}")
        subtasks = [vertex.parallelism for vertex in details.vertices]
        ready = self._snapshot is not None
        asked = ResubmissionRequestBody(parallelism=wanted, keeper=self.operation_id, ready=ready)
        kept = self._client.post(self._kept, asked, ResubmissionInfo)
        submitted, self._keeper = kept.submitted_parallelism, kept.keeper
        if self._snapshot is not None:
            return True
        if submitted == wanted and wanted in subtasks:
            self._take_back()
            self._console.info(f"Job {self._job_id} has parallelism {wanted} already. Nothing was done.")
            return False
        if subtasks and submitted not in subtasks:
            self._take_back()
            message = (
                f"The program sets its parallelism itself (its operators have {_several(subtasks)}), "
                "which goes above -p. Nothing was done."
            )
            raise UsageError(message, hint="leave set_parallelism() out of the program, and run it from a savepoint")
        return True

    def _settled(self) -> JobDetailsInfo:
        """Return the state of the job, once it is neither starting nor restarting."""
        details = self._client.get(f"/jobs/{self._job_id}", JobDetailsInfo)
        if details.state not in _BEFORE_RUNNING:
            return details
        deadline = time.monotonic() + self._timeout
        self._console.info(f"Job {self._job_id} is {details.state.value}; it can be rescaled once it is RUNNING.")
        with self._console.waiting("Waiting until it runs"):
            while details.state in _BEFORE_RUNNING and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
                details = self._client.get(f"/jobs/{self._job_id}", JobDetailsInfo)
        return details

    # -- step 1

    def _await_driver(self) -> None:
        """Let the job run until the driver for its successor is there: the time without a job is then shorter."""
        deadline, seen = time.monotonic() + _DRIVER_SECONDS, False
        try:
            with self._console.waiting("A driver for the new job gets ready"):
                for look in itertools.count():
                    drivers = self._client.get("/pystate/spare-drivers", SpareDriversInfo).spare_drivers
                    states = {one.state for one in drivers if one.parallelism == self._parallelism}
                    seen = seen or bool(states)
                    waits = _WARMING in states if seen else look < _LOOKS_FOR_DRIVER
                    if _READY in states or not waits or time.monotonic() > deadline:
                        return
                    time.sleep(_POLL_SECONDS)
        except KeyboardInterrupt:
            self._take_back()
            raise

    def _stopped(self, directory: str | None) -> str:
        body = StopWithSavepointRequestBody(target_directory=directory, trigger_id=self.operation_id)
        try:
            self._console.info(f"1/2 Stopping job {self._job_id} with a savepoint.")
            if self.operation_id is None:
                self._console.info(f"    If this command should die: {self._go_on}")
            request_id = self._client.post(f"/jobs/{self._job_id}/stop", body, TriggerResponse).request_id
            path = self.savepoint_of(f"/jobs/{self._job_id}/savepoints/{request_id}")
            with self._console.waiting("The job is ending"):
                state = self._jobs.await_end(self._job_id)
        except KeyboardInterrupt:
            self._console.info(f"Interrupted; a stop that was under way goes on. What is left to do, does: {self._go_on}")
            raise
        except PystateError:
            with contextlib.suppress(PystateError):
                state = self._jobs.state(self._job_id)
                if not state.is_terminal or self._last_savepoint() is None:
                    self._take_back()
                if not state.is_terminal:
                    # it may still end: another command may be stopping or cancelling it
                    nothing = "Nothing was changed by this command."
                    self._console.info(f"{nothing} Job {self._job_id} was {state.value} after that.")
            raise
        self._console.info(f"    Savepoint completed. Path: {path}")
        if state is not JobStatus.FINISHED:
            message = f"Job {self._job_id} ended as {state.value} after its savepoint."
            raise JobTerminatedError(message, hint=f"{self._go_on} goes on from the savepoint")
        return path

    def _resumed(self) -> tuple[str, str | None]:
        """Continue what another command has begun; return the savepoint, and the successor if one runs."""
        try:
            kept = self._client.get(self._kept, ResubmissionInfo)
        except PystateError as error:
            state = self._jobs.state(self._job_id)
            message = f"Job {self._job_id} has ended ({state.value}), and no rescale of it was under way."
            raise JobTerminatedError(message, hint="pystate run -s SAVEPOINT -p N starts it from a savepoint") from error
        savepoint = self._last_savepoint()
        if savepoint is None:
            message = f"Job {self._job_id} has ended, and not at a savepoint."
            raise JobTerminatedError(message, hint=f"pystate checkpoints {self._job_id}, and pystate run -s SNAPSHOT -p N")
        self._console.info(f"Going on with the rescale of job {self._job_id} from {savepoint}.")
        return savepoint, self._followed(kept.successor, kept.parallelism)

    def _last_savepoint(self) -> str | None:
        """Return the last savepoint of the job, which has ended; None if a later checkpoint was completed.

        What came after the savepoint would be done twice.
        """
        latest = self._client.get(f"/jobs/{self._job_id}/checkpoints", CheckpointingStatistics).latest
        savepoint, checkpoint = latest.savepoint, latest.completed
        if savepoint is None or (checkpoint is not None and checkpoint.id > savepoint.id):
            return None
        return savepoint.external_path or None

    def _successor_of_another(self) -> str | None:
        """Return the successor that another command started meanwhile, once it runs; None if there is none."""
        try:
            kept = self._client.get(self._kept, ResubmissionInfo)
        except PystateError:
            return None
        return self._followed(kept.successor, kept.parallelism)

    def _followed(self, successor: str | None, parallelism: int) -> str | None:
        """Return the successor that another command started, once it runs; None if none is alive.

        Raises:
            JobTerminatedError: It ran, and has ended.
            UsageError: Its wanted parallelism is different.
        """
        if successor is None:
            return None
        try:
            details = self._client.get(f"/jobs/{successor}", JobDetailsInfo)
        except JobNotFoundError:
            return None
        state = details.state
        if state.is_terminal:
            if has_run(details):  # what it has done since would be done twice
                message = f"Its successor {successor} ran, and has ended ({state.value})."
                raise JobTerminatedError(message, hint=f"pystate exceptions {successor}")
            return None
        if parallelism != self._parallelism:
            message = f"Its successor {successor} is there already ({state.value})."
            raise UsageError(message, hint=f"pystate rescale {successor} -p {self._parallelism}")
        self._console.info(f"Its successor {successor} is there already ({state.value}).")
        if self._jobs.await_running(successor) is not None:
            return None
        self._done(successor)
        return successor

    # -- step 2

    def _started(self, savepoint: str) -> str:
        place = "there" if self._snapshot is None else self._snapshot
        self._console.info(f"2/2 Starting it from {place} with parallelism {self._parallelism}.")
        successor, failure = self._resubmitted(self._snapshot or savepoint, self._parallelism)
        return self._after_start(savepoint, successor, failure)

    def _after_start(self, savepoint: str, successor: str | None, failure: PystateError | None) -> str:
        if failure is None and successor is not None:
            self._done(successor)
            return successor
        if isinstance(failure, CancelledError):
            self._forget()
            raise failure
        if successor is None:  # another command may have done it already
            of_another = self._successor_of_another()
            if of_another is not None:
                return of_another
        assert failure is not None  # noqa: S101 - one of the two
        self._console.error(failure)
        self._gone_back(savepoint)

    def _gone_back(self, savepoint: str) -> NoReturn:
        same = "the same savepoint" if self._snapshot is None else "the savepoint at which it was stopped"
        self._console.info(f"Starting it from {same} with the parallelism it had.")
        self._report_return(savepoint, *self._resubmitted(savepoint, None))

    def _report_return(self, savepoint: str, former: str | None, second: PystateError | None) -> NoReturn:
        if former is not None and isinstance(second, StillStartsError):  # nothing would be better than that
            self._forget()
            self._console.result(former)
            message = (
                f"The job was NOT {self._done_word}. It starts as {former} with the parallelism it had, and did not run yet "
                f"after {self._timeout:g} s ({second.state})."
            )
            raise JobExecutionError(message, hint=f"pystate watch {former}")
        if second is None and former is not None:
            self._forget()
            self._console.result(former)
            message = f"The job was NOT {self._done_word}. It runs as {former} with the parallelism it had."
            again = f"pystate rescale {former} -p {self._parallelism}" if self._snapshot is None else "the same again"
            raise JobExecutionError(message, hint=f"the reason is above; with it out of the way: {again}")
        assert second is not None  # noqa: S101
        if isinstance(second, CancelledError):
            self._forget()
            raise second
        self._console.error(second)
        message = f"NO JOB RUNS NOW. Nothing is lost: the savepoint is {savepoint}"
        raise JobExecutionError(message, hint=f"once the reason is out of the way: {self._go_on}")

    @property
    def _done_word(self) -> str:
        return "rescaled" if self._snapshot is None else "put back"

    def _resubmitted(self, savepoint: str, parallelism: int | None) -> tuple[str | None, PystateError | None]:
        """Resubmit the job; return its id, and why it doesn't run."""
        without = self._without_state and savepoint == self._snapshot
        chosen = self.begin_start(goes_back=parallelism is None)
        body = ResubmitRequestBody(
            savepoint_path=savepoint, parallelism=parallelism, allow_non_restored_state=without, job_id=chosen
        )
        try:
            resubmit = f"/pystate/jobs/{self._job_id}/resubmit"
            successor = self._client.post(resubmit, body, JobSubmitResponseBody).job_id
        except self.gone:
            raise
        except PystateError as error:
            return None, error
        self._console.info(f"    Job has been submitted with JobID {successor}")
        return successor, self._jobs.await_running(successor, patient=parallelism is None)

    def _done(self, successor: str) -> None:
        self.tell_plan(successor)
        self._forget()
        subtasks = [one.parallelism for one in self._client.get(f"/jobs/{successor}", JobDetailsInfo).vertices]
        self._console.info(f"Job {successor} runs; its operators have parallelism {_several(subtasks)}.")

    def _forget(self) -> None:
        self._client.delete(self._kept)

    def _take_back(self) -> None:
        """Release the kept data; a concurrent command may still need it."""
        self._client.delete(f"{self._kept}?keeper={self._keeper}")


def _several(numbers: list[int]) -> str:
    return ", ".join(map(str, sorted(set(numbers)))) or "none"
