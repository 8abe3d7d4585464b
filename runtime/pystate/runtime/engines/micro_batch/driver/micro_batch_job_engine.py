"""The micro-batch engine of one job: its source DataFrames, its epochs over all attempts, and its restore positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pystate.common.configuration.config_option import ConfigOption
from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import StateRecoveryOptions
from pystate.common.configuration.groups.execution_options import (
    CoreOptions,
    ExecutionOptions,
    PipelineOptions,
    RuntimeExecutionMode,
)
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.configuration.groups.restart_strategy_options import RestartStrategyType
from pystate.common.configuration.state_settings import is_checkpointing_enabled
from pystate.common.job_status import JobStatus
from pystate.common.type_info import TypeInformation
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import SinkKind, SourceTransformation
from pystate.core.snapshot.handles.input_channel_state import no_channels
from pystate.core.snapshot.starting_snapshot import Snapshot
from pystate.runtime.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.runtime.engines.micro_batch.driver.epoch_coordinator import EpochCoordinator
from pystate.runtime.engines.micro_batch.driver.epoch_metrics import EpochMetrics
from pystate.runtime.engines.micro_batch.driver.epoch_numbers import EpochNumbers
from pystate.runtime.engines.micro_batch.driver.held_results import CollectedResults
from pystate.runtime.engines.micro_batch.driver.micro_batch_engine import MicroBatchEngine
from pystate.runtime.engines.micro_batch.driver.offset_reports import OffsetReports
from pystate.runtime.engines.micro_batch.driver.source_restore import RestoredSources, SourceRestore, checked_identities
from pystate.runtime.engines.micro_batch.driver.sources_kept_in_slots import SourcesKeptInSlots
from pystate.runtime.engines.micro_batch.driver.spark_positions import take_over_from_spark
from pystate.runtime.engines.micro_batch.driver.stream_ends import BoundedStreams
from pystate.runtime.engines.micro_batch.spark.determinism import non_determinism, non_determinism_notices
from pystate.runtime.engines.micro_batch.spark.epoch_bounds import EpochBounds
from pystate.runtime.engines.micro_batch.spark.lasting_partitions import partition_columns
from pystate.runtime.engines.micro_batch.spark.source_checks import spark_sources
from pystate.runtime.engines.micro_batch.spark.source_replay import SourceReplay
from pystate.runtime.engines.micro_batch.spark.source_shuffles import source_shuffle_notices
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import SparkSource
from pystate.runtime.engines.micro_batch.spark.translator import source_frame, source_type
from pystate.runtime.execution.job_context import JobContext
from pystate.runtime.execution.sources_in_slots import sources_in_slots
from pystate.runtime.job_folder.restart_strategies import restart_strategy
from pystate.runtime.plan.job_plan import JobPlan
from pystate.runtime.plan.repeated_epochs import every_epoch_refusal
from pystate.runtime.plan.row_kinds import may_use_kinds
from pystate.runtime.plan.task import JobEnvironment
from pystate.runtime.plan.task_output import KindsPlace
from pystate.runtime.plan.time_steps import timer_notices
from pystate.runtime.spark.applications.required_cores import RequiredCores, micro_batch_cores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BY_EPOCH = "records travel by epoch; pystate.epoch.interval bounds how often one begins"
_WITHOUT_EFFECT: dict[ConfigOption[Any], str] = {
    PipelineOptions.AUTO_WATERMARK_INTERVAL: "watermarks advance at the end of each epoch",
    ExecutionOptions.BUFFER_TIMEOUT: _BY_EPOCH,
    ExecutionOptions.BUFFER_TIMEOUT_ENABLED: _BY_EPOCH,
}


def stream_option_notices(configuration: Configuration) -> Iterator[str]:
    """Yield a sentence for each such option that is set."""
    for option, why in _WITHOUT_EFFECT.items():
        if configuration.contains(option):
            yield f"{option.key} has no effect on the micro-batch engine: {why}"


class MicroBatchJobEngine:
    """Runs a job as one streaming query per attempt.

    Args:
        job: The job.
        spark: The Spark session.

    Attributes:
        worker_modules: The modules that its stages import in Spark's workers.
        metrics: The metrics of epochs and sources.
        epochs: The job's epochs.
    """

    worker_modules = ("pystate.runtime.engines.micro_batch.spark.exchange",)

    def __init__(self, job: JobContext, spark: SparkSession) -> None:
        self._job = job
        self._spark = spark
        self._numbers = EpochNumbers(job.directory.epochs, job.term.check)
        self.metrics = EpochMetrics(spark.sparkContext)
        self.epochs = EpochCoordinator(job.coordinator, self._numbers)
        self._frames: list[DataFrame] = []
        self._notices: list[str] = []
        self._plan: JobPlan | None = None
        self._sources: list[SparkSource] = []
        self._running: MicroBatchEngine | None = None
        self._collected: CollectedResults | None = None
        self._bounded: BoundedStreams | None = None
        self._reports: OffsetReports | None = None

    def adapt(self, graph: StreamGraph, uids: dict[int, str]) -> None:
        """Read file sources in slots, and keep those sources there that a job of the real-time engine had there."""
        self._notices = []  # of a previous try
        stay = SourcesKeptInSlots(self._job).uids()
        for name in sources_in_slots(graph, uids, self._spark, stay.__contains__):
            self._notices.append(f"The source {name!r} goes on in slots, as the snapshot has it.")
        if not graph.batch:  # which fires the timers of a key at its end
            self._notices.extend(timer_notices(graph.transformations()))

    def read_sources(self, sources: Sequence[SourceTransformation]) -> list[TypeInformation]:
        """Create the streaming DataFrames, and return the element type of each source."""
        frames = [source_frame(self._spark, source) for source in sources]
        bounded = [self._limited(frame, source.name) for frame, source in zip(frames, sources, strict=True)]
        self._frames = [frame for frame, _ in bounded]
        self._notices.extend(notice for _, notices in bounded for notice in notices)
        replay = SourceReplay(self._job.configuration)
        for source, frame in zip(sources, self._frames, strict=True):
            replay.look(source, frame)
            source.non_deterministic = non_determinism(frame).expressions
            self._notices.extend(non_determinism_notices(source, frame))
            self._notices.extend(source_shuffle_notices(source.name, frame))
            source.partitioned_by = partition_columns(frame)
        self._notices.extend(replay.notices())
        self._notices.extend(stream_option_notices(self._job.configuration))
        return [source_type(source, frame) for source, frame in zip(sources, self._frames, strict=True)]

    def _limited(self, frame: DataFrame, where: str) -> tuple[DataFrame, list[str]]:
        """Limit how much of a source an epoch reads, see `EpochBounds.bound`."""
        configuration = self._job.configuration
        if configuration.get(ExecutionOptions.RUNTIME_MODE) is RuntimeExecutionMode.BATCH:  # one epoch reads everything
            return frame, []
        return EpochBounds(configuration, configuration.get(CoreOptions.DEFAULT_PARALLELISM)).bound(frame, where)

    def notices(self) -> list[str]:
        """Return notices about epochs and sources for the program's author."""
        return self._notices

    def planned(self, plan: JobPlan) -> None:
        """Record the job's plan.

        Raises:
            JobGraphError: A source in slots would have to repeat epochs; two sources read the same Spark stream; or a source
                can't be read to its end.
            PystateError: An external system doesn't report where a source ends.
        """
        refusal = every_epoch_refusal(self._job.configuration, next((task.name for task in plan.own_sources), None))
        if refusal is not None:  # a source that stays in slots is known only by now
            raise refusal
        kinds = self._job.configuration.get(PystateOptions.ROW_KINDS)
        plan.place_kinds(KindsPlace.COLUMN if (may_use_kinds() if kinds is None else kinds) else KindsPlace.NOWHERE)
        self._plan = plan
        self._sources = spark_sources(plan, self._frames)
        self._bounded = BoundedStreams(plan, self._sources, lambda frame, where: self._limited(frame, where)[0])
        if self._reports is None:
            self._job.coordinator.completed_listeners.append(self._completed)
        else:
            self._reports.close()
        self._reports = OffsetReports(plan)
        self.epochs.describe(plan.tasks)
        if any(sink.step.kind is SinkKind.COLLECT for sink in plan.sinks):
            configuration = self._job.configuration
            restarts = restart_strategy(configuration).kind is not RestartStrategyType.NONE
            holds = restarts and is_checkpointing_enabled(configuration)
            self._collected = CollectedResults(plan, self._completed_epoch, holds=holds)

    def _completed(self, checkpoint: CompletedCheckpoint) -> None:
        if self._reports is not None:
            self._reports.completed(checkpoint)

    def _completed_epoch(self) -> int:
        snapshot = self._job.coordinator.latest_snapshot()
        return -1 if snapshot is None or snapshot.starting else snapshot.metadata.epoch

    def required_cores(self, plan: JobPlan) -> RequiredCores:
        """Return the cores that slots, exchanges and their upstream stages need."""
        return micro_batch_cores(plan.width)

    def attempt(self, environment: JobEnvironment, snapshot: Snapshot | None, scratch: Path) -> MicroBatchEngine:
        """Return the engine of an attempt whose query continues after a snapshot."""
        plan, bounded = self._plan, self._bounded
        assert plan is not None and bounded is not None  # noqa: S101 - the job is planned before its first attempt
        if snapshot is not None and snapshot.metadata.has_data_in_flight:
            raise no_channels(snapshot.location.uri)
        if self._collected is not None:
            self._collected.begin_attempt(-1 if snapshot is None else snapshot.metadata.epoch)
        restored = self._restored(plan, snapshot)
        files = checked_identities(plan, self._sources, restored.spark_files)
        frames, restored.spark_files, ends = bounded.begin(self._frames, files)
        self._running = MicroBatchEngine(
            self._spark,
            plan,
            frames,
            environment,
            restored,
            self.epochs,
            scratch,
            trigger_interval_ms=self._job.configuration.get(PystateOptions.EPOCH_INTERVAL),
            metrics=self.metrics,
            collected=self._collected,
            ends=ends,
            rehearse=self.metrics.epochs == 0,
        )
        return self._running

    def _restored(self, plan: JobPlan, snapshot: Snapshot | None) -> RestoredSources:
        allow = self._job.configuration.get(StateRecoveryOptions.SAVEPOINT_IGNORE_UNCLAIMED_STATE)
        taken = take_over_from_spark(plan, snapshot)
        restore = SourceRestore(plan, self._sources, allow_non_restored=allow, taken_over=taken)
        running = self.epochs.running_epoch(snapshot)
        if not all(source.keeps_place for source in self._sources):
            running = None  # its rows are lost
        self._say_what_is_lost(plan, snapshot)
        if running is not None:
            self._job.say(f"Epoch {running.epoch} is run again, with the same rows.")
        if snapshot is None:
            return restore.nothing(self._numbers.resume_above(-1), running)
        above = self._numbers.resume_above(snapshot.metadata.epoch)
        return restore.from_snapshot(snapshot, above, self._job.job_id, running)

    def _say_what_is_lost(self, plan: JobPlan, snapshot: Snapshot | None) -> None:
        """Report sources that can't be read again, if the job has run before."""
        lossy = [source.step for source in plan.sources if source.step.not_replayable is not None]
        if snapshot is None and self._job.status.attempt == 0:
            return
        since = "before" if snapshot is None else f"after snapshot {snapshot.metadata.checkpoint_id}"
        for step in lossy:
            self._job.say(f"The source {step.name!r} goes on with what comes: what it gave {since} is not read again.")

    def attempt_over(self) -> None:
        """Record that the running epoch will not end."""
        self.metrics.attempt_over()
        self._running = None

    def how_far(self, snapshot: Snapshot) -> int:
        """Return Spark's number of the last batch that a snapshot contains; -1 for none.

        Spark doesn't know sources in slots: for a job with such sources it is the checkpoint number, as on the other engine.
        """
        if self._plan is not None and self._plan.own_sources:
            return snapshot.metadata.checkpoint_id
        position = snapshot.metadata.source_position
        return -1 if position is None else position.epoch

    def progress(self) -> dict[str, Any]:
        """Return the last finished epoch, record counts, the durations of the last epochs, and the backlog."""
        running = self._running
        asked = {"backlog": None} if running is None else {"backlog": running.backlog(), "epochs": running.timeline()}
        return {**self.epochs.progress(), **self.metrics.epoch_times(), **asked}

    def close(self, status: JobStatus) -> None:
        """Delete what a finished job no longer needs, and hand over its last results."""
        self.epochs.close(status)
        identities = [] if self._plan is None else [source.step.identity for source in self._plan.sources]
        for one in (self._reports, self._bounded, *identities):
            if one is not None:
                one.close()
        if self._collected is not None:
            self._collected.close(finished=status is JobStatus.FINISHED)
