"""The real-time engine of one attempt: a query of relays, barriers at sources, and reports of subtasks."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.errors import ControlError, PystateError
from pystate.common.processes.machine_load import PatientDeadline
from pystate.core.api.transformations import SinkKind
from pystate.runtime.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from pystate.runtime.checkpoint.checkpoint_request import CheckpointRequest
from pystate.runtime.engines.micro_batch.driver.held_results import CollectedResults
from pystate.runtime.engines.real_time.driver.barriers import SourceBarriers
from pystate.runtime.engines.real_time.driver.downstream_room import DownstreamRoom
from pystate.runtime.engines.real_time.driver.frame_sinks import FrameSinks
from pystate.runtime.engines.real_time.driver.real_time_metrics import RecordCounts
from pystate.runtime.engines.real_time.slot.real_time_slot_engine import RealTimeSlotEngineFactory
from pystate.runtime.engines.real_time.spark.relay import RelayDirectory
from pystate.runtime.execution.engine import EngineEvents
from pystate.runtime.execution.late_start import late_start
from pystate.runtime.execution.slots.slot_pool import SlotPool
from pystate.runtime.plan.channels import JobChannels, SubtaskId
from pystate.runtime.plan.job_plan import JobPlan
from pystate.runtime.plan.task import JobEnvironment
from pystate.runtime.spark.applications.waiting_tasks import lack_of_cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STOP_TIMEOUT_S = 10.0
_FLUSH_S = 0.05
_RELAYS_S = 0.5
_MOST_DIRECT_CHANNELS = 2048
"""Each takes a connection and a thread of its receiver, and they grow with the square of the parallelism; relays don't."""
"""How long slots wait for relays per call; between calls the engine checks whether the relays have failed."""


class Relays(Protocol):
    """Transports frames between the slots of an attempt, from its creation on."""

    def failure(self) -> tuple[PystateError, str] | None:
        """Return why the relays have ended, with a stack trace; None while they run."""

    def alone(self) -> bool:
        """Whether all relays are connected and no one else can connect; called again until it returns true.

        Raises:
            PystateError: An unknown peer is connected.
        """

    def stop(self) -> None:
        """Stop the relays; may take a while."""


StartRelays = Callable[[RelayDirectory, str, Path], Relays]
"""Starts relays, given the addresses of the slots, a name for users, and a directory of the attempt."""


class RealTimeEngine:
    """Runs the relays of one attempt.

    Args:
        spark: The Spark session.
        plan: The job's plan.
        environment: The job, as subtasks see it.
        coordinator: The job's checkpoint coordinator.
        scratch: A directory used by this attempt only.
        counts: Receives the numbers of records that subtasks have read and written.
        collected: Receives results for the program; None if it takes none.
        call_interval_s: The minimum time between two calls of a function that takes DataFrames.
        start_relays: Starts the transport of frames between slots of different machines.
        directly: Whether slots of one machine send each other their frames without relays.
    """

    def __init__(
        self,
        spark: SparkSession,
        plan: JobPlan,
        environment: JobEnvironment,
        coordinator: CheckpointCoordinator,
        scratch: Path,
        counts: RecordCounts,
        collected: CollectedResults | None,
        call_interval_s: float,
        start_relays: StartRelays,
        *,
        directly: bool,
    ) -> None:
        self._spark = spark
        self._plan = plan
        self._environment = environment
        self._coordinator = coordinator
        self._scratch = scratch
        self._counts = counts
        self._collected = collected
        self._channels = JobChannels.of(plan)
        sinks = [sink for sink in plan.sinks if sink.step.kind is SinkKind.FOR_EACH_BATCH]
        self._frames = FrameSinks(spark, plan, sinks, call_interval_s, self._failed)
        self._lock = threading.Lock()
        self._running: set[SubtaskId] = {(task.uid, index) for task in plan.tasks for index in range(task.parallelism)}
        self._start_relays = start_relays
        self._directly = directly
        self._relays: Relays | None = None
        self._pool: SlotPool | None = None
        self._barriers: SourceBarriers | None = None
        self._room: DownstreamRoom | None = None
        self._events: EngineEvents | None = None

    @property
    def slot_engine(self) -> RealTimeSlotEngineFactory:
        """The factory of the engine's slot side."""
        return RealTimeSlotEngineFactory(self._channels)

    def prepare(self) -> None:
        """Do nothing: the relays are started with the slots' addresses, and no barrier waits for them."""

    def start(self, pool: SlotPool, events: EngineEvents) -> None:
        """Start the relays, and once all are connected, subtasks and checkpoints.

        Raises:
            PystateError: The relays did not connect, or a slot is lost.
        """
        self._pool, self._events = pool, events
        slots, addresses = pool.description, pool.addresses
        places = [
            tuple(addresses[self._channels.owner((level, partition))[1]] for partition in range(count))
            for level, count in enumerate(self._channels.partitions)
        ]
        directory = RelayDirectory(slots.job_id, slots.attempt, slots.secret, tuple(places))
        name = f"pystate-{self._environment.job_id}-{self._environment.attempt}"
        self._relays = self._start_relays(directory, name, self._scratch)
        self._room = DownstreamRoom(self._channels, Configuration(self._environment.configuration), pool)
        self._barriers = SourceBarriers(self._coordinator.pending, pool, self._frames.mark, self._room.barrier_sent)
        self._frames.start()
        self._await(self._relays, pool, events)
        direct = places if self._directly and slots.unix_sockets and self._channels.count <= _MOST_DIRECT_CHANNELS else []
        pool.call_all("start", lambda _: {"slots": direct})
        self._coordinator.attempt_started(pool, self._barriers, events.checkpoints_failed)

    def _await(self, relays: Relays, pool: SlotPool, events: EngineEvents) -> None:
        """Wait until records can flow: otherwise source output would pile up while Spark starts."""
        timeout_s = Configuration(self._environment.configuration).get(PystateOptions.SLOT_STARTUP_TIMEOUT) / 1000
        deadline = PatientDeadline(timeout_s)
        while not (
            all((came := pool.call_all("await_relays", lambda _: {"timeout_s": _RELAYS_S})).values()) and relays.alone()
        ):
            failure = relays.failure()
            if failure is not None:
                events.engine_failed(*failure)
                error, _ = failure
                raise error
            deadline.saw(sum(came.values()))
            if deadline.has_passed():
                tasks = self._plan.width + sum(self._channels.partitions)
                message = f"The relays of {sum(came.values())} of {len(came)} slots came to them"
                raise late_start(message, timeout_s, lack_of_cores(self._spark.sparkContext, tasks))

    def look(self) -> None:
        """Report to the attempt if relays or subtasks have ended; let sources continue after a failed savepoint."""
        relays, events, barriers = self._relays, self._events, self._barriers
        if relays is None or events is None or barriers is None:
            return
        failure = relays.failure()
        if failure is not None:
            events.engine_failed(*failure)
            return
        barriers.release_if_failed()
        if self._room is not None:
            self._room.look()
        with self._lock:
            # after a drain the job ends with its savepoint, or continues from before it
            has_ended = not self._running and not barriers.brings_own
        if has_ended and self._frames.flush(_FLUSH_S):
            events.sources_read()

    def handle_slot_call(self, op: str, arguments: dict[str, Any]) -> Any:
        """Answer a call of a subtask.

        Raises:
            ControlError: The call is unknown.
        """
        if op == "records":
            return self._counts.report(arguments["slot_index"], arguments["counts"])
        if op == "printed":
            sys.stdout.writelines(f"{line}\n" for line in arguments["lines"])
            return sys.stdout.flush()
        if op == "collected":
            return self._collect(**arguments)
        if op == "subtask_ended":
            with self._lock:
                return self._running.discard((arguments["uid"], arguments["subtask"]))
        if op == "source_messages" and self._pool is not None:
            return self._pool.call(0, "source_messages", **arguments)
        message = f"The driver does not know the op {op!r}."
        raise ControlError(message)

    def drain(self, savepoint: CheckpointRequest) -> None:
        """Stop the sources, end event time, and place a savepoint's barrier right after it."""
        if self._barriers is None:
            message = "The execution attempt has not begun."
            raise ControlError(message)
        self._barriers.drain(savepoint, self._coordinator.prepare)

    def running_in(self, slot: int) -> str:
        """Return nothing: records are everywhere at any time."""
        del slot
        return ""

    def stop(self) -> None:
        """Stop the relays."""
        self._frames.close()
        if self._collected is not None:
            self._collected.attempt_over()
        if self._relays is not None:
            stopper = threading.Thread(target=self._relays.stop, name="query-stop", daemon=True)
            stopper.start()
            stopper.join(_STOP_TIMEOUT_S)

    def _failed(self, error: PystateError, stack_trace: str) -> None:
        if self._events is not None:
            self._events.engine_failed(error, stack_trace)

    def _collect(self, uid: str, subtask: int, tag: int, last_barrier: int, batch: bytes) -> None:
        del subtask
        if self._frames.knows(uid, tag):
            self._frames.put(uid, tag, batch)
            return
        sink = next(sink for sink in self._plan.sinks if (sink.task_uid, sink.tag) == (uid, tag))
        schema = self._plan.task(uid).output(tag).schema()
        assert self._collected is not None  # noqa: S101 - the job's engine makes it for such sinks
        self._collected.deliver(sink, last_barrier + 1, [pa.ipc.read_record_batch(pa.py_buffer(batch), schema)])
