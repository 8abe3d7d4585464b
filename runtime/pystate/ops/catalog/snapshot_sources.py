"""What the sources of a snapshot's job had read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pystate.connectors.installed_connectors import connectors
from pystate.connectors.operators.split_feed import ENUMERATOR, SPLITS
from pystate.core.snapshot.metadata import CheckpointMetadata
from pystate.core.snapshot.operator_state import OperatorState
from pystate.core.snapshot.reading.state_rows import value_decoder
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.operator.format import OperatorStateReader
from pystate.runtime.engines.micro_batch.spark.source_progress import SourceProgress, source_progress, words


def snapshot_sources(location: SnapshotLocation, metadata: CheckpointMetadata) -> list[SourceProgress]:
    """Return the positions of all sources: those that Spark reads, and those in slots.

    Raises:
        SnapshotError: A file is missing or damaged.
    """
    position, found = metadata.source_position, []
    if position is not None:
        found = source_progress(position, location.read_whole(position.files))
    in_slots = split_positions(location, metadata.operators)
    return found + [SourceProgress(uid, words(offset, {}), offset) for uid, offset in in_slots.items()]


def split_positions(location: SnapshotLocation, operators: Iterable[OperatorState]) -> dict[str, str]:
    """Return how far each source in slots was read of which a connector knows it, by uid, as JSON.

    Args:
        location: The snapshot's directory.
        operators: The operators in its metadata.

    Raises:
        SnapshotError: A file is missing, or damaged.
    """
    positions: dict[str, str] = {}
    for operator in operators:
        found, splits = _kept(location, operator)
        for connector in connectors().values() if splits or found is not None else ():
            position = connector.position_of_source(found, splits)
            if position is not None:
                positions[operator.uid] = position
                break
    return positions


def _kept(location: SnapshotLocation, operator: OperatorState) -> tuple[Any, list[Any]]:
    """Return what the enumerator of a source has found, and the assigned and the unassigned splits."""
    found, splits = None, list[Any]()
    for _, subtask in sorted(operator.subtasks.items()):
        for handle in subtask.operator_state:
            if not {SPLITS, ENUMERATOR} & handle.states.keys():
                continue
            with location.open(handle.handle) as file:
                reader = OperatorStateReader(file, location.uri)
                splits += _values(reader, SPLITS)
                for (state,) in _values(reader, ENUMERATOR):
                    if isinstance(state, (list, tuple)) and len(state) == 2 and isinstance(state[1], (list, tuple)):
                        found = state[0]
                        splits += state[1]
    return found, splits


def _values(reader: OperatorStateReader, name: str) -> Iterator[Any]:
    info = reader.states.get(name)
    if info is not None:
        _, decode = value_decoder(info.serializer, None, info.name)
        for (data,) in reader.entries(info.name, 0, info.entries):
            if data is not None:
                yield decode(data)
