"""Where the job stands, for everyone who asks: in memory, and on disk for when the driver is gone."""

from __future__ import annotations

import threading
from typing import Any

from pystate.common.errors import PystateError
from pystate.common.home import JobDirectory, read_json
from pystate.common.job_status import JobStatus
from pystate.common.time import current_time_ms
from pystate.job_folder.failure_history import with_failure
from pystate.job_folder.late_writes import LateWrites
from pystate.plan.task import TaskSpec


class JobStatusStore:
    """The status of one job; every change is written to `status.json`, and holds where the disk refuses it for a while.

    A driver that takes over from one that died goes on from what stands there: the job manager has made it RESTARTING, with
    the number of the next attempt.

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
        self._state = JobStatus.INITIALIZING
        started = current_time_ms()
        self._data: dict[str, Any] = {
            "state": self._state.value,
            "name": name,
            "parallelism": -1,
            "max_parallelism": -1,
            "start_time": started,
            "end_time": -1,
            "timestamps": {self._state.value: started},
            "attempt": 0,
            "failure": None,
            "failures": [],
            "failure_count": 0,
            "vertices": [],
            "plan": [],
            "plan_warnings": [],
            "checkpoint_config": None,
            "application_id": None,
            "waits_for": None,
        }
        earlier = read_json(self._path)
        if earlier is not None:
            self._state = JobStatus(earlier["state"])
            self._data.update(earlier)
        self._write()

    @property
    def state(self) -> JobStatus:
        """Where the job stands."""
        return self._state

    @property
    def attempt(self) -> int:
        """The number of the execution attempt that runs, or is to run next."""
        return int(self._data["attempt"])

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of what `status.json` holds."""
        with self._lock:
            return dict(self._data)

    def update(self, state: JobStatus, **changes: Any) -> bool:
        """Move to `state` and take over `changes`; return False where the job has ended already.

        A `failure` among the changes is one of the attempt that has run so far, and goes into the history.
        """
        with self._lock:
            if self._state.is_terminal:
                return False
            now = current_time_ms()
            self._state = state
            self._data["waits_for"] = None
            if changes.get("failure") is not None:
                self._data.update(with_failure(self._data, changes["failure"], now))
            self._data.update(changes)
            self._data["state"] = state.value
            self._data["timestamps"] = {**self._data["timestamps"], state.value: now}
            if state.is_terminal:
                self._data["end_time"] = now
            self._data["vertices"] = [{**vertex, "status": state.value} for vertex in self._data["vertices"]]
            self._write()
            return True

    def report_failure(self, failure: dict[str, Any]) -> None:
        """Leave word of what this driver ends of, where another one goes on with the job."""
        with self._lock:
            if not self._state.is_terminal:
                self._data.update(with_failure(self._data, failure, current_time_ms()), failure=failure)
                self._write()

    def report_program_failure(self, failure: dict[str, Any]) -> None:
        """Keep what the program failed of behind its job that has FINISHED: the job's fate stays, its history knows."""
        with self._lock:
            if self._state is JobStatus.FINISHED:
                self._data.update(with_failure(self._data, failure, current_time_ms()))
                self._write()

    def describe_plan(
        self,
        name: str,
        tasks: list[TaskSpec],
        nodes: list[dict[str, Any]],
        warnings: list[str],
        checkpoint_config: dict[str, Any],
    ) -> None:
        """Take over what is known once the job has been planned.

        Args:
            name: The job's name.
            tasks: Its vertices.
            nodes: The nodes of its plan, see `plan_nodes`.
            warnings: What people should change.
            checkpoint_config: The options of checkpointing in force.
        """
        vertices = [
            {
                "id": task.vertex_id,
                "uid": task.uid,
                "name": task.name,
                "parallelism": task.parallelism,
                "status": self._state.value,
            }
            for task in tasks
        ]
        with self._lock:
            self._data.update(
                name=name,
                parallelism=max(task.parallelism for task in tasks),
                max_parallelism=max(task.max_parallelism for task in tasks),
                vertices=vertices,
                plan=nodes,
                plan_warnings=list(warnings),
                checkpoint_config=checkpoint_config,
            )
            self._write()

    def runs_in(self, application_id: str) -> None:
        """Take note of the Spark application that runs the job now."""
        with self._lock:
            self._data["application_id"] = application_id
            self._write()

    def waits(self, sentence: str) -> None:
        """Take note of what keeps the job from running, until it moves on."""
        with self._lock:
            if not self._state.is_terminal:
                self._data["waits_for"] = sentence
                self._write()

    def wait_until_written(self) -> None:
        """Wait until the end of the job stands in its file, however long its disk is full: else it would be restarted."""
        if self._state.is_terminal:
            self.writes.wait_for(self._path)

    def _write(self) -> None:
        # the room is for the last word
        self.writes.write(self._path, dict(self._data), reserve=self._reserve if self._state.is_terminal else None)


def failure_dict(error: BaseException, stack_trace: str) -> dict[str, Any]:
    """Return a failure as `status.json` holds it."""
    if isinstance(error, PystateError):
        return {**error.to_dict(), "stack_trace": stack_trace}
    plain = {"class": type(error).__name__, "message": str(error) or type(error).__name__, "where": None, "hint": None}
    return {**plain, "stack_trace": stack_trace}
