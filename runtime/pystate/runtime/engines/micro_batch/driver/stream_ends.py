"""Finds the end offsets of bounded streams: once per job, kept in snapshots, and waited for if not reached yet.

Spark ends a query at the data available when it starts, and a query that continues from a snapshot would look again. So rows
after the end are filtered out, and a query that ends before it is restarted once there is more data.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pystate.common.errors import ExternalSystemError, PystateError
from pystate.core.api.source_stream import StoppingOffsets
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import SparkSource
from pystate.runtime.plan.job_plan import JobPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FILE = "sources/{}/pystate-stopping"
"""A file next to Spark's own files of a stream, and so included in Spark's part of each snapshot."""
_LOOK_EACH_S = 1.0


class _End(NamedTuple):
    stopping: StoppingOffsets
    end: bytes


class StreamEnds:
    """The end offsets of the streams of one attempt.

    Args:
        ends: The end of each stream that has one and is waited for.
        clock: Returns monotonic seconds.
        by_source: The end of each stream that has one, by the uid of its source.
    """

    def __init__(
        self,
        ends: Sequence[tuple[StoppingOffsets, bytes]] = (),
        clock: Callable[[], float] = time.monotonic,
        by_source: Mapping[str, tuple[StoppingOffsets, bytes]] | None = None,
    ) -> None:
        self.by_source = dict(by_source or {})
        self._ends = [_End(*end) for end in ends]
        self._clock = clock
        self._seen: list[bytes] = []
        self._look_at = 0.0

    def query_starts(self) -> None:
        """Record the available offsets when the query starts: it reads at least up to there.

        Raises:
            PystateError: An external system doesn't report its offsets.
        """
        self._seen = self._latest()
        self._look_at = self._clock() + _LOOK_EACH_S

    @property
    def reached(self) -> bool:
        """Whether the last started query, which has ended, has read everything."""
        return all(one.stopping.missing(one.end, seen) is None for one, seen in zip(self._ends, self._seen, strict=True))

    def start_again(self, start: Callable[[], object]) -> None:
        """Restart the query if there is more data than at its last start; checks at intervals.

        Args:
            start: Starts the query.
        """
        if self._clock() < self._look_at:
            return
        self._look_at = self._clock() + _LOOK_EACH_S
        try:
            latest = self._latest()
        except PystateError:  # the system may be unavailable for a while
            return
        if latest != self._seen:
            start()

    def _latest(self) -> list[bytes]:
        return [one.stopping.latest() for one in self._ends]


class BoundedStreams:
    """The bounded streams of one job.

    Args:
        plan: The job's plan.
        sources: The sources of the lines in the query's offset log.
        bound: Limits how much of a source an epoch reads, given its DataFrame and its name.

    Raises:
        ExternalSystemError: An end isn't available yet, and the job can't wait for it.
        PystateError: The external system doesn't report where a stream ends.
    """

    def __init__(self, plan: JobPlan, sources: Sequence[SparkSource], bound: Callable[[DataFrame, str], DataFrame]) -> None:
        self._plan = plan
        self._bound = bound
        self._logs = {source.uid: source.log for source in sources}
        self._stopping = {source.uid: source.step.stopping for source in plan.sources if source.step.stopping is not None}
        self._found = {uid: stopping.find() for uid, stopping in self._stopping.items()}
        self._check_there()

    def begin(
        self, frames: list[DataFrame], files: dict[str, bytes]
    ) -> tuple[list[DataFrame], dict[str, bytes], StreamEnds]:
        """Return an attempt's DataFrames, Spark's logs and the end offsets.

        Args:
            frames: The DataFrames of the plan's sources, without an end.
            files: Spark's logs at the cut from which the attempt continues.

        Raises:
            PystateError: The external system doesn't report the end of partitions that a snapshot doesn't contain.
        """
        if not self._stopping:
            return frames, files, StreamEnds()
        frames, files = list(frames), dict(files)
        ends = {}
        for index, source in enumerate(self._plan.sources):
            stopping = self._stopping.get(source.uid)
            if stopping is None:
                continue
            name = _FILE.format(self._logs[source.uid])
            end = self._found[source.uid] if name not in files else stopping.find(files[name])
            files[name] = end
            frames[index] = self._bound(stopping.frame(end), source.step.name)
            ends[source.uid] = stopping, end
        return frames, files, StreamEnds(list(ends.values()) if self._plan.bounded else (), by_source=ends)

    def close(self) -> None:
        """Close all connections."""
        for stopping in self._stopping.values():
            stopping.close()

    def _check_there(self) -> None:
        """Reject an end that isn't available yet if the job can't restart its query."""
        if not self._plan.bounded:
            return
        others = [
            source.step.name
            for source in self._plan.sources
            if source.uid not in self._stopping and not source.step.collection
        ]
        if not self._plan.batch and not others:
            return
        why = "a job in BATCH mode reads what is there" if self._plan.batch else f"{others[0]!r} is read once, at the start"
        for uid, stopping in self._stopping.items():
            missing = stopping.missing(self._found[uid], stopping.latest())
            if missing is not None:
                message = f"The end of {uid!r} isn't there yet: {missing}; and {why}."
                raise ExternalSystemError(message, where=uid, hint="start the job once the records are there")
