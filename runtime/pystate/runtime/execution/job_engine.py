"""The seam between a job and its engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from pystate.common.job_status import JobStatus
from pystate.common.type_info import TypeInformation
from pystate.core.api.job_graph import SourceTransformation, StreamGraph
from pystate.core.metrics.sample import MetricSample
from pystate.core.snapshot.starting_snapshot import Snapshot
from pystate.runtime.execution.engine import Engine
from pystate.runtime.plan.job_plan import JobPlan
from pystate.runtime.plan.task import JobEnvironment
from pystate.runtime.spark.applications.required_cores import RequiredCores


class EngineMetrics(Protocol):
    """What an engine measures besides slots and checkpoints."""

    def job_samples(self) -> list[MetricSample]:
        """Return what is measured of the whole job."""

    def source_samples(self) -> Mapping[tuple[str, int], list[MetricSample]]:
        """Return what is measured in front of the slots, by a source's uid and subtask."""


class JobEngine(Protocol):
    """The engine of one job, over all its attempts in this driver."""

    @property
    def metrics(self) -> EngineMetrics:
        """What it measures."""

    @property
    def worker_modules(self) -> Sequence[str]:
        """What its stages in Spark's workers import."""

    def adapt(self, graph: StreamGraph, uids: dict[int, str]) -> None:
        """Change steps of the program that the engine has others for.

        Args:
            graph: The program.
            uids: Of its steps, by `id(step)`; those of new ones are added.
        """

    def read_sources(self, sources: Sequence[SourceTransformation]) -> list[TypeInformation]:
        """Return what elements each source gives. Before the job is planned; nothing is read of them yet.

        Raises:
            PystateError: A source, or the program's part of it, can't be used.
        """

    def notices(self) -> list[str]:
        """Return what the author of the program should know: of its sources, and of what the engine does otherwise."""

    def planned(self, plan: JobPlan) -> None:
        """Record the job; called before any attempt.

        Raises:
            JobGraphError: The engine can't run it.
        """

    def required_cores(self, plan: JobPlan) -> RequiredCores:
        """Return how many tasks of Spark's the job needs at once, slots among them."""

    def attempt(self, environment: JobEnvironment, snapshot: Snapshot | None, scratch: Path) -> Engine:
        """Return the engine of an attempt.

        Args:
            environment: The job, as subtasks see it.
            snapshot: Behind which its sources go on; None for a start from nothing.
            scratch: A folder of this attempt alone; the attempt makes it.

        Raises:
            RestoreError: The snapshot's sources don't fit the job's.
            CorruptSnapshotError: The snapshot is damaged.
            SnapshotError: It can't be read.
        """

    def attempt_over(self) -> None:
        """The attempt has ended; what was under way in it will not."""

    def how_far(self, snapshot: Snapshot) -> int:
        """Return how far the sources were read at a snapshot, as a number that only rises; -1 where nothing was read."""

    def progress(self) -> dict[str, Any]:
        """Return how far the job is, for people.

        Always `records_in` and `records_out` of the whole job, `records` by task, and `backlog`, the rows that the sources
        have not delivered yet, None if they don't say; besides what the engine's own unit of progress is.
        """

    def close(self, status: JobStatus) -> None:
        """Delete what a job that has ended needs no more; called behind the end of its checkpoints."""
