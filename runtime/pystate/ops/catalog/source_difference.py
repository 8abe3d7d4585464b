"""The difference between the source positions of two snapshots."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from pystate.ops.catalog.difference import Change, Difference


class Position(Protocol):
    """The position of a source: for display, and as Spark stores it."""

    @property
    def uid(self) -> str:
        """The source."""

    @property
    def words(self) -> str:
        """The position for display."""

    @property
    def offset(self) -> str:
        """The position as Spark stores it."""


@dataclass(frozen=True)
class SourceDifference(Difference[Position]):
    """A source in two snapshots."""

    @property
    def uid(self) -> str:
        """The source."""
        return self.some.uid

    def _compared(self, before: Position, after: Position) -> Change:
        return Change.SAME if before.offset == after.offset else Change.CHANGED

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-able data."""
        return {"uid": self.uid, "change": self.change.value, "before": _plain(self.before), "after": _plain(self.after)}


def compare_sources(before: Iterable[Position], after: Iterable[Position]) -> list[SourceDifference]:
    """Return the sources of two snapshots side by side, by uid."""
    old, new = ({source.uid: source for source in sources} for sources in (before, after))
    return [SourceDifference(old.get(uid), new.get(uid)) for uid in sorted(old.keys() | new.keys())]


def _plain(position: Position | None) -> dict[str, str] | None:
    return None if position is None else {"position": position.words, "offset": position.offset}
