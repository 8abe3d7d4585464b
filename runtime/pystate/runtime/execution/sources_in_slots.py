"""Sources that are read in slots: some always, those that Spark can read as well on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pystate.common.errors import JobGraphError
from pystate.common.type_info import TypeInformation, Types
from pystate.connectors.generated.collection_source import CollectionSource
from pystate.connectors.operators.source_operator import SourceOperator
from pystate.connectors.source import Source, StartsAt
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import OwnSourceTransformation, SourceTransformation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_InSlots = tuple[Source[Any, Any], TypeInformation | None]


def sources_in_slots(
    graph: StreamGraph,
    uids: dict[int, str],
    spark: SparkSession | None,
    wanted: Callable[[str], bool] = lambda uid: True,
) -> list[str]:
    """Replace sources that only slots can read, and selected others, by sources in slots.

    Args:
        graph: The program; it is modified.
        uids: The uids of its steps, by `id(step)`; those of the new steps are added.
        spark: The session; None if there is none.
        wanted: Whether to replace the source of a uid that Spark would read.

    Returns:
        The names of the replaced sources that Spark would have read.
    """
    replaced = []
    for index, source in enumerate(graph.sources):
        may_be_sparks = source.frame is not None or source.collection is not None
        if isinstance(source, OwnSourceTransformation) or (may_be_sparks and not wanted(uids.get(id(source), ""))):
            continue
        found = _source_of(source, spark)
        if found is None:
            continue
        own = _in_slots(source, *found)
        graph.sources[index] = own
        if id(source) in uids:
            uids[id(own)] = uids[id(source)]
        if may_be_sparks:
            replaced.append(source.name)
    return replaced


def _source_of(source: SourceTransformation, spark: SparkSession | None) -> _InSlots | None:
    if source.collection is not None:
        return CollectionSource(source.collection, source.output_type, source.name), source.output_type
    if source.in_slots is None:
        return None
    split_source, columns = source.in_slots(spark)
    declared = source.output_type
    if source.paths and not source.single_column and declared is not None:
        if declared.get_field_names() != columns.get_field_names():
            message = f"The source is declared as {declared.name}, its columns are {columns.name}."
            raise JobGraphError(message, where=source.name, hint="leave type_info out")
    return split_source, columns


def _in_slots(
    source: SourceTransformation, split_source: Source[Any, Any], type_info: TypeInformation | None
) -> OwnSourceTransformation:
    """Return a source in slots that replaces the given one."""
    output_type = type_info or Types.PICKLED_BYTE_ARRAY()
    alone = source.collection is not None  # its elements stay in order
    own = OwnSourceTransformation(
        name=source.name,
        bounded=source.bounded,
        watermark_strategy=source.watermark_strategy,
        output_type=output_type,
        uid=source.uid,
        place=source.place,
        taken={name: taken for name, taken in source.taken.items() if name == "watermark_strategy"},
        max_parallelism=source.max_parallelism,
        function=SourceOperator(split_source, output_type),
        non_parallel=alone,
        parallelism=1 if alone else source.parallelism,
        has_side_outputs=source.has_side_outputs,
    )
    # Its start position is set before each attempt (`spark_positions.py`), so it is pickled only then; the author's code in
    # it was captured when the program added it.
    del own.taken["function"]
    own.from_the_end = split_source.starts_at is StartsAt.THE_END
    own.from_the_group = split_source.starts_at is StartsAt.THE_GROUPS_OFFSETS
    own.children, source.children = source.children, []
    source.detached = True
    for child in own.children:
        child.parents = tuple(own if parent is source else parent for parent in child.parents)
    return own
