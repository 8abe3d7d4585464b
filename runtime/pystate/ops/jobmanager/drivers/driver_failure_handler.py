"""What the end of a driver means for its job: another driver, and when, or the job's end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import DriverLostError, PystateError
from pystate.common.files.home import JobDirectory
from pystate.common.job_status import JobStatus
from pystate.runtime.job_folder.failure_history import JobFailure
from pystate.runtime.job_folder.job_record import JobVerdict
from pystate.runtime.job_folder.job_status_file import JobStatusFile
from pystate.runtime.job_folder.recovery_terms import RecoveryTerms
from pystate.runtime.job_folder.restart_strategies import restart_strategy
from pystate.runtime.job_folder.submission import SubmissionFile

logger = logging.getLogger(__name__)

MOST_EXITS = 3
"""How often in a row a driver may end itself before its job begins: what ends it then is in the program."""


@dataclass(frozen=True)
class DueRestart:
    """Another driver is to be started. What is written down before is the same however often it has to be tried.

    Attributes:
        delay_ms: How long it is to be waited.
        terms: The rules for restarts, behind the failure.
        status: The status that the dead driver left, with its failure.
    """

    delay_ms: int
    terms: RecoveryTerms
    status: JobStatusFile


class DriverFailureHandler:
    """Decides, and writes nothing.

    Args:
        job_id: The job.
        directory: Its files: the driver leaves there which restarts are allowed.
        clock: Milliseconds since 1970.
    """

    def __init__(self, job_id: str, directory: JobDirectory, clock: Callable[[], int]) -> None:
        self._job_id = job_id
        self._directory = directory
        self._clock = clock

    def after_death(
        self, status: JobStatusFile | None, message: str, *, by_itself: bool = False
    ) -> DueRestart | JobVerdict | None:
        """Return what follows the death of a driver; None where the job has ended, or fails of it.

        One that dies before it has come to the job goes by the restart strategy that was submitted: only the program knows
        of another one.

        Args:
            status: What the driver has left.
            message: How it ended.
            by_itself: Whether it has ended itself, as by `os._exit()`; else it was killed.
        """
        if status is not None and status.state.is_terminal:
            return None
        now = self._clock()
        try:
            terms = RecoveryTerms.read(self._directory)
            if terms is None:
                submission = SubmissionFile.read(self._directory)
                terms = RecoveryTerms(restart_strategy(Configuration(submission.configuration)))
                status = status or JobStatusFile.begun(submission.initial_name, now)
        except PystateError as error:
            logger.error("job %s can't be restarted: %s", self._job_id, error)
            return None
        if status is None or (by_itself and self._always_ends_itself(status, message)):
            return None
        if terms.end_state is not None:
            return self._behind_savepoint(terms.end_state)
        decision = terms.strategy.after_failure(now)
        if decision.delay_ms is None:
            return None
        if not status.has_failed:
            failure = self._failure(message)
            status = replace(status.with_failure(failure, now), failure=failure)
        return DueRestart(decision.delay_ms, RecoveryTerms(decision.strategy), status)

    def began_nothing(self, status: JobStatusFile | None) -> bool:
        """Return whether a driver has died before it had come to the job: another one begins as the first."""
        try:
            came_to_it = RecoveryTerms.read(self._directory) is not None
        except PystateError:
            return False
        return not came_to_it and (status is None or (status.state is JobStatus.INITIALIZING and not status.has_failed))

    def after_takeover(self) -> JobVerdict | None:
        """Return how a job has ended whose driver was on another machine; None where it goes on. That is no failure of it.

        Raises:
            PystateError: Nobody can tell.
        """
        terms = RecoveryTerms.read(self._directory)
        return None if terms is None or terms.end_state is None else self._behind_savepoint(terms.end_state)

    def without_last_word(self, status: JobStatusFile | None, message: str, *, cancelled: bool) -> JobVerdict:
        """Return how a job has ended that goes on with no other driver, and whose last one left no word of its end.

        Args:
            status: What that driver has left.
            message: How it ended.
            cancelled: Whether somebody had asked for the end.
        """
        if cancelled:
            return JobVerdict(JobStatus.CANCELED, None, self._clock())
        failure = status.failure if status is not None and status.has_failed else self._failure(message)
        return JobVerdict(JobStatus.FAILED, failure, self._clock())

    def _always_ends_itself(self, status: JobStatusFile, message: str) -> bool:
        """Return whether drivers have ended in the same way again and again, and none has come to the job's plan."""
        before = [failure.message for failure in status.failures[: MOST_EXITS - 1]]
        return not (status.vertices or status.has_failed) and before == [message] * (MOST_EXITS - 1)

    def _behind_savepoint(self, end_state: JobStatus) -> JobVerdict:
        """Return the end of a job that was stopped or cancelled with a savepoint, which is complete."""
        return JobVerdict(end_state, None, self._clock())

    def _failure(self, message: str) -> JobFailure:
        error = DriverLostError(message, where=f"job {self._job_id}", hint=f"see {self._directory.log}")
        return JobFailure.of(error, message)
