"""Where bounded streams end whose connector finds it: once, kept in snapshots, and waited for where it isn't there yet.

Spark ends a query at what is there when it starts, and a query that goes on behind a snapshot would ask anew. So what is
behind the end is filtered out, and a query that ends in front of it is started again once there is more.
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
"""Lies beside what Spark itself keeps of a stream, and so is in its part of each snapshot."""
_LOOK_EACH_S = 1.0


class _End(NamedTuple):
    stopping: StoppingOffsets
    end: bytes


class StreamEnds:
    """Those of one attempt.

    Args:
        ends: Of each stream that has one and that is waited for.
        clock: Monotonic seconds.
        by_source: Of each stream that has one, by the uid of its source.
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
        """Take note of what is there: the query reads no less.

        Raises:
            PystateError: A system that is read doesn't say.
        """
        self._seen = self._latest()
        self._look_at = self._clock() + _LOOK_EACH_S

    @property
    def reached(self) -> bool:
        """Whether the query that was started last, and has ended, has read all."""
        return all(one.stopping.missing(one.end, seen) is None for one, seen in zip(self._ends, self._seen, strict=True))

    def start_again(self, start: Callable[[], object]) -> None:
        """Start the query again where there is more than when it started last; asks once in a while.

        Args:
            start: Starts it.
        """
        if self._clock() < self._look_at:
            return
        self._look_at = self._clock() + _LOOK_EACH_S
        try:
            latest = self._latest()
        except PystateError:  # it may be away for a while
            return
        if latest != self._seen:
            start()

    def _latest(self) -> list[bytes]:
        return [one.stopping.latest() for one in self._ends]


class BoundedStreams:
    """The bounded streams of one job.

    Args:
        plan: The job.
        sources: What the lines of the query's offset log are about.
        bound: Limits what an epoch reads of a source: of its DataFrame and its name.

    Raises:
        ExternalSystemError: An end isn't there yet, and the job can't wait for it.
        PystateError: The system that a stream reads doesn't say where it ends.
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
        """Return an attempt's DataFrames, Spark's logs, and the ends.

        Args:
            frames: The DataFrames of the plan's sources, without an end.
            files: Spark's logs at the cut that the attempt goes on from.

        Raises:
            PystateError: The system that a stream reads doesn't say where partitions end that a snapshot doesn't know.
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
        """Let go of all connections."""
        for stopping in self._stopping.values():
            stopping.close()

    def _check_there(self) -> None:
        """Refuse an end that isn't there yet where the job can't start its query again."""
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
