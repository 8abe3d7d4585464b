"""Decides whether and when a job restarts after an attempt has failed."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.state_settings import is_checkpointing_enabled
from pystate.common.errors import PystateError, RecordError, StateError, UserFunctionError
from pystate.common.files.home import JobDirectory
from pystate.common.job_status import JobStatus
from pystate.common.time import current_time_ms
from pystate.common.user_code.user_frames import user_frame
from pystate.runtime.execution.late_start import is_late_start
from pystate.runtime.job_folder.recovery_terms import RecoveryTerms
from pystate.runtime.job_folder.restart_strategies import is_fatal, restart_strategy
from pystate.runtime.plan.task import task_in

MOST_FAILURES = 3
"""How often a job that has never completed a checkpoint may fail at one place."""


@dataclass(frozen=True)
class FailureSite:
    """The place where user code failed.

    Attributes:
        kind: The exception's type.
        frame: `File "...", line N, in f`; the task, if no line of the author's is involved.
    """

    kind: str
    frame: str

    @staticmethod
    def of(error: PystateError, stack_trace: str) -> FailureSite | None:
        """Return the site of a failure; None if no line of the author's is in its stack trace."""
        frame = user_frame(stack_trace)
        if not frame:
            return None
        kind = error.message.partition(":")[0] if isinstance(error, UserFunctionError) else type(error).__name__
        return FailureSite(kind, frame[0])

    def __str__(self) -> str:
        return f"{self.kind} at {self.frame}"


class RepeatedFailures:
    """Counts failures by site, or by another key."""

    def __init__(self) -> None:
        self._counts: Counter[Hashable] = Counter()

    def count(self, site: Hashable) -> bool:
        """Count a failure; return whether there have been too many at its site."""
        self._counts[site] += 1
        return self._counts[site] >= MOST_FAILURES

    def forget(self) -> None:
        """Reset: the job has progressed beyond its start."""
        self._counts.clear()


OF_USER_CODE = (UserFunctionError, StateError, RecordError)
"""What user code raises, or what is raised because of what it asks for."""
_COMES_BACK = "this comes back at every start"


class ExecutionFailureHandler:
    """Counts the failures of one job; the counts are kept in the job's files, for the next driver.

    Args:
        configuration: The options in force.
        directory: The job's files.
        saved_batch: Returns the number of the last batch whose rows a checkpoint of the job holds; None if there is none.
        alone: Whether no job manager supervises starts. Then a start that timed out on a busy machine is retried once,
            whatever the strategy.
    """

    def __init__(
        self,
        configuration: Configuration,
        directory: JobDirectory,
        saved_batch: Callable[[], int | None] = lambda: None,
        *,
        alone: bool = False,
    ) -> None:
        self._directory = directory
        self._strategy = restart_strategy(configuration)
        self._was_running = False
        self._failed_at_start: tuple[str, str] | None = None
        self._saved_batch = saved_batch
        self._checkpointing = is_checkpointing_enabled(configuration)
        self._repeated = RepeatedFailures()
        self._wrong_data = RepeatedFailures()
        self._why: str | None = None
        self._has_begun = False
        self._start_left = alone

    def begin(self, *, taken_over: bool) -> None:
        """Start counting; if another driver has run the job before, continue with its counts.

        Args:
            taken_over: Whether another driver has run the job. If the strategy has changed since, counting starts over.

        Raises:
            PystateError: The file of the other driver is damaged.
        """
        terms = RecoveryTerms.read(self._directory) if taken_over else None
        if terms is not None and terms.strategy.fresh() == self._strategy:
            self._strategy = terms.strategy
        RecoveryTerms(self._strategy).write(self._directory)

    def attempt_created(self) -> None:
        """Record that an attempt begins."""
        self._was_running = False

    def attempt_runs(self) -> None:
        """Record that all state is restored, and user code was opened successfully."""
        self._was_running = True

    def attempt_over(self, *, has_begun: bool) -> None:
        """Record the end of an attempt that ran, and whether it had made progress."""
        self._has_begun = has_begun

    def delay_ms(self, error: PystateError, stack_trace: str = "") -> int | None:
        """Count a failure; return how long to wait for the next attempt, None if the job has failed for good."""
        self._why = self._hopeless(error, stack_trace)
        if self._why is not None:
            return None
        if self._starts_once_more(error, stack_trace):
            return 0
        decision = self._strategy.after_failure(current_time_ms())
        self._strategy = decision.strategy
        try:
            RecoveryTerms(self._strategy).write(self._directory)
        except OSError as error:  # a full disk must not fail the job for good
            print(f"WARNING: another driver would not count this failure: {error}", file=sys.stderr, flush=True)
        return decision.delay_ms

    @property
    def restarts_at_all(self) -> bool:
        """Whether the restart strategy may allow another attempt."""
        return self._strategy.restarts_at_all

    def _starts_once_more(self, error: PystateError, stack_trace: str) -> bool:
        """Whether this is the one start that may time out without counting as a failure of the job."""
        has_begun = self._was_running and self._has_begun
        again, self._start_left = self._start_left and not has_begun and is_late_start(error, stack_trace), False
        return again

    def job_ends(self, state: JobStatus) -> None:
        """Record how the job ends, so that it isn't restarted, even if this process dies now.

        Raises:
            OSError: It can't be written.
        """
        RecoveryTerms(self._strategy, end_state=state).write(self._directory)

    @property
    def has_given_up(self) -> bool:
        """Whether the last failure was final for another reason than its kind, although more restarts may be allowed."""
        return self._why is not None and self._why != _COMES_BACK

    def describe(self) -> str:
        """Return the restart strategy as text, with the restarts used; or why the last failure was final."""
        return self._why or self._strategy.describe()

    def _hopeless(self, error: PystateError, stack_trace: str) -> str | None:
        """Return why a failure will recur at every start; None if it may not."""
        if is_fatal(error):
            return _COMES_BACK
        if self._fails_at_start_again(error):
            return "the job failed twice in the same way before it ran"
        if self._meets_wrong_data_again(error):
            return f"the job failed {MOST_FAILURES} times of the same data, and no checkpoint came past it"
        return self._fails_at_one_place(error, stack_trace)

    def _fails_at_start_again(self, error: PystateError) -> bool:
        """Whether user code failed twice in a row in the same way before the job ran: then it will fail again."""
        failed_before, self._failed_at_start = self._failed_at_start, None
        if isinstance(error, OF_USER_CODE) and not self._was_running:
            # which of an operator's subtasks is the first to fail is chance
            self._failed_at_start = (error.message, task_in(error.where or ""))
        return failed_before is not None and failed_before == self._failed_at_start

    def _meets_wrong_data_again(self, error: PystateError) -> bool:
        """Whether an element or value of the wrong type recurs: sources replay the same rows at each restart."""
        if not isinstance(error, (RecordError, StateError)):
            return False
        site = FailureSite(f"{type(error).__name__}: {error.message}", task_in(error.where or ""))
        return self._wrong_data.count((site, self._saved_batch()))

    def _fails_at_one_place(self, error: PystateError, stack_trace: str) -> str | None:
        """Return the place at which a job that has never completed a checkpoint has failed too often."""
        if self._saved_batch() is not None or (self._was_running and not self._checkpointing):
            self._repeated.forget()  # without checkpoints no other sign is there that a job has come anywhere
            return None
        site = FailureSite.of(error, stack_trace)
        if site is None or not self._repeated.count(site):
            return None
        never = "and it has never completed a checkpoint" if self._checkpointing else "before it ran"
        return f"the job failed {MOST_FAILURES} times with {site}, {never}"
