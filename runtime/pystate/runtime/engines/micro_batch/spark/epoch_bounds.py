"""Bounds how much one epoch reads of a source without a limit of its own: otherwise the first epoch reads the whole backlog.

A barrier waits for the end of its epoch, a restart reruns the epoch, and the changes of an epoch must fit in memory. The
limit is put into the plan of the DataFrame as the source option that the author could have set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.configuration.option_types import MemorySizeType
from pystate.connectors.spark_format import ReadUnit
from pystate.runtime.engines.micro_batch.spark.stream_formats import (
    V1,
    format_name,
    format_of,
    node_name,
    relation_options,
)
from pystate.runtime.engines.micro_batch.spark.stream_plans import copied, frame_of, jvm, rewritten

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class _Bound:
    """The most that an epoch reads of a source.

    Attributes:
        value: In the unit of the source's limit; 0 for no bound.
        said: The same as text for users.
        key: The pystate option that sets it.
    """

    value: int
    said: str
    key: str


class EpochBounds:
    """The read limits of one job.

    Args:
        configuration: The effective options.
        parallelism: The job's parallelism; the limit of a source is that of one subtask times this.
    """

    def __init__(self, configuration: Configuration, parallelism: int) -> None:
        size = configuration.get(PystateOptions.SOURCE_MAX_BYTES_PER_EPOCH) * parallelism
        rows = configuration.get(PystateOptions.SOURCE_MAX_ROWS_PER_EPOCH) * parallelism
        self._bounds = {
            ReadUnit.BYTES: _Bound(size, MemorySizeType().format(size), PystateOptions.SOURCE_MAX_BYTES_PER_EPOCH.key),
            ReadUnit.ROWS: _Bound(rows, f"{rows} rows", PystateOptions.SOURCE_MAX_ROWS_PER_EPOCH.key),
        }

    def bound(self, frame: DataFrame, where: str) -> tuple[DataFrame, list[str]]:
        """Return the DataFrame with limits for streams that have none, and a sentence about each kind that got one.

        Args:
            frame: A streaming DataFrame.
            where: The source's name.
        """
        notices: list[str] = []

        def limited(relation: Any) -> Any:
            known = format_of(relation)
            limit = None if known is None else known.limit
            if limit is None:
                if known is None or not known.limits_itself:
                    notices.append(
                        f"The source {where!r} reads {format_name(relation)!r}, of which pystate knows no limit: its first "
                        "epoch may hold all that is there. Set the limit that the format has."
                    )
                return relation
            bound = self._bounds[limit.unit]
            own = {option.lower() for option in (limit.option, *limit.others)}
            if bound.value == 0 or not own.isdisjoint(relation_options(relation)):
                return relation
            notices.append(f"An epoch reads at most {bound.said} of the source {where!r}: {bound.key} sets this limit.")
            return _with_option(relation, limit.option, str(bound.value))

        plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - pyspark has no public way to the plan
        bounded = rewritten(plan, limited)
        if bounded.equals(plan):
            return frame, list(dict.fromkeys(notices))
        return frame_of(bounded, frame.sparkSession), list(dict.fromkeys(notices))


def _with_option(relation: Any, key: str, value: str) -> Any:
    if node_name(relation) == V1:
        source = relation.dataSource()
        return copied(relation, dataSource=copied(source, options=source.options().updated(key, value)))
    options = jvm().java.util.HashMap(relation.extraOptions().asCaseSensitiveMap())
    options.put(key, value)
    return copied(relation, extraOptions=jvm().org.apache.spark.sql.util.CaseInsensitiveStringMap(options))
