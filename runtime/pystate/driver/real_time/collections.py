"""Collections of the program as sources in slots."""

from __future__ import annotations

from pystate.api.job_graph import OwnSourceTransformation, SourceTransformation, StreamGraph
from pystate.common.type_info import Types
from pystate.connectors.collection_source import CollectionSource
from pystate.connectors.source_operator import SourceOperator


def collections_in_slots(graph: StreamGraph, uids: dict[int, str]) -> None:
    """Put a source in slots into the place of each collection that Spark would read.

    Args:
        graph: The program; it is changed.
        uids: Of its steps, by `id(step)`; those of the new ones are added.
    """
    for index, source in enumerate(graph.sources):
        if source.collection is None or isinstance(source, OwnSourceTransformation):
            continue
        own = _in_slots(source)
        graph.sources[index] = own
        if id(source) in uids:
            uids[id(own)] = uids[id(source)]


def _in_slots(source: SourceTransformation) -> OwnSourceTransformation:
    """Return a source in slots that stands where the other one stood."""
    assert source.collection is not None  # noqa: S101 - the caller has looked
    output_type = source.output_type or Types.PICKLED_BYTE_ARRAY()
    own = OwnSourceTransformation(
        name=source.name,
        bounded=True,
        watermark_strategy=source.watermark_strategy,
        output_type=output_type,
        uid=source.uid,
        place=source.place,
        max_parallelism=source.max_parallelism,
        function=SourceOperator(CollectionSource(source.collection, source.output_type, source.name), output_type),
        non_parallel=True,
        parallelism=1,
    )
    own.children = source.children
    for child in own.children:
        child.parents = tuple(own if parent is source else parent for parent in child.parents)
    return own
