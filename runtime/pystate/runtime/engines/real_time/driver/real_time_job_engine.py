"""The real-time engine of one job, over all its attempts in this driver."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pystate.common.configuration.groups.checkpointing_options import StateRecoveryOptions
from pystate.common.configuration.groups.execution_options import ExecutionEngine, ExecutionOptions
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.configuration.groups.restart_strategy_options import RestartStrategyType
from pystate.common.configuration.state_settings import is_checkpointing_enabled
from pystate.common.errors import JobGraphError
from pystate.common.job_status import JobStatus
from pystate.common.type_info import TypeInformation
from pystate.connectors.source import Source
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import SinkKind, SourceTransformation
from pystate.core.snapshot.starting_snapshot import Snapshot
from pystate.runtime.engines.micro_batch.driver.held_results import CollectedResults
from pystate.runtime.engines.micro_batch.driver.spark_positions import go_on_after_spark, own_sources
from pystate.runtime.engines.real_time.driver.real_time_engine import RealTimeEngine, StartRelays
from pystate.runtime.engines.real_time.driver.real_time_metrics import RecordCounts
from pystate.runtime.engines.real_time.spark.relay_query import RelayQuery
from pystate.runtime.execution.job_context import JobContext
from pystate.runtime.execution.sources_in_slots import sources_in_slots
from pystate.runtime.job_folder.restart_strategies import restart_strategy
from pystate.runtime.plan.job_plan import JobPlan
from pystate.runtime.plan.repeated_epochs import every_epoch_refusal
from pystate.runtime.plan.task import JobEnvironment
from pystate.runtime.plan.task_output import KindsPlace
from pystate.runtime.spark.applications.required_cores import RequiredCores, real_time_cores
from pystate.runtime.spark.sessions.real_time_settings import application_notices

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OTHER = f"set {ExecutionOptions.ENGINE.key} = {ExecutionEngine.MICRO_BATCH.value}"


class RealTimeJobEngine:
    """Runs a job as concurrent tasks, with barriers in the stream.

    Args:
        job: The job.
        spark: The Spark session.
        start_relays: Starts the transport of frames between slots; None for a Spark query.
        directly: Whether slots of one machine send each other their frames without relays.

    Attributes:
        worker_modules: The modules that its stages import in Spark's workers.
        metrics: Metrics other than those of slots and checkpoints.
    """

    worker_modules = ("pystate.runtime.engines.real_time.spark.relay",)

    def __init__(
        self, job: JobContext, spark: SparkSession, start_relays: StartRelays | None = None, *, directly: bool = True
    ) -> None:
        self._job = job
        self._spark = spark
        self._start_relays = start_relays or partial(RelayQuery, spark)
        self._needs_spark = start_relays is None
        self._directly = directly
        self.metrics = RecordCounts()
        self._plan: JobPlan | None = None
        self._collected: CollectedResults | None = None

    def adapt(self, graph: StreamGraph, uids: dict[int, str]) -> None:
        """Read collections and files in slots."""
        sources_in_slots(graph, uids, self._spark)

    def read_sources(self, sources: Sequence[SourceTransformation]) -> list[TypeInformation]:
        """Reject sources that Spark reads, since it reads them in batches.

        Raises:
            JobGraphError: There is such a source.
        """
        for source in sources:
            message = f"{source.name!r} is read by Spark, in batches; the real-time engine reads sources in slots."
            hint = f"use one of pystate.datastream.connectors, a Source, a SourceFunction or a collection, or {_OTHER}"
            raise JobGraphError(message, where=source.name, hint=hint)
        return []

    def notices(self) -> list[str]:
        """Return notices about settings that Spark did not get at its start."""
        return application_notices(self._spark.sparkContext.getConf().get) if self._needs_spark else []

    def planned(self, plan: JobPlan) -> None:
        """Record the job's plan.

        Raises:
            JobGraphError: It runs in BATCH mode, or repeats epochs.
            PystateError: What a source reads doesn't exist.
        """
        configuration = self._job.configuration
        if plan.batch:
            message = f"{ExecutionOptions.RUNTIME_MODE.key} = BATCH sorts all input, which the real-time engine can't."
            raise JobGraphError(message, hint=_OTHER)
        if (refusal := every_epoch_refusal(configuration, None)) is not None:
            raise refusal
        if self._job.status.attempt == 0:  # later the attempt's failure reports it: what is unavailable may come back
            for source in own_sources(plan).values():
                if isinstance(source, Source):
                    source.check_start()
        plan.place_kinds(KindsPlace.WHERE_USED)
        self._plan = plan
        if any(sink.step.kind is SinkKind.COLLECT for sink in plan.sinks):
            restarts = restart_strategy(configuration).kind is not RestartStrategyType.NONE
            holds = restarts and is_checkpointing_enabled(configuration)
            self._collected = CollectedResults(plan, self._completed_checkpoint, holds=holds)

    def _completed_checkpoint(self) -> int:
        snapshot = self._job.coordinator.latest_snapshot()
        return -1 if snapshot is None or snapshot.starting else snapshot.metadata.checkpoint_id

    def required_cores(self, plan: JobPlan) -> RequiredCores:
        """Return the cores that slots and relays need."""
        return real_time_cores(plan.width, (task.parallelism for task in plan.tasks))

    def attempt(self, environment: JobEnvironment, snapshot: Snapshot | None, scratch: Path) -> RealTimeEngine:
        """Return the engine of an attempt.

        Raises:
            RestoreError: A source can't continue where Spark stopped.
            CorruptSnapshotError: The snapshot is damaged.
        """
        plan = self._plan
        assert plan is not None  # noqa: S101 - the job is planned before its first attempt
        if self._collected is not None:
            self._collected.begin_attempt(-1 if snapshot is None else snapshot.metadata.checkpoint_id)
        allow = self._job.configuration.get(StateRecoveryOptions.SAVEPOINT_IGNORE_UNCLAIMED_STATE)
        go_on_after_spark(plan, snapshot, allow_non_restored=allow)
        coordinator = self._job.coordinator
        interval_s = self._job.configuration.get(PystateOptions.EPOCH_INTERVAL) / 1000
        return RealTimeEngine(
            self._spark,
            plan,
            environment,
            coordinator,
            scratch,
            self.metrics,
            self._collected,
            interval_s,
            self._start_relays,
            directly=self._directly,
        )

    def attempt_over(self) -> None:
        """Keep the counts of the attempt."""
        self.metrics.attempt_over()

    def how_far(self, snapshot: Snapshot) -> int:
        """Return the checkpoint number: later checkpoints have read more."""
        return snapshot.metadata.checkpoint_id

    def progress(self) -> dict[str, Any]:
        """Return how many records the job has read and written; sources in slots report their backlog themselves."""
        tasks = [] if self._plan is None else self._plan.tasks
        return {**self.metrics.to_plain(tasks), "backlog": None}

    def close(self, status: JobStatus) -> None:
        """Hand over the last results."""
        if self._collected is not None:
            self._collected.close(finished=status is JobStatus.FINISHED)
