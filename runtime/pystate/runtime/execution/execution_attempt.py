"""One execution attempt: deploys slots, starts engine and coordinator. A failure ends the attempt, not the job."""

from __future__ import annotations

import shutil
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.errors import (
    CommitError,
    JobExecutionError,
    PystateError,
    SubtaskHangsError,
    UserFunctionError,
    error_from_dict,
)
from pystate.common.files.filed_secret import FiledSecret
from pystate.common.processes.internal_certificate import connection_secret
from pystate.core.metrics.slot_metrics import SlotMetrics
from pystate.runtime.checkpoint.checkpoint_request import CheckpointRequest
from pystate.runtime.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.runtime.execution.engine import Engine
from pystate.runtime.execution.job_context import JobContext
from pystate.runtime.execution.outside_failures import as_failure
from pystate.runtime.execution.restored_job import RestoredJob
from pystate.runtime.execution.slots.resource_manager import ResourceManager, ResourceWatch
from pystate.runtime.execution.slots.slot_calls import CHECKPOINT_CALLS, answer_slot_call
from pystate.runtime.execution.slots.slot_pool import SlotPool
from pystate.runtime.execution.starvation_watch import StarvationWatch
from pystate.runtime.plan.end_of_input import commits, writes_to_sinks
from pystate.runtime.plan.job_plan import JobPlan
from pystate.runtime.plan.task import JobEnvironment
from pystate.runtime.slot.process import Deployment
from pystate.runtime.spark.applications.lost_slot import SILENT, lost_slot_sentence
from pystate.runtime.spark.applications.required_cores import RequiredCores

_STOP_TIMEOUT_S = 10.0
_HEARSAY_S = 2.0
"""How long Spark may take to detect the end of a slot's process."""
_CAUSE_S = 0.5
"""How long the failure of an engine waits for the loss of a slot: if that is its cause, both are seen at about one time."""
_FINAL_CHECKPOINT_TIMEOUT_S = 3600.0


class AttemptOutcome(Enum):
    """How an attempt ended."""

    FINISHED = "finished"  # the sources are read, or the job was stopped with a savepoint
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass
class AttemptEnd:
    """The end of an attempt, with the error if it failed, and the record at which it did, where that is kept."""

    outcome: AttemptOutcome
    error: PystateError | None = None
    stack_trace: str = ""
    record: bytes | None = None

    @classmethod
    def failed(cls, error: Exception) -> AttemptEnd:
        """Return the end of an attempt that failed with the exception being handled.

        Spark's errors come in many classes; each of them ends the attempt only.
        """
        return cls(AttemptOutcome.FAILED, as_failure(error), traceback.format_exc())


class ExecutionAttempt:
    """Runs the job once, from a restored state until it ends or something fails.

    Args:
        number: The attempt's number, from 0.
        resources: Where slots run.
        plan: What to run.
        environment: The job, as subtasks see it.
        restored: The state to start from.
        job: The job's coordinator, status, and locations of queryable state.
        engine: Moves the records.
        scratch: A folder of this attempt alone.
        required: The cores that slots and engine need.
        startup_timeout_s: How long slots may take to register.
        metrics: Receives the metrics of slots.
        on_failing: Called as soon as it fails; its slots and its engine may take a while to end.
        ends_deployed: Returns how the attempt ends once all state is restored, if it was only started for that; else None.
    """

    def __init__(
        self,
        number: int,
        resources: ResourceManager,
        plan: JobPlan,
        environment: JobEnvironment,
        restored: RestoredJob,
        job: JobContext,
        engine: Engine,
        scratch: Path,
        *,
        required: RequiredCores,
        startup_timeout_s: float,
        metrics: SlotMetrics,
        on_failing: Callable[[], object] = lambda: None,
        ends_deployed: Callable[[], AttemptEnd | None] = lambda: None,
    ) -> None:
        self._resources = resources
        self._plan = plan
        self._environment = environment
        self._restored = restored
        self._coordinator = job.coordinator
        self._engine = engine
        self._scratch = scratch
        self._required = required
        self._startup_timeout_s = startup_timeout_s
        self._metrics = metrics
        self._waits = job.waits
        self._on_failing = on_failing
        self._ends_deployed = ends_deployed
        self._kv_states = job.kv_states
        self._slot_count = plan.width
        # Spark keeps what is sent to tasks in blocks that others may read: so send a path instead of the secret, if possible
        secret = connection_secret(Configuration(environment.configuration))
        self._secret = FiledSecret.of(secret, scratch / "secret") if resources.one_machine else secret
        self._pool = SlotPool(
            environment.job_id,
            number,
            self._slot_count,
            self._secret,
            self,
            host=resources.host,
            ports=Configuration(environment.configuration).get(PystateOptions.SLOT_PORTS),
            unix_sockets=resources.one_machine,
            call_timeout_s=Configuration(environment.configuration).get(CheckpointingOptions.CHECKPOINTING_TIMEOUT) / 1000,
        )
        self._allocation = resources.allocate(
            self._pool.description, engine.slot_engine, self._slot_count, self._slots_ended
        )
        # with one more task than slots none stands still
        self._starvation = StarvationWatch(lambda: resources.lack(self._slot_count + 1), job.waits)
        self._end: AttemptEnd | None = None
        self._lost_slot: tuple[int, str, str] | None = None
        self._ended = threading.Condition()

    @property
    def slot_pids(self) -> dict[int, int]:
        """The process id of each slot that has registered, by index."""
        return self._pool.pids

    @property
    def restored_bytes(self) -> int:
        """How many bytes of keyed state the slots have restored."""
        return self._pool.restored_bytes

    def run(self, on_deploying: Callable[[], object], on_running: Callable[[], object]) -> AttemptEnd:
        """Run until the end of the attempt, and clean up after it.

        Args:
            on_deploying: Called once all slots are there.
            on_running: Called once all state is restored and the query has started.
        """
        try:
            self._start(on_deploying, on_running)
            self._watch()
        except Exception as error:
            self.end(AttemptEnd.failed(error))
        finally:
            self._clean_up()
        assert self._end is not None  # noqa: S101 - every path above sets it
        if self._lost_slot is not None:
            # queried only now: Spark detects the end of an executor later than we detect that of the slot
            slot, seen, during = self._lost_slot
            place = self._allocation.place_of(slot, _HEARSAY_S)
            self._end.error = JobExecutionError(lost_slot_sentence(slot, seen, place, during))
        return self._end

    def end(self, end: AttemptEnd) -> None:
        """End the attempt; the first call determines how."""
        with self._ended:
            first = self._end is None
            self._end = self._end or end
            self._ended.notify_all()
        if first and end.outcome is AttemptOutcome.FAILED:
            self._on_failing()
        if end.outcome is not AttemptOutcome.FINISHED:
            self._coordinator.attempt_over(self._pool, job_ends=self._job_ends)
        self._kv_states.attempt_over()
        self._pool.fail("the attempt ended")

    def handle_slot_call(self, op: str, arguments: dict[str, Any]) -> Any:
        """Answer a call from a subtask."""
        if op == "task_failed":
            error = error_from_dict(arguments["error"])
            self.end(AttemptEnd(AttemptOutcome.FAILED, error, arguments["stack_trace"], arguments.get("record")))
            return None
        if op in CHECKPOINT_CALLS:
            return answer_slot_call(self._coordinator, op, arguments)
        if op == "kv_states":
            host, port = arguments["address"]
            number, states = self._environment.attempt, arguments["states"]
            return self._kv_states.register(number, arguments["index"], (str(host), int(port)), states)
        return self._engine.handle_slot_call(op, arguments)

    @property
    def restored_checkpoint_id(self) -> int | None:
        """The checkpoint that the attempt starts from; None for a start without a snapshot."""
        return self._restored.checkpoint_id

    def drain(self, savepoint: CheckpointRequest) -> None:
        """Advance event time to its end, see `Engine.drain`."""
        self._engine.drain(savepoint)

    def slot_lost(self, slot: int, reason: str) -> None:
        """End the attempt: the lost slot's state is lost, too."""
        during = self._engine.running_in(slot)
        with self._ended:
            if self._end is None:
                self._lost_slot = slot, reason, during
        message = lost_slot_sentence(slot, reason, None, during)
        self.end(AttemptEnd(AttemptOutcome.FAILED, JobExecutionError(message)))

    def slot_died(self, slot: int, cause: str) -> None:
        """End the attempt: user code has killed a slot's process."""
        message = f"The process of slot {slot} ended itself: {cause}{self._engine.running_in(slot)}."
        hint = "look at that line, and at native code below it; an exception would tell more"
        self.end(AttemptEnd(AttemptOutcome.FAILED, UserFunctionError(message, hint=hint)))

    def slots_hang(self, slots: list[int], call: str, timeout_s: float) -> None:
        """End the attempt: a hanging function blocks all later epochs."""
        named = ", ".join(f"{slot} (process {self._pool.pids.get(slot)})" for slot in slots)
        message = f"Not all slots did {call} within {timeout_s:g} s. Missing: {named}."
        hint = f"look where their functions wait, or raise {CheckpointingOptions.CHECKPOINTING_TIMEOUT.key}"
        self.end(AttemptEnd(AttemptOutcome.FAILED, SubtaskHangsError(message, hint=hint)))

    def slot_metrics(self, slot: int, report: dict[str, bytes]) -> None:
        """Process the metrics of a slot."""
        self._metrics.report(self._environment.attempt, slot, report)

    def _start(self, on_deploying: Callable[[], object], on_running: Callable[[], object]) -> None:
        watch = self._resource_watch()
        if watch is not None:
            watch.wait(lambda: self._end is not None)
        self._scratch.mkdir(parents=True)
        if isinstance(self._secret, FiledSecret):
            self._secret.write()
        self._metrics.begin_attempt(self._environment.attempt)
        is_restored = self._restored.checkpoint_id is not None
        self._kv_states.begin_attempt(self._environment.attempt, self._pool.description.secret, is_restored=is_restored)
        self._pool.start()
        self._allocation.start()
        restored = self._restored
        # executors that Spark still counts may be gone already
        watch = self._resource_watch()
        self._pool.wait_registered(
            self._startup_timeout_s,
            lambda: watch is None or watch.enough(),
            lambda: self._resources.lack(self._slot_count),
        )
        on_deploying()
        self._engine.prepare()
        environment = vars(self._environment)
        self._pool.deploy(
            [
                Deployment(
                    environment,
                    self._plan.hosted_by(index),
                    restored.operators[index],
                    restored.checkpoint_id,
                    restored.checkpoint_timestamp,
                )
                for index in range(self._slot_count)
            ]
        )
        end = self._ends_deployed()
        if end is not None:
            self.end(end)
            return
        self._engine.start(self._pool, self)
        self._kv_states.attempt_runs(self._environment.attempt)
        if self._end is None:
            on_running()

    def _resource_watch(self) -> ResourceWatch | None:
        restart = self._environment.attempt > 0
        return self._resources.watch(self._required, self._startup_timeout_s, restart=restart, say=self._waits)

    def engine_failed(self, error: PystateError, stack_trace: str) -> None:
        """End the attempt: no more records can be processed. Reports the loss of a slot instead, where it is the cause."""
        with self._ended:
            self._ended.wait_for(lambda: self._end is not None, _CAUSE_S)
        self.end(AttemptEnd(AttemptOutcome.FAILED, error, stack_trace))

    def sources_read(self) -> None:
        """End the attempt after a last checkpoint: all records are processed, and sinks have committed.

        Raises:
            PystateError: That checkpoint failed, or functions could not be notified of it.
        """
        last = self._coordinator.final_checkpoint()
        if last is not None:
            last.add_done_callback(lambda _: self._wake())
            with self._ended:
                self._ended.wait_for(lambda: self._end is not None or last.done(), _FINAL_CHECKPOINT_TIMEOUT_S)
            if self._end is not None:
                return  # the savepoint of a stop was there first, or a failure
        completed = None if last is None else last.result(0)
        if completed is None and writes_to_sinks(self._plan):
            self._pool.call_all("commit_rest", lambda _: {}, bounded="commit what the sinks have written")
        if completed is not None and not completed.heard and commits(self._plan):
            raise unheard(completed)
        self.end(AttemptEnd(AttemptOutcome.FINISHED))

    def _wake(self) -> None:
        with self._ended:
            self._ended.notify_all()

    def checkpoints_failed(self, error: PystateError) -> None:
        """End the attempt: more checkpoints failed in a row than is tolerated, or a subtask hangs in one."""
        if isinstance(error, SubtaskHangsError):
            self.end(AttemptEnd(AttemptOutcome.FAILED, error))
            return
        message = f"Exceeded checkpoint tolerable failure threshold. The latest checkpoint failed due to: {error.message}"
        self.end(AttemptEnd(AttemptOutcome.FAILED, JobExecutionError(message, where=error.where, hint=error.hint)))

    def _watch(self) -> None:
        while True:
            with self._ended:
                if self._end is None:
                    self._ended.wait(0.1)
                if self._end is not None:
                    return
            silent = self._pool.silent_slot()
            if silent is not None:
                self.slot_lost(silent, SILENT)
            else:
                self._engine.look()
                self._starvation.look()

    def _slots_ended(self, reason: str | None) -> None:
        if self._end is None:
            detail = reason or "the slot job ended"
            self._pool.fail(detail)
            self.end(AttemptEnd(AttemptOutcome.FAILED, JobExecutionError(f"The slots were lost: {detail}")))

    @property
    def _job_ends(self) -> bool:
        return self._end is not None and self._end.outcome is not AttemptOutcome.FAILED

    def _clean_up(self) -> None:
        self._coordinator.attempt_over(self._pool, job_ends=self._job_ends)
        self._engine.stop()
        self._pool.close(final=self._job_ends)
        self._allocation.cancel(_STOP_TIMEOUT_S / 2)
        shutil.rmtree(self._scratch, ignore_errors=True)


def unheard(completed: CompletedCheckpoint) -> CommitError:
    """Return the error for a last checkpoint of which not all functions were notified: sinks may not have committed."""
    message = f"Not all subtasks have heard that checkpoint {completed.checkpoint_id} is complete, the job's last one."
    return CommitError(message, where=completed.path)  # a job started from it commits what it holds
