"""Figures of the timers in a snapshot: their number and the first firing time, per service and time domain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pystate.core.snapshot.handles.incremental_handle import IncrementalKeyedStateHandle
from pystate.core.snapshot.operator_state import OperatorState
from pystate.core.snapshot.reading.keyed_files import described_states, open_keyed_state
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.base.timer_schema import TIME_BYTES, TimerSchema, time_from_bytes
from pystate.core.state.files.canonical import CanonicalReader, StateMetaInfoSnapshot


@dataclass
class TimerFigures:
    """The timers of one service of an operator in one time domain, over all its subtasks.

    Attributes:
        service: The name of the service: `user-timers` of process functions, `window-timers` of windows.
        domain: `EVENT_TIME` or `PROCESSING_TIME`.
        count: The number of timers; None if only the backend knows.
        next: When the first one fires, ms since 1970; None for none, or if only the backend knows.
    """

    service: str
    domain: str
    count: int | None = None
    next: int | None = None

    def take(self, count: int, first: int | None) -> None:
        """Add the figures of a subtask."""
        self.count = count + (self.count or 0)
        if first is not None:
            self.next = first if self.next is None else min(first, self.next)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-able data."""
        return {"service": self.service, "domain": self.domain, "count": self.count, "next": self.next}


def timers_of(location: SnapshotLocation, operator: OperatorState) -> list[TimerFigures]:
    """Return the timers of an operator. Reads the timer blocks of canonical files, and nothing of native ones.

    Raises:
        SnapshotError: A file is missing or damaged.
    """
    found: dict[str, TimerFigures] = {}
    for _, subtask in sorted(operator.subtasks.items()):
        for handle in subtask.keyed_state:
            if isinstance(handle, IncrementalKeyedStateHandle):
                for info in described_states(location, operator, handle):
                    _figures(found, info)
                continue
            with open_keyed_state(location, operator, handle, partly=True) as reader:
                for info in reader.header.states:
                    figures = _figures(found, info)
                    if figures is not None:
                        figures.take(reader.entry_count(info), _first(reader, info))
    return [found[name] for name in sorted(found)]


def _figures(found: dict[str, TimerFigures], info: StateMetaInfoSnapshot) -> TimerFigures | None:
    if info.timers is None:
        return None
    schema = TimerSchema.from_meta_info(info)
    return found.setdefault(info.name, TimerFigures(schema.service, schema.domain.name))


def _first(reader: CanonicalReader, info: StateMetaInfoSnapshot) -> int | None:
    groups = reader.key_group_bytes(info)
    times = (sub_key[-TIME_BYTES:] for group in groups for _, sub_key, _ in reader.entries(info, group))
    first = min(times, default=None)  # their encoding has the order of time
    return None if first is None else time_from_bytes(first)
