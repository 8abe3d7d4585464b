"""How statistics are kept: by their fields."""

from __future__ import annotations

from pystate.common.text.plain_data import PlainData
from pystate.core.snapshot.plain import unsound


class StatsData(PlainData):
    """Base of what statistics consist of; read from something else it raises a `CorruptSnapshotError`."""

    @classmethod
    def plain_error(cls, what: str) -> Exception:
        """Return the error for plain data that is something else."""
        return unsound(what)
