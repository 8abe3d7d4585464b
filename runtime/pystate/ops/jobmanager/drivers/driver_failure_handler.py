"""Decides what follows the end of a driver: another driver, and when, or the end of the job."""

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
    """Another driver has to be started. The record of it is the same for each try.

    Attributes:
        delay_ms: The delay before the start.
        terms: The restart strategy's state after the failure.
        status: The last status of the dead driver, with its failure.
    """

    delay_ms: int
    terms: RecoveryTerms
    status: JobStatusFile


class DriverFailureHandler:
    """Makes the decisions, without writing anything.

    Args:
        job_id: The job.
        directory: The job's folder, where the driver leaves its restart strategy.
        clock: Returns milliseconds since 1970.
    """

    def __init__(self, job_id: str, directory: JobDirectory, clock: Callable[[], int]) -> None:
        self._job_id = job_id
        self._directory = directory
        self._clock = clock

    def after_death(
        self, status: JobStatusFile | None, message: str, *, by_itself: bool = False
    ) -> DueRestart | JobVerdict | None:
        """Return the restart after the death of a driver; None if the job has ended, or fails because of it.

        For a driver that dies before it has begun the job, the submitted restart strategy applies: only the program can set
            another one.

        Args:
            status: The driver's last status.
            message: How it ended.
            by_itself: Whether it ended on its own, as by `os._exit()`; else it was killed.
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
            return self._after_savepoint(terms.end_state)
        decision = terms.strategy.after_failure(now)
        if decision.delay_ms is None:
            return None
        if not status.has_failed:
            failure = self._failure(message)
            status = replace(status.with_failure(failure, now), failure=failure)
        return DueRestart(decision.delay_ms, RecoveryTerms(decision.strategy), status)

    def began_nothing(self, status: JobStatusFile | None) -> bool:
        """Return whether a driver died before it had begun the job: another one starts like the first."""
        try:
            came_to_it = RecoveryTerms.read(self._directory) is not None
        except PystateError:
            return False
        return not came_to_it and (status is None or (status.state is JobStatus.INITIALIZING and not status.has_failed))

    def after_takeover(self) -> JobVerdict | None:
        """Return how a job ended whose driver was on another machine; None if it continues. The takeover isn't a failure.

        Raises:
            PystateError: That can't be determined.
        """
        terms = RecoveryTerms.read(self._directory)
        return None if terms is None or terms.end_state is None else self._after_savepoint(terms.end_state)

    def without_last_word(self, status: JobStatusFile | None, message: str, *, cancelled: bool) -> JobVerdict:
        """Return how a job ended that gets no other driver, and whose last driver left no final status.

        Args:
            status: The last status of that driver.
            message: How it ended.
            cancelled: Whether a cancel was requested.
        """
        if cancelled:
            return JobVerdict(JobStatus.CANCELED, None, self._clock())
        failure = status.failure if status is not None and status.has_failed else self._failure(message)
        return JobVerdict(JobStatus.FAILED, failure, self._clock())

    def _always_ends_itself(self, status: JobStatusFile, message: str) -> bool:
        """Return whether several drivers ended in the same way, and none got as far as the job's plan."""
        before = [failure.message for failure in status.failures[: MOST_EXITS - 1]]
        return not (status.vertices or status.has_failed) and before == [message] * (MOST_EXITS - 1)

    def _after_savepoint(self, end_state: JobStatus) -> JobVerdict:
        """Return the end of a job that was stopped or cancelled with a savepoint that is complete."""
        return JobVerdict(end_state, None, self._clock())

    def _failure(self, message: str) -> JobFailure:
        error = DriverLostError(message, where=f"job {self._job_id}", hint=f"see {self._directory.log}")
        return JobFailure.of(error, message)
