"""One queryable state of one subtask, and its reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from pystate.common.errors import CorruptSnapshotError, RestoreError, StateError
from pystate.common.key_groups import KeyGroupRange
from pystate.common.time import current_time_ms
from pystate.core.api.state import StateKind
from pystate.core.queryable.kv_state_messages import QueryableState, QueryOutcome, StateAnswer, StateRead, StateVersion
from pystate.core.queryable.server.answer_room import AnswerRoom
from pystate.core.state.base.committed_states import CommittedStates, CommittedVersion, VersionKey
from pystate.core.state.base.queryable_states import ENTRY_BYTES, PageBound, QueryableStateInfo, StateView
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.keys.namespaces import split_namespace
from pystate.core.state.ttl.ttl_serializer import TIME_BYTES, time_of_mark

_NONE = -1
_PLACE_BYTES = 8
_MARK_BYTES = 4
_VERSION_BYTES = 2 * _PLACE_BYTES
_CURSOR_HEAD = _VERSION_BYTES + _MARK_BYTES
"""A cursor begins with the epoch and checkpoint of its version, and with the checksum of what it reads."""


@dataclass(frozen=True)
class KvStateEntry:
    """A queryable state of a subtask (Flink's KvStateEntry).

    Attributes:
        description: The description sent to clients.
        info: The backend's description of it.
        key_codec: The codec of the keys.
        key_groups: The key groups of the subtask.
        versions: The committed versions of the subtask.
        clock: Returns the time for expiring values, ms since 1970.
    """

    description: QueryableState
    info: QueryableStateInfo
    key_codec: KeyCodec
    key_groups: KeyGroupRange
    versions: CommittedStates
    clock: Callable[[], int] = current_time_ms

    def read(self, read: StateRead, version: CommittedVersion, room: AnswerRoom) -> StateAnswer:
        """Return the value of a key in a version.

        Args:
            read: A read of this state.
            version: A version of this subtask, held by the caller.
            room: The remaining size of answers, which is reduced.
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
        if read.cursor is not None and read.cursor[_VERSION_BYTES:_CURSOR_HEAD] != _mark_of(read):
            message = "The cursor is that of another state, key, namespace or prefix."
            return StateAnswer(QueryOutcome.BAD_REQUEST, version=said, message=message)
        view = version.view.state(self.info.state_name)
        if view is None:
            return StateAnswer(QueryOutcome.NO_VALUE, version=said)
        address = schema.addresses(self.key_codec).address(internal, namespace)
        if schema.kind is StateKind.MAP:
            return self._entries(view, address, key_group, read, said, room)
        if schema.kind is StateKind.LIST:
            return self._elements(view, address, key_group, read, said, room)
        data = view.value(address, key_group)
        if data is None or not self._alive()(data):
            return StateAnswer(QueryOutcome.NO_VALUE, version=said)
        if not room.take(len(data)):
            return room.refusal(len(data), said)
        return StateAnswer(QueryOutcome.OK, self._plain(data), None, said)

    def _entries(
        self, view: StateView, address: Any, key_group: int, read: StateRead, said: StateVersion, room: AnswerRoom
    ) -> StateAnswer:
        place, alive = _place(read), self._alive()
        entries, end = view.entries(address, key_group, read.prefix or b"", place, PageBound(read.limit, room.left))
        pairs = [(user_key, self._plain(data)) for user_key, data in entries if alive(data)]
        if not pairs and end is None and read.cursor is None:
            return StateAnswer(QueryOutcome.NO_VALUE, version=said)
        size = sum(len(user_key) + len(data) + ENTRY_BYTES for user_key, data in pairs)
        if room.take(size):
            return StateAnswer(QueryOutcome.OK, pairs, None if end is None else _cursor(read, said, end), said)
        return _no_room(read, said, room, size)

    def _elements(
        self, view: StateView, address: Any, key_group: int, read: StateRead, said: StateVersion, room: AnswerRoom
    ) -> StateAnswer:
        elements, alive = view.elements(address, key_group), self._alive()
        if read.cursor is None and not any(map(alive, elements)):
            return StateAnswer(QueryOutcome.NO_VALUE, version=said)
        # positions count expired elements, too: more of them may expire between two pages
        start = stop = int.from_bytes(_place(read) or b"", "big")
        found: list[bytes] = []
        for data in elements[start : start + read.limit]:
            if alive(data):
                size = len(data) + ENTRY_BYTES
                if not room.take(size):
                    if not found:
                        return _no_room(read, said, room, size)
                    break
                found.append(self._plain(data))
            stop += 1
        end = stop.to_bytes(_PLACE_BYTES, "big") if stop < len(elements) else None
        return StateAnswer(QueryOutcome.OK, found, None if end is None else _cursor(read, said, end), said)

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


def _no_room(read: StateRead, said: StateVersion, room: AnswerRoom, size: int) -> StateAnswer:
    """Return the answer if not even the first entry or element fits: it follows in the next page, if possible."""
    if room.is_whole:
        return room.refusal(size, said)
    return StateAnswer(QueryOutcome.OK, [], _cursor(read, said, _place(read) or b""), said)


def _place(read: StateRead) -> bytes | None:
    """Return the position at which a read begins; None for the beginning."""
    return None if read.cursor is None else read.cursor[_CURSOR_HEAD:] or None


def _cursor(read: StateRead, said: StateVersion, place: bytes) -> bytes:
    checkpoint_id = _NONE if said.checkpoint_id is None else said.checkpoint_id
    numbers = (number.to_bytes(_PLACE_BYTES, "big", signed=True) for number in (said.epoch, checkpoint_id))
    return b"".join((*numbers, _mark_of(read), place))


def _mark_of(read: StateRead) -> bytes:
    """Return a checksum that distinguishes the cursors of a state, key, namespace and prefix from others."""
    parts = read.name.encode("utf-8", "surrogatepass"), read.key, read.namespace or b"", read.prefix or b""
    mark = 0
    for part in parts:
        mark = crc32(part, crc32(len(part).to_bytes(_PLACE_BYTES, "big"), mark))
    return mark.to_bytes(_MARK_BYTES, "big")


def version_of(cursor: bytes) -> VersionKey | None:
    """Return the version in which a cursor continues; None for invalid cursors."""
    if len(cursor) < _CURSOR_HEAD:
        return None
    epoch = int.from_bytes(cursor[:_PLACE_BYTES], "big", signed=True)
    checkpoint_id = int.from_bytes(cursor[_PLACE_BYTES:_VERSION_BYTES], "big", signed=True)
    return VersionKey(epoch, None if checkpoint_id == _NONE else checkpoint_id)
