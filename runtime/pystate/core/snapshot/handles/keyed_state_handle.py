"""The handle of keyed state in one file, and its common base with that of several files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pystate.common.key_groups import MAX_PARALLELISM_LIMIT, KeyGroupRange
from pystate.core.snapshot.handles.handles import StateHandle, handle_from_plain, handle_to_plain
from pystate.core.snapshot.plain import as_map, take, take_int, take_text


@dataclass(frozen=True)
class KeyGroupsStateHandle:
    """The base of handles of keyed state of some key groups.

    Attributes:
        start_key_group: The first one.
        end_key_group: The last one, included.
        format: The format of the bytes.
    """

    start_key_group: int
    end_key_group: int
    format: str

    @property
    def key_group_range(self) -> KeyGroupRange:
        """The key groups."""
        return KeyGroupRange(self.start_key_group, self.end_key_group)

    def key_groups_to_plain(self) -> dict[str, Any]:
        """Return key groups and format as plain data."""
        return {"start_key_group": self.start_key_group, "end_key_group": self.end_key_group, "format": self.format}


def take_key_groups(data: dict[str, Any]) -> tuple[int, int, str]:
    """Return first and last key group, and the format, of a handle as plain data.

    Raises:
        CorruptSnapshotError: They aren't there, or don't fit each other.
    """
    start = take_int(data, "start_key_group", 0, MAX_PARALLELISM_LIMIT - 1)
    return start, take_int(data, "end_key_group", start, MAX_PARALLELISM_LIMIT - 1), take_text(data, "format")


@dataclass(frozen=True)
class KeyedStateHandle(KeyGroupsStateHandle):
    """Keyed state of some key groups in one file.

    Attributes:
        handle: The handle of the bytes.
    """

    handle: StateHandle

    @property
    def state_size(self) -> int:
        """The size of its state in bytes."""
        return self.handle.size

    @property
    def checkpointed_size(self) -> int:
        """The bytes that its checkpoint wrote."""
        return self.handle.size

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**self.key_groups_to_plain(), "handle": handle_to_plain(self.handle)}

    @classmethod
    def from_plain(cls, plain: object) -> KeyedStateHandle:
        """Rebuild it.

        Raises:
            CorruptSnapshotError: It isn't one.
        """
        data = as_map(plain, "a keyed state handle")
        return cls(*take_key_groups(data), handle_from_plain(take(data, "handle")))
