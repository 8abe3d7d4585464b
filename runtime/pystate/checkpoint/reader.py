"""Reads the keyed state of a checkpoint or savepoint without a job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pystate.checkpoint.metadata import CheckpointMetadata, OperatorState, read_metadata
from pystate.checkpoint.storage import resolve_snapshot
from pystate.common.errors import SnapshotError
from pystate.state.base.canonical import CanonicalReader
from pystate.state.base.keys import KeyCodec
from pystate.state.base.serializers import serializer_from_snapshot


class SnapshotReader:
    """One checkpoint or savepoint.

    Args:
        path: Its directory, or its `_metadata`.

    Raises:
        SnapshotError: There is none, or it is damaged.
    """

    def __init__(self, path: str) -> None:
        self._location = resolve_snapshot(path)
        self.metadata: CheckpointMetadata = read_metadata(self._location.read_metadata(), self._location.uri)

    def operator(self, uid: str) -> OperatorState:
        """Return the state of the operator with that uid.

        Raises:
            SnapshotError: There is none.
        """
        for operator in self.metadata.operators:
            if operator.uid == uid:
                return operator
        known = ", ".join(repr(operator.uid) for operator in self.metadata.operators) or "none"
        message = f"The snapshot has no operator {uid!r}; it has: {known}."
        raise SnapshotError(message, where=self._location.uri)

    def keyed_entries(self, uid: str, state_name: str) -> Iterator[tuple[Any, Any]]:
        """Yield (key, value) of a keyed value state, one key group after another within each subtask.

        Raises:
            SnapshotError: There is no such operator or state, or a file is damaged.
        """
        for subtask in self.operator(uid).subtasks.values():
            for keyed in subtask.keyed_state:
                with self._location.open(keyed.handle) as file:
                    reader = CanonicalReader(file, where=self._location.uri)
                    yield from self._entries(reader, uid, state_name)

    def _entries(self, reader: CanonicalReader, uid: str, state_name: str) -> Iterator[tuple[Any, Any]]:
        states = {state.name: state for state in reader.header.states}
        if state_name not in states:
            known = ", ".join(repr(name) for name in states) or "none"
            message = f"The operator {uid!r} has no state {state_name!r}; it has: {known}."
            raise SnapshotError(message, where=self._location.uri)
        keys = KeyCodec(reader.header.key_type)
        serializer = serializer_from_snapshot(states[state_name].serializer)
        for group in reader.key_groups():
            for key, _, value in reader.entries(state_name, group):
                yield keys.external(keys.decode(key)), serializer.deserialize(value)
