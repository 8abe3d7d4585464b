"""Finds sources read by Spark that have ended while others continue, so that they no longer hold back event time.

The result depends only on how far a batch reads, so it is the same when an epoch is rerun. Nothing is stored: it is sent
again with each epoch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from pystate.runtime.engines.micro_batch.driver.stream_ends import StreamEnds
from pystate.runtime.engines.micro_batch.spark.exchange import ENDED_PROPERTY
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import NO_OFFSET, SparkSource
from pystate.runtime.plan.event_time import source_channels
from pystate.runtime.plan.job_plan import JobPlan, SourcePlan
from pystate.runtime.spark.spark_collection_source import is_read_whole

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql.streaming.query import StreamingQuery


class EndedSources:
    """Finds the ended sources of one attempt.

    Args:
        plan: The job.
        sources: The sources of the lines in the query's offset log.
        offsets: Returns those lines for a batch that has begun.
        ends: The end offsets of streams whose connector finds them.
    """

    def __init__(
        self,
        plan: JobPlan,
        sources: Sequence[SparkSource],
        offsets: Callable[[int], Sequence[str]],
        ends: StreamEnds,
    ) -> None:
        self._channels = source_channels(plan)
        self._sources = sources
        self._offsets = offsets
        self._ends = ends
        self._outlived = plan.bounded and bool(plan.own_sources)
        known = ends.by_source
        may_end = [source for source in plan.sources if source.step.collection is not None or source.uid in known]
        self._watched: dict[str, SourcePlan] = {}
        if not plan.bounded:  # otherwise the query ends with all of them
            self._watched = {source.uid: source for source in may_end if source.uid in self._channels}

    def tell(self, context: SparkContext, batch: int, query: StreamingQuery | None) -> None:
        """Tell the Spark tasks of an epoch, started by this thread, which sources have ended after it.

        Args:
            context: The Spark context.
            batch: Spark's number of the last batch that the epoch's sources have read; -1 for none.
            query: The job's query; None for none. It may have ended while sources in slots continue.
        """
        all_read = self._outlived and query is not None and not query.isActive and self._ends.reached
        if all_read or self._watched:
            ended = self.channels(batch, all_read=all_read)
            context.setLocalProperty(ENDED_PROPERTY, json.dumps(ended) if ended else cast("str", None))  # None removes it

    def channels(self, batch: int, *, all_read: bool = False) -> tuple[str, ...]:
        """Return the channels of the sources that have ended after a batch.

        Args:
            batch: Spark's batch number; -1 for none.
            all_read: Whether the query ended because it had read everything.
        """
        if all_read:
            return tuple(channel for channels in self._channels.values() for channel in channels)
        if not self._watched:
            return ()
        offsets = self._offsets(batch) if batch >= 0 else [NO_OFFSET] * len(self._sources)
        ended: list[str] = []
        for uid, source in self._watched.items():
            mine = [offset for one, offset in zip(self._sources, offsets, strict=True) if one.uid == uid]
            if all(self._is_end(source, offset) for offset in mine):
                ended += self._channels[uid]
        return tuple(ended)

    def _is_end(self, source: SourcePlan, offset: str) -> bool:
        if offset == NO_OFFSET:
            return source.step.collection is not None and not source.step.collection
        if source.step.collection is not None:
            return is_read_whole(source.step, offset)
        stopping, end = self._ends.by_source[source.uid]
        return stopping.missing(end, offset.encode()) is None
