"""Compares the content of a state in two snapshots whose type, number of entries and bytes are equal."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack

from pystate.core.snapshot.handles.incremental_handle import IncrementalKeyedStateHandle
from pystate.core.snapshot.metadata import CheckpointMetadata
from pystate.core.snapshot.operator_state import OperatorState, OperatorSubtaskState
from pystate.core.snapshot.reading.inspection import StateFigures
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.operator.format import OperatorStateMode, OperatorStateReader
from pystate.ops.catalog.difference import SnapshotState, key_changes

_DIGEST_BYTES = 16

Side = tuple[SnapshotLocation, CheckpointMetadata]
"""A snapshot and its metadata."""


class ContentComparison:
    """Compares the contents of two snapshots, one key group or element at a time.

    Args:
        before: The earlier snapshot.
        after: The later snapshot.
    """

    def __init__(self, before: Side, after: Side) -> None:
        self._sides = (before, after)

    def are_equal(self, uid: str, state: StateFigures) -> bool | None:
        """Return whether a state of both snapshots has the same content.

        Raw state and native files can't be compared entry by entry: None, unless they are the same files.

        Args:
            uid: The operator.
            state: The figures of the state in one snapshot.

        Raises:
            SnapshotError: A file is missing or damaged.
        """
        operators = [_operator(metadata, uid) for _, metadata in self._sides]
        if None in operators:
            return None
        old, new = (operator for operator in operators if operator is not None)
        if _files(old) == _files(new):
            return True
        if state.kind in ("RAW", "RAW KEYED"):
            return None
        if state.kind in ("OPERATOR LIST", "UNION LIST", "BROADCAST"):
            return self._elements(0, old, state.name) == self._elements(1, new, state.name)
        if old.max_parallelism != new.max_parallelism or any(map(_is_native, (old, new))):
            return None
        sides = [SnapshotState(location, metadata, uid, state.name) for location, metadata in self._sides]
        return next(key_changes(*sides), None) is None

    def _elements(self, side: int, operator: OperatorState, name: str) -> int:
        """Return a digest of the elements of all subtasks, in any order: rescaling redistributes them."""
        location = self._sides[side][0]
        with ExitStack() as files:
            readers = [
                OperatorStateReader(files.enter_context(location.open_unchecked(handle.handle)), location.uri)
                for _, subtask in sorted(operator.subtasks.items())
                for handle in subtask.operator_state
            ]
            found = [reader for reader in readers if name in reader.states]
            if any(reader.states[name].mode is OperatorStateMode.BROADCAST for reader in found):
                found = found[:1]  # every subtask has all entries
            return sum(_digests(reader.entries(name, 0, reader.states[name].entries) for reader in found))


def _digests(readers: Iterable[Iterator[tuple[bytes | None, ...]]]) -> Iterator[int]:
    for entries in readers:
        for entry in entries:
            digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
            for item in entry:
                digest.update(b"-" if item is None else len(item).to_bytes(8, "big") + item)
            yield int.from_bytes(digest.digest(), "big")


def _operator(metadata: CheckpointMetadata, uid: str) -> OperatorState | None:
    return next((operator for operator in metadata.operators if operator.uid == uid), None)


def _is_native(operator: OperatorState) -> bool:
    handles = (handle for subtask in operator.subtasks.values() for handle in subtask.keyed_state)
    return any(isinstance(handle, IncrementalKeyedStateHandle) for handle in handles)


def _files(operator: OperatorState) -> dict[int, OperatorSubtaskState]:
    """Return an identity of the files of an operator: equal for snapshots that refer to the same files."""
    return dict(operator.subtasks)
