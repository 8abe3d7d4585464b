"""Decides whether it pays to read ahead a state's values for the next keys, many at a time.

RocksDB reads sorted keys together in two thirds of the time of single reads. Unused reads are wasted, so each state is
monitored: as long as most of the values read ahead were used, whole batches are read ahead; else a few keys, to detect when
that changes.
"""

from __future__ import annotations

from collections.abc import Callable

TRIAL_KEYS = 64
"""So many keys of a batch are read ahead for a state of which nothing good is known."""

WORTH_SHARE = 0.75
"""Reading ahead pays if this share of it is asked for."""

MAX_KEYS = 20_000
MAX_BYTES = 16 << 20
"""The approximate size of one read-ahead; the rest is read on demand."""

_FIRST_KEYS = 16  # values may be large, so the first get is for a few
_MOST_KEYS = 512


class Lookahead:
    """The statistics of reading ahead for one state."""

    __slots__ = ("_share",)

    def __init__(self) -> None:
        self._share: float | None = None

    def limit(self) -> int:
        """Return how many keys to read ahead now."""
        return MAX_KEYS if self._share is not None and self._share >= WORTH_SHARE else TRIAL_KEYS

    def learn(self, fetched: int, used: int) -> None:
        """Record how many values were read ahead, and how many of them were used."""
        if fetched:
            share = used / fetched
            self._share = share if self._share is None else (self._share + share) / 2


def read_ahead(rows: list[bytes], get: Callable[[list[bytes]], list[bytes | None]]) -> list[bytes | None]:
    """Return the values of the first rows, None if there is none; fewer than rows where the values are large.

    Args:
        rows: Row keys, sorted.
        get: Reads several rows.
    """
    values: list[bytes | None] = []
    size, step = 0, _FIRST_KEYS
    while len(values) < len(rows) and size < MAX_BYTES:
        part = get(rows[len(values) : len(values) + step])
        values += part
        size += sum(len(value) for value in part if value is not None)
        step = min(2 * step, _MOST_KEYS)
    return values
