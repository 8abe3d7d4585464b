"""The interface between a job and its engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from pystate.common.job_status import JobStatus
from pystate.common.type_info import TypeInformation
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import SourceTransformation
from pystate.core.metrics.sample import MetricSample
from pystate.core.snapshot.starting_snapshot import Snapshot
from pystate.runtime.execution.engine import Engine
from pystate.runtime.plan.job_plan import JobPlan
from pystate.runtime.plan.task import JobEnvironment
from pystate.runtime.spark.applications.required_cores import RequiredCores


class EngineMetrics(Protocol):
    """The metrics of an engine besides those of slots and checkpoints."""

    def job_samples(self) -> list[MetricSample]:
        """Return the metrics of the whole job."""

    def source_samples(self) -> Mapping[tuple[str, int], list[MetricSample]]:
        """Return the metrics of stages upstream of the slots, by a source's uid and subtask."""


class JobEngine(Protocol):
    """The engine of one job, over all its attempts in this driver."""

    @property
    def metrics(self) -> EngineMetrics:
        """Its metrics."""

    @property
    def worker_modules(self) -> Sequence[str]:
        """The modules that its stages in Spark's workers import."""

    def adapt(self, graph: StreamGraph, uids: dict[int, str]) -> None:
        """Replace steps of the program for which the engine has its own.

        Args:
            graph: The program.
            uids: Of its steps, by `id(step)`; those of new ones are added.
        """

    def read_sources(self, sources: Sequence[SourceTransformation]) -> list[TypeInformation]:
        """Return the element type of each source, before the job is planned; no element is read yet.

        Raises:
            PystateError: A source, or the program's part of it, can't be used.
        """

    def notices(self) -> list[str]:
        """Return notices for the author of the program: about its sources, and about differences of the engine."""

    def planned(self, plan: JobPlan) -> None:
        """Set the planned job; called before any attempt.

        Raises:
            JobGraphError: The engine can't run it.
        """

    def required_cores(self, plan: JobPlan) -> RequiredCores:
        """Return how many concurrent Spark tasks the job needs, including slots."""

    def attempt(self, environment: JobEnvironment, snapshot: Snapshot | None, scratch: Path) -> Engine:
        """Return the engine of an attempt.

        Args:
            environment: The job, as subtasks see it.
            snapshot: The snapshot that its sources continue from; None if there is none.
            scratch: A folder for this attempt only, created by the attempt.

        Raises:
            RestoreError: The snapshot's sources don't fit the job's.
            CorruptSnapshotError: The snapshot is damaged.
            SnapshotError: It can't be read.
        """

    def attempt_over(self) -> None:
        """Handle the end of an attempt: its pending work will not complete."""

    def how_far(self, snapshot: Snapshot) -> int:
        """Return the source position of a snapshot, as a number that only rises; -1 if nothing was read."""

    def progress(self) -> dict[str, Any]:
        """Return the progress of the job, for users.

        Always `records_in` and `records_out` of the whole job, `records` by task, and `backlog`, the rows that
        Spark's sources have not delivered yet, None if they don't say; besides what the engine's own unit of progress is.
        """

    def close(self, status: JobStatus) -> None:
        """Delete what isn't needed after the job's end; called after the end of its checkpoints."""
