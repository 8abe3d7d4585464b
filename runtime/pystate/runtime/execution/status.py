"""The job's status in the driver, in memory and as a file."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pystate.common.configuration.groups.execution_options import ExecutionEngine
from pystate.common.files.home import JobDirectory
from pystate.common.job_status import JobStatus
from pystate.common.stream_guarantee import StreamGuarantee
from pystate.common.time import current_time_ms
from pystate.runtime.job_folder.failure_history import JobFailure
from pystate.runtime.job_folder.job_status_file import JobStatusFile, JobVertexStatus
from pystate.runtime.job_folder.late_writes import LateWrites
from pystate.runtime.plan.task import TaskSpec

_WITHOUT_RETURN = (JobStatus.CANCELLING, JobStatus.CANCELED, JobStatus.FINISHED, JobStatus.FAILED)
"""States in which late progress reports are ignored."""


class JobStatusStore:
    """The status of one job; every change is written to `status.json`, and is retried if the disk refuses it.

    A driver that takes over from one that died continues from the content of the file: the job manager has set RESTARTING
    and the number of the next attempt.

    Args:
        directory: The job's files.
        name: The job's name.

    Attributes:
        writes: Writes this and other files of the job's driver.
    """

    def __init__(self, directory: JobDirectory, name: str) -> None:
        self.writes = LateWrites()
        self._path = directory.status
        self._reserve = directory.status_reserve
        self._lock = threading.Lock()
        earlier = JobStatusFile.read_from(self._path)
        self._content = JobStatusFile.begun(name, current_time_ms()) if earlier is None else earlier
        self._write()

    @property
    def state(self) -> JobStatus:
        """The state of the job."""
        return self._content.state

    @property
    def attempt(self) -> int:
        """The number of the execution attempt that runs, or is to run next."""
        return self._content.attempt

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of what `status.json` holds."""
        return self._content.to_plain()

    def update(self, state: JobStatus, *, failure: dict[str, Any] | None = None, attempt: int | None = None) -> bool:
        """Move to `state`; return False if the job has ended already, or is being cancelled and will not run any more.

        Args:
            state: The new state.
            failure: The failure of the previous attempt, see `failure_dict`; it is added to the history.
            attempt: The number of the next attempt.

        Raises:
            IllegalJobStatusMoveError: The transition is illegal.
        """
        with self._lock:
            content = self._content
            if content.state in _WITHOUT_RETURN and not content.may_move_to(state):
                return False
            now = current_time_ms()
            if failure is not None:
                said = JobFailure.from_plain(failure)
                content = replace(content.with_failure(said, now), failure=said)
            content = content.moved_to(state, now)
            self._keep(content if attempt is None else replace(content, attempt=attempt))
            return True

    def report_failure(self, failure: dict[str, Any]) -> None:
        """Report the failure that ends this driver, when another driver continues the job."""
        with self._lock:
            if not self.state.is_terminal:
                said = JobFailure.from_plain(failure)
                self._keep(replace(self._content.with_failure(said, current_time_ms()), failure=said))

    def report_program_failure(self, failure: dict[str, Any]) -> None:
        """Record in the history that the program failed after its job has FINISHED; the job's state stays."""
        with self._lock:
            if self.state is JobStatus.FINISHED:
                self._keep(self._content.with_failure(JobFailure.from_plain(failure), current_time_ms()))

    def describe_plan(
        self,
        name: str,
        tasks: list[TaskSpec],
        nodes: list[dict[str, Any]],
        warnings: list[str],
        engine: ExecutionEngine,
        checkpoint_config: dict[str, Any],
        guarantees: Sequence[StreamGuarantee] = (),
    ) -> None:
        """Add what is known once the job has been planned.

        Args:
            name: The job's name.
            tasks: Its vertices.
            nodes: The nodes of its plan, see `plan_nodes`.
            warnings: Sentences about what users should change.
            engine: The engine that it runs on.
            checkpoint_config: The options of checkpointing in force.
            guarantees: The delivery guarantee of each source and sink.
        """
        with self._lock:
            content = replace(
                self._content,
                name=name,
                parallelism=max(task.parallelism for task in tasks),
                max_parallelism=max(task.max_parallelism for task in tasks),
                vertices=[
                    JobVertexStatus(task.vertex_id, task.uid, task.name, task.parallelism, self.state) for task in tasks
                ],
                plan=nodes,
                plan_warnings=list(warnings),
                engine=engine,
                checkpoint_config=checkpoint_config,
                guarantees=list(guarantees),
            )
            self._keep(content)

    def runs_in(self, application_id: str) -> None:
        """Record the Spark application that runs the job now."""
        with self._lock:
            self._keep(replace(self._content, application_id=application_id))

    def waits(self, sentence: str | None) -> None:
        """Record what keeps the job from running, until it moves on; None if nothing does."""
        with self._lock:
            if not self.state.is_terminal:
                self._keep(replace(self._content, waits_for=sentence))

    def wait_until_written(self) -> None:
        """Wait until the job's end is written, however long the disk is full: else the job would be restarted."""
        if self.state.is_terminal:
            self.writes.wait_for(self._path)

    def _keep(self, content: JobStatusFile) -> None:
        self._content = content
        self._write()

    def _write(self) -> None:
        # the reserved space is for the final status
        reserve = self._reserve if self.state.is_terminal else None
        self.writes.write(self._path, self._content.to_file(), reserve=reserve)


def failure_dict(error: BaseException, stack_trace: str) -> dict[str, Any]:
    """Return a failure as `status.json` holds it."""
    return JobFailure.of(error, stack_trace).to_plain()
