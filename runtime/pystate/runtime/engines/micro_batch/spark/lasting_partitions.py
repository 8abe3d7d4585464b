"""Sources with lasting partitions: each row names its partition, and the partitions are the same in every epoch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pystate.connectors.installed_connectors import spark_formats
from pystate.runtime.engines.micro_batch.spark.stream_formats import format_of, streams_of
from pystate.runtime.slot.event_time.chain_time import MIN_WATERMARK
from pystate.runtime.slot.operators.timestamps import TimestampsAndWatermarks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def partition_columns(frame: DataFrame) -> tuple[str, ...]:
    """Return the columns that name the lasting partition of each row of a source.

    Empty if the source has no such partitions, if the DataFrame has several sources, or if it doesn't keep those columns
    unchanged.
    """
    lasting = [one.partition_columns for one in spark_formats() if one.partition_columns]
    if not any(set(names) <= set(frame.columns) for names in lasting):
        return ()
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - pyspark has no public way to the plan
    streams = list(streams_of(plan))
    known = format_of(streams[0]) if len(streams) == 1 else None
    names = () if known is None else known.partition_columns
    read = dict(_attributes(streams[0], names)) if names else {}
    kept = dict(_attributes(plan, names))
    return names if read and read == kept else ()


def _attributes(plan: Any, names: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """Yield the attributes of those names in a plan, with the id that distinguishes each from others of the same name."""
    output = plan.output()
    for index in range(output.length()):
        attribute = output.apply(index)
        if str(attribute.name()) in names:
            yield str(attribute.name()), int(attribute.exprId().id())


class PartitionWatermarks:
    """Tracks the watermarks of the partitions read by one Spark task, for assigners that know one partition at a time.

    Args:
        columns: The columns that name a row's partition; none if the whole source is one channel.
        assigners: The assigners of the source's stage.
    """

    def __init__(self, columns: tuple[str, ...], assigners: Mapping[str, TimestampsAndWatermarks]) -> None:
        self._columns = columns
        self._assigners = assigners if columns else {}
        self._highest: dict[str, dict[str, int]] = {}

    def begin(self) -> None:
        """Forget all partitions, before those of another Spark task."""
        self._highest = {}

    def runs(self, batch: pa.RecordBatch, elements: Iterable[Any]) -> Iterator[Iterator[Any]]:
        """Yield the elements of a batch in runs of one partition; each run must be consumed before the next."""
        if not self._assigners:
            yield iter(elements)
            return
        names = zip(*(batch.column(column).to_pylist() for column in self._columns), strict=True)
        for name, run in groupby(zip(names, elements, strict=True), key=itemgetter(0)):
            partition = ":".join(map(str, name))
            self._move_to(partition)
            yield map(itemgetter(1), run)
            self._highest[partition] = {uid: assigner.highest for uid, assigner in self._assigners.items()}

    def partitions(self) -> Iterator[str | None]:
        """Yield the names of the partitions that had rows, None for the whole source; assigners report the yielded one."""
        if not self._columns:
            yield None
        for partition in self._highest:
            self._move_to(partition)
            yield partition

    def _move_to(self, partition: str) -> None:
        known = self._highest.get(partition, {})
        for uid, assigner in self._assigners.items():
            assigner.begin(known.get(uid, MIN_WATERMARK))
