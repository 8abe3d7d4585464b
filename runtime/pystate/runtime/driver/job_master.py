"""Runs one job from start to end and answers requests: plan, restore, attempts, savepoints, stop, cancel."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pystate
from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import StateRecoveryOptions
from pystate.common.configuration.groups.execution_options import CoreOptions, ExecutionOptions
from pystate.common.configuration.state_settings import StateSettings
from pystate.common.errors import DriverReplacedError, JobCancelledError, PystateError
from pystate.common.files.home import JobDirectory, PystateHome
from pystate.common.job_status import JobStatus
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.metrics.store import DriverMetrics
from pystate.core.queryable.proxy.kv_state_client_proxy import KvStateClientProxy, not_queryable, start_proxy
from pystate.core.snapshot.metadata import SavepointFormatType
from pystate.core.snapshot.storage.local_copies import remove_local_copies
from pystate.runtime.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from pystate.runtime.checkpoint.checkpoint_recovery import DurableCheckpointIds
from pystate.runtime.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.runtime.checkpoint.settings.checkpoint_notices import checkpoint_notices
from pystate.runtime.checkpoint.settings.rest_checkpoint_config import checkpoint_config
from pystate.runtime.checkpoint.snapshot_metadata import JobDescription
from pystate.runtime.driver.job_metrics import JobMetrics
from pystate.runtime.driver.older_checkpoints import OlderCheckpoints
from pystate.runtime.driver.program.code_fingerprint import code_fingerprint
from pystate.runtime.driver.program.job_planning import plan_job
from pystate.runtime.driver.scheduler import Scheduler
from pystate.runtime.driver.stop_with_savepoint import StopWithSavepoint
from pystate.runtime.execution.job_context import JobContext
from pystate.runtime.execution.job_engine import JobEngine
from pystate.runtime.execution.late_start import is_late_start
from pystate.runtime.execution.outside_failures import as_failure, may_pass
from pystate.runtime.execution.restore import RestorePlan, starting_snapshot
from pystate.runtime.execution.slots.resource_manager import ResourceManager
from pystate.runtime.execution.status import JobStatusStore, failure_dict
from pystate.runtime.job_folder.driver_term import DriverTerm
from pystate.runtime.job_folder.restart_strategies import restart_warnings
from pystate.runtime.plan.job_plan import JobPlan
from pystate.runtime.plan.plan_nodes import plan_nodes
from pystate.runtime.slot.snapshots.local_backup import local_roots


class JobMaster:
    """Runs one job.

    Args:
        job_id: 32 hex digits.
        name: The displayed name.
        graph: The program.
        configuration: The options in force.
        resources: Where slots run.
        engine: The factory of the job's engine.
        directory: The job's files.
        status: The job's status; an attempt number above 0 means that another driver has run the job before.
        home: The installation, whose token allows reading the job's state.
        job_runs: Whether a job of this installation has not ended; None for one that it doesn't know.
        supervised: Whether a job manager starts another driver if this one gives up.
        say: Is called with sentences for users: warnings, restarts.

    Attributes:
        coordinator: The job's checkpoints.
        engine: Its engine.
    """

    def __init__(
        self,
        job_id: str,
        name: str,
        graph: StreamGraph,
        configuration: Configuration,
        resources: ResourceManager,
        engine: Callable[[JobContext], JobEngine],
        directory: JobDirectory,
        status: JobStatusStore,
        *,
        home: PystateHome,
        job_runs: Callable[[str], bool | None],
        supervised: bool = False,
        say: Callable[[str], None] = lambda line: print(line, file=sys.stderr),
    ) -> None:
        term = DriverTerm.of_this_process(directory.term)
        description = JobDescription(
            job_id=job_id,
            name=name,
            parallelism=configuration.get(CoreOptions.DEFAULT_PARALLELISM),
            configuration=configuration.to_dict(),
            pystate_version=pystate.__version__,
            spark_version=resources.version,
            code_fingerprint=code_fingerprint(),
        )
        self.coordinator = CheckpointCoordinator(
            description,
            configuration,
            directory.checkpoints,
            ids=DurableCheckpointIds(directory.checkpoint_ids, directory.checkpoint_ids_reserve),
            check_term=term.check,
        )
        job = JobContext(job_id, name, configuration, directory, status, term, self.coordinator, say)
        self.engine = engine(job)
        self._job = job
        self._graph = graph
        self._resources = resources
        self._job_runs, self._supervised = job_runs, supervised
        self._status = status
        self._metrics = JobMetrics(self.engine.metrics)
        self._scheduler = Scheduler(job, self.engine, resources, self._metrics, supervised=supervised)
        self._savepoints = StopWithSavepoint(self.coordinator, self._scheduler)
        self._home = home
        self._proxy: KvStateClientProxy | None = None

    def run(self) -> int:
        """Run the job to its end; return its run time in ms.

        Raises:
            JobCancelledError: It was cancelled.
            SparkLostError: Spark is gone, and the job is to continue in another driver.
            DriverReplacedError: It already continues in another driver.
            PystateError: It failed.
        """
        try:
            return self._run()
        finally:
            if self._proxy is not None:
                self._proxy.close()

    def _run(self) -> int:
        self._job.term.begin()
        self._status.runs_in(self._resources.application_id)
        taken_over = self._status.attempt > 0
        self._resources.end_earlier(self._job.say)
        self._scheduler.begin(taken_over=taken_over)
        again = False
        while True:
            try:
                plan, restore = self._prepare(taken_over=taken_over)
                break
            except DriverReplacedError:
                raise
            except Exception as error:  # of ours, or of py4j or PySpark, which may raise any class at Spark's end
                failure, ours = as_failure(error), isinstance(error, PystateError)
                if self._scheduler.is_cancelled:
                    return self._finish(JobStatus.CANCELED)
                self._scheduler.check_resources(failure)
                if not (taken_over or again or self._supervised) and is_late_start(failure, traceback.format_exc()):
                    again = True
                    self._job.say(f"The job could not be prepared, which is tried once more: {failure}")
                    continue
                if not (may_pass(error, begun=taken_over) or (taken_over and ours)):
                    if ours:
                        self._status.update(JobStatus.FAILED, failure=failure_dict(error, traceback.format_exc()))
                    raise
                self._scheduler.wait_for_restart(failure, traceback.format_exc())
                if self._scheduler.is_cancelled:
                    return self._finish(JobStatus.CANCELED)
        try:
            return self._finish(self._scheduler.run(plan, restore))
        finally:
            self.coordinator.close(self._status.state)
            self.engine.close(self._status.state)
            if self._status.state.is_terminal:
                remove_local_copies(local_roots(self._job.configuration), self._job.job_id)

    def query(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer a request for queryable state, see `KvStateClientProxy.serve`."""
        return not_queryable() if self._proxy is None else self._proxy.ask(request).result()

    def cancel(self) -> None:
        """Cancel the job; returns at once."""
        self._scheduler.cancel()

    def savepoint(
        self,
        target_directory: str | None,
        *,
        stop: bool,
        cancel: bool,
        message: str | None = None,
        format: SavepointFormatType = SavepointFormatType.CANONICAL,
        drain: bool = False,
    ) -> Future[CompletedCheckpoint]:
        """Take a savepoint; with `stop` or `cancel` the job ends after it, and continues if it fails.

        Args:
            target_directory: Where; None for the configured directory.
            stop: The job ends as FINISHED.
            cancel: The job ends as CANCELED.
            message: The user's message in the savepoint.
            format: How keyed state is written.
            drain: With `stop` or `cancel`: whether event time is advanced to its end before it.
        """
        end_state = JobStatus.FINISHED if stop else JobStatus.CANCELED if cancel else None
        return self._savepoints.trigger(target_directory, end_state, message=message, format=format, drain=drain)

    def restore_progress(self) -> dict[str, Any] | None:
        """Return the progress of the restore of an attempt, see `Scheduler.restore_progress`."""
        return self._scheduler.restore_progress()

    @property
    def slot_pids(self) -> dict[int, int]:
        """The process of each slot of the attempt that runs, by index; none between two attempts."""
        return self._scheduler.slot_pids

    def metrics(self) -> DriverMetrics:
        """Return the metrics of the job."""
        return self._metrics.collect(self.coordinator.tracker)

    def io_metrics(self, uid: str) -> dict[str, int]:
        """Return bytes and times of a task's subtasks in all, see `JobMetrics.io`."""
        return self._metrics.io(uid)

    def backlog(self, of_spark: int | None) -> int | None:
        """Return how many records nobody has read yet, see `JobMetrics.backlog`."""
        return self._metrics.backlog(of_spark)

    def event_time(self) -> dict[str, Any]:
        """Return the event time of the task with the lowest watermark, see `JobMetrics.event_time`."""
        return self._metrics.event_time()

    def _prepare(self, *, taken_over: bool) -> tuple[JobPlan, RestorePlan]:
        job, configuration = self._job, self._job.configuration
        self._proxy = self._proxy or start_proxy(job, self._home)
        # a copy, as planning puts sources into slots: a try after this one gives steps the same automatic uids
        plan = plan_job(
            self._graph.copy(), job, self.engine, self._resources, restart=taken_over, supervised=self._supervised
        )
        if taken_over:
            job.term.check()  # what this deletes may be a checkpoint that another driver writes
            self.coordinator.recover(job.say, OlderCheckpoints.of(plan, configuration).check)
        snapshot = self.coordinator.latest_snapshot()
        mode = configuration.get(StateRecoveryOptions.RESTORE_MODE)
        path = configuration.get(StateRecoveryOptions.SAVEPOINT_PATH)
        starting = starting_snapshot(path, mode, self.coordinator.has_claimed, needed=snapshot is None, begun=taken_over)
        snapshot = snapshot or starting
        restore = RestorePlan(
            plan,
            allow_non_restored=configuration.get(StateRecoveryOptions.SAVEPOINT_IGNORE_UNCLAIMED_STATE),
            mode=mode,
        )
        if snapshot is not None:
            restore.adopt_max_parallelism(snapshot)
        if starting is not None:
            self._scheduler.starts_after(starting)
            for notice in restore.notices(starting):
                plan.warnings.append(notice)
                job.say(f"WARNING: {notice}")
        restore.check_parallelism()
        self._describe(plan)
        self.coordinator.start(plan.tasks, starting, mode, self._job_runs)
        return plan, restore

    def _describe(self, plan: JobPlan) -> None:
        configuration = self._job.configuration
        warnings = [
            *self._graph.notices,
            *configuration.notices(),
            *plan.warnings,
            *StateSettings.of(configuration).notices,
            *checkpoint_notices(configuration),
            *restart_warnings(configuration),
        ]
        engine, checkpointing = configuration.get(ExecutionOptions.ENGINE), checkpoint_config(configuration).to_plain()
        nodes = plan_nodes(plan)
        self._status.describe_plan(self._job.name, plan.tasks, nodes, warnings, engine, checkpointing, plan.guarantees)
        self._metrics.describe(plan)

    def _finish(self, state: JobStatus) -> int:
        self._scheduler.terminate(state)
        final = self._status.snapshot()
        if state is JobStatus.CANCELED:
            message = "The job was cancelled."
            raise JobCancelledError(message)
        return int(final["end_time"]) - int(final["start_time"])
