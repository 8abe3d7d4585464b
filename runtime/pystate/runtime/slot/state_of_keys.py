"""Writes the keyed state and the timers of some keys, windows among them, as a canonical file."""

from __future__ import annotations

import io
from collections.abc import Hashable, Iterable
from typing import Any

from pystate.common.errors import StateError
from pystate.common.overrides import override
from pystate.core.state.base.backend_snapshot import CountedSnapshot
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend


class TooLargeError(Exception):
    """The state takes more bytes than it may."""


class _BoundedBytes(io.BytesIO):
    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    @override
    def write(self, data: Any) -> int:
        if self.tell() + len(data) > self._most:
            raise TooLargeError
        return super().write(data)


def state_of_keys(backend: KeyedStateBackend, keys: Iterable[Hashable], most_bytes: int) -> bytes:
    """Return the file with what the keys have after the last flushed epoch.

    Args:
        backend: Holds the state.
        keys: Internal keys.
        most_bytes: How many bytes it may have.

    Raises:
        TooLargeError: It has more.
        StateError: The backend can't write only some keys.
        PystateError: See `KeyedStateSnapshot.write_canonical`.
    """
    codec = backend.key_codec
    wanted: dict[int, set[bytes]] = {}
    for key in keys:
        wanted.setdefault(codec.key_group(key, backend.max_parallelism), set()).add(codec.encode(key))
    snapshot = backend.snapshot()
    sink = _BoundedBytes(most_bytes)
    try:
        if not isinstance(snapshot, CountedSnapshot):
            message = f"The state backend {type(backend).__name__} can't write the state of one key."
            raise StateError(message)
        snapshot.restrict(wanted)
        snapshot.write_canonical(sink)
    finally:
        snapshot.release()
    return sink.getvalue()
