"""Handles of operator state: the location of the bytes, and the states and elements in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pystate.core.snapshot.handles.handles import StateHandle, handle_from_plain, handle_to_plain
from pystate.core.snapshot.plain import as_map, take, take_enum, take_int, take_text, unsound
from pystate.core.state.operator.format import OperatorStateMode

OPERATOR_STATE = "operator"
"""The format of managed operator state."""

RAW_STATE = "raw"
"""The format of raw state, keyed or not."""

RAW_STATE_NAME = "_default_"
"""Under this name a raw handle lists its partitions, as Flink has it."""


@dataclass(frozen=True)
class StateMetaInfo:
    """The metadata of one state in a handle: its redistribution mode, and its number of elements."""

    mode: OperatorStateMode
    count: int


@dataclass(frozen=True)
class OperatorStateHandle:
    """Operator state of one subtask.

    Attributes:
        states: The states in it, by name.
        format: The format of the bytes.
        handle: The handle of the bytes.
    """

    states: Mapping[str, StateMetaInfo]
    format: str
    handle: StateHandle

    @property
    def size(self) -> int:
        """Bytes."""
        return self.handle.size

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "states": {name: {"mode": info.mode.value, "count": info.count} for name, info in self.states.items()},
            "format": self.format,
            "handle": handle_to_plain(self.handle),
        }

    @classmethod
    def from_plain(cls, plain: object) -> OperatorStateHandle:
        """Rebuild it.

        Raises:
            CorruptSnapshotError: It isn't one.
        """
        data = as_map(plain, "an operator state handle")
        states = {}
        for name, described in as_map(take(data, "states"), "states").items():
            if not isinstance(name, str):
                raise unsound(what=f"an operator state has the name {name!r}")
            info = as_map(described, f"operator state {name!r}")
            states[name] = StateMetaInfo(take_enum(info, "mode", OperatorStateMode), take_int(info, "count"))
        return cls(states, take_text(data, "format"), handle_from_plain(take(data, "handle")))


@dataclass(frozen=True)
class OperatorStateShare:
    """The part of an old handle that a subtask of the new job reads.

    Attributes:
        handle: The old handle.
        elements: By state name: the range of elements (start, end exclusive).
    """

    handle: OperatorStateHandle
    elements: dict[str, tuple[int, int]] = field(default_factory=dict)
