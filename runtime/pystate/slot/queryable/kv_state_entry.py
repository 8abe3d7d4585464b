"""One queryable state of one subtask, and what is read of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pystate.api.state import StateKind
from pystate.common.errors import CorruptSnapshotError, RestoreError, StateError
from pystate.common.key_groups import KeyGroupRange
from pystate.common.time import current_time_ms
from pystate.queryable.messages import QueryableState, QueryOutcome, StateAnswer, StateRead, StateVersion
from pystate.state.base.committed_states import CommittedStates, CommittedVersion, VersionKey
from pystate.state.base.committed_view import StateView
from pystate.state.base.keys import KeyCodec
from pystate.state.base.namespaces import split_namespace
from pystate.state.base.queryable_states import QueryableStateInfo
from pystate.state.base.ttl.serializer import TIME_BYTES, time_of_mark

_NONE = -1
_PLACE_BYTES = 8
_CURSOR_HEAD = 2 * _PLACE_BYTES
"""A cursor begins with epoch and checkpoint of the version that it goes on in."""


@dataclass(frozen=True)
class KvStateEntry:
    """A queryable state of a subtask (Flink's KvStateEntry).

    Attributes:
        description: What clients are told of it.
        info: What the backend says of it.
        key_codec: Of the keys.
        key_groups: Of the subtask.
        versions: Of the subtask.
        clock: By which values expire, ms since 1970.
    """

    description: QueryableState
    info: QueryableStateInfo
    key_codec: KeyCodec
    key_groups: KeyGroupRange
    versions: CommittedStates
    clock: Callable[[], int] = current_time_ms

    def read(self, read: StateRead, version: CommittedVersion) -> StateAnswer:
        """Return what a version holds of a key.

        Args:
            read: Of this state.
            version: Of this subtask; held by the caller.
        """
        said = StateVersion(version.key.epoch, version.key.checkpoint_id, version.timestamp)
        try:
            internal = self.key_codec.decode(read.key)
            key_group = self.key_codec.key_group(internal, self.description.max_parallelism)
        except (RestoreError, CorruptSnapshotError, StateError) as error:
            return StateAnswer(QueryOutcome.WRONG_KEY_TYPE, version=said, message=error.message)
        if key_group not in self.key_groups:
            message = f"Key group {key_group} isn't one of this slot's, {self.key_groups}."
            return StateAnswer(QueryOutcome.NOT_SERVING, version=said, message=message)
        schema = self.info.schema
        try:
            namespace = schema.namespaces.decode(b"" if read.namespace is None else split_namespace(read.namespace)[0])
        except (RestoreError, CorruptSnapshotError, StateError) as error:
            return StateAnswer(QueryOutcome.WRONG_NAMESPACE, version=said, message=error.message)
        view = version.view.state(self.info.state_name)
        address = schema.addresses(self.key_codec).address(internal, namespace)
        found = None if view is None else self._found(view, address, key_group, read, version.key)
        if found is None:
            return StateAnswer(QueryOutcome.NO_VALUE, version=said)
        value, cursor = found
        return StateAnswer(QueryOutcome.OK, value, cursor, said)

    def _found(
        self, view: StateView, address: Any, key_group: int, read: StateRead, key: VersionKey
    ) -> tuple[Any, bytes | None] | None:
        alive = self._alive()
        place = None if read.cursor is None else read.cursor[_CURSOR_HEAD:]
        if self.info.schema.kind is StateKind.MAP:
            entries, end = view.entries(address, key_group, read.prefix or b"", place, read.limit)
            pairs = [(user_key, self._plain(data)) for user_key, data in entries if alive(data)]
            if not pairs and end is None and place is None:
                return None
            return pairs, None if end is None else _cursor_head(key) + end
        if self.info.schema.kind is StateKind.LIST:
            elements = [self._plain(data) for data in view.elements(address, key_group) if alive(data)]
            start = 0 if place is None else int.from_bytes(place, "big")
            if not elements:
                return None
            stop = start + read.limit
            end = stop.to_bytes(_PLACE_BYTES, "big") if stop < len(elements) else None
            return elements[start:stop], None if end is None else _cursor_head(key) + end
        data = view.value(address, key_group)
        return None if data is None or not alive(data) else (self._plain(data), None)

    def _plain(self, data: bytes) -> bytes:
        return data[TIME_BYTES:] if self.info.schema.has_ttl else data

    def _alive(self) -> Callable[[bytes], bool]:
        millis = self.info.ttl_millis
        if millis is None:
            return _always
        bound = self.clock() - millis
        return lambda data: time_of_mark(data) > bound


def _always(_data: bytes) -> bool:
    return True


def _cursor_head(key: VersionKey) -> bytes:
    checkpoint_id = _NONE if key.checkpoint_id is None else key.checkpoint_id
    return key.epoch.to_bytes(_PLACE_BYTES, "big", signed=True) + checkpoint_id.to_bytes(_PLACE_BYTES, "big", signed=True)


def version_of(cursor: bytes) -> VersionKey | None:
    """Return the version that a cursor goes on in; None where it is no cursor."""
    if len(cursor) < _CURSOR_HEAD:
        return None
    epoch = int.from_bytes(cursor[:_PLACE_BYTES], "big", signed=True)
    checkpoint_id = int.from_bytes(cursor[_PLACE_BYTES:_CURSOR_HEAD], "big", signed=True)
    return VersionKey(epoch, None if checkpoint_id == _NONE else checkpoint_id)
