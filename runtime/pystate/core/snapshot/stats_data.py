"""The base of persistent statistics."""

from __future__ import annotations

from pystate.common.text.plain_data import PlainData
from pystate.core.snapshot.plain import unsound


class StatsData(PlainData):
    """The base of statistics classes; raises `CorruptSnapshotError` when read from invalid data."""

    @classmethod
    def plain_error(cls, what: str) -> Exception:
        """Return the error for invalid plain data."""
        return unsound(what)
