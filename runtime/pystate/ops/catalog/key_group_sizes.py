"""The size of an operator's keyed state by key group, so that skew is seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any

from pystate.common.errors import SnapshotError
from pystate.common.text.json_text import json_text
from pystate.core.snapshot.handles.incremental_handle import IncrementalKeyedStateHandle
from pystate.core.snapshot.metadata import CheckpointMetadata
from pystate.core.snapshot.reading.inspection import canonical_reader
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation


@dataclass
class KeyGroupSizes:
    """The keyed state of an operator by key group.

    Attributes:
        uid: The operator.
        max_parallelism: Its number of key groups.
        subtasks: The first and the last key group of each subtask, in order.
        states: The bytes per key group of each state, by name. Key groups without state are left out.
        is_native: Whether some of it is in a backend's own files, which don't say it.
    """

    uid: str
    max_parallelism: int
    subtasks: list[tuple[int, int]] = field(default_factory=list)
    states: dict[str, dict[int, int]] = field(default_factory=dict)
    is_native: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-able data."""
        return {
            "uid": self.uid,
            "max-parallelism": self.max_parallelism,
            "subtasks": [list(ends) for ends in self.subtasks],
            "states": [
                {"name": name, "bytes": {str(group): size for group, size in sorted(sizes.items())}}
                for name, sizes in sorted(self.states.items())
            ],
            "native": self.is_native,
        }


@dataclass
class KeySize:
    """The part of a key in a state.

    Attributes:
        key: The key, as JSON.
        entries: Its values, list elements or map entries.
        size: The bytes of them, without the format's own.
    """

    key: str
    entries: int = 0
    size: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-able data."""
        return {"key": self.key, "entries": self.entries, "bytes": self.size}


def heaviest_keys(reader: SnapshotReader, uid: str, state: str, key_group: int, most: int) -> tuple[list[KeySize], int]:
    """Return the largest keys of a key group, the largest first, and the number of its keys.

    Args:
        reader: The snapshot.
        uid: The operator.
        state: Its keyed state.
        key_group: The key group; no other one is read.
        most: How many keys to return.

    Raises:
        SnapshotError: There is no such operator or state, or a file is damaged.
    """
    found: dict[bytes, KeySize] = {}
    last: tuple[bytes, bytes] | None = None
    for row in reader.keyed_rows(uid, state, key_group=key_group):
        known = found.get(row.key_bytes)
        if known is None:
            known = found[row.key_bytes] = KeySize(json_text(row.key))
        known.entries += 1
        known.size += len(row.sub_key_bytes) + len(row.value_bytes)
        if last != (row.key_bytes, row.namespace_bytes):  # the file has them once for all that is below them
            last = (row.key_bytes, row.namespace_bytes)
            known.size += len(row.key_bytes) + len(row.namespace_bytes)
    return nlargest(most, found.values(), key=lambda one: (one.size, one.entries)), len(found)


def key_group_sizes(location: SnapshotLocation, metadata: CheckpointMetadata, uid: str) -> KeyGroupSizes:
    """Return the sizes, read from the indexes of the files alone.

    Args:
        location: The snapshot's directory.
        metadata: The content of `_metadata`.
        uid: The operator.

    Raises:
        SnapshotError: There is no such operator, or a file is missing or damaged.
    """
    operator = next((one for one in metadata.operators if one.uid == uid), None)
    if operator is None:
        known = ", ".join(sorted(one.uid for one in metadata.operators))
        message = f"There is no operator {uid!r} in the snapshot; there are: {known}."
        raise SnapshotError(message, where=location.uri)
    found = KeyGroupSizes(uid, operator.max_parallelism)
    for _, subtask in sorted(operator.subtasks.items()):
        for handle in subtask.keyed_state:
            groups = handle.key_group_range
            found.subtasks.append((groups.start, groups.end))
            if isinstance(handle, IncrementalKeyedStateHandle):
                found.is_native = True
                continue
            with location.open_unchecked(handle.handle) as file:
                reader = canonical_reader(handle, file, location.uri)
                for info in reader.header.states:
                    sizes = found.states.setdefault(info.name, {})
                    for group, size in reader.key_group_bytes(info).items():
                        sizes[group] = sizes.get(group, 0) + size
    return found
