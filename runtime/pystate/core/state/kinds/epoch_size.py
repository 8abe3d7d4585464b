"""Estimates the memory of the running epoch, and when to measure it.

Nothing is counted while records are processed. A measurement samples the touched keys; the interval to the next one grows
with the epoch, so that all measurements take a fraction of a percent of the epoch's time.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Hashable, Iterable, Mapping
from itertools import islice
from typing import Any

from pystate.common.row import Row

_RECORD_WEIGHT = 64
"""What a record weighs besides its bytes: a key in an overlay costs at least as much, however small the record is."""

_FIRST_LOOK = 64
"""The first look is at this part of the bound: an epoch may grow by as many times its input without going far beyond."""

_SLOWEST_GROWTH, _FASTEST_GROWTH = 1.125, 4.0
"""By how much the input grows between two looks."""

_SAMPLE = 32
_ELEMENTS = 16
_DEPTH = 6


class EpochGauge:
    """Decides when to measure the size of the epoch.

    Args:
        bound: The maximum size of an epoch in bytes.
    """

    __slots__ = ("_bound", "_due", "_first", "_weight")

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._first = bound // _FIRST_LOOK
        self._weight = 0
        self._due: float = self._first

    def took(self, records: int, size: int) -> bool:
        """Count processed records and bytes; return whether to measure."""
        self._weight += size + _RECORD_WEIGHT * records
        return self._weight >= self._due

    def is_over(self, held: int) -> bool:
        """Return whether the measured size exceeds the bound; else schedule the next measurement by extrapolation."""
        if held >= self._bound:
            return True
        growth = self._bound / held if held else _FASTEST_GROWTH
        self._due = self._weight * min(_FASTEST_GROWTH, max(_SLOWEST_GROWTH, growth))
        return False

    def start(self) -> None:
        """Reset for a new epoch."""
        self._weight = 0
        self._due = self._first


def sample_of(values: Collection[Any]) -> list[Any]:
    """Return an even sample of values."""
    return list(islice(values, 0, None, max(1, len(values) // _SAMPLE)))


def scaled(sizes: Iterable[int], count: int) -> int:
    """Return the size of `count` values, extrapolated from a sample."""
    known = list(sizes)
    return sum(known) * count // len(known) if known else 0


def mapping_size(entries: Mapping[Hashable, Any], *, keys: bool = True) -> int:
    """Return the size of a dict and its values, and of its keys unless they are shared with another dict."""
    size = sys.getsizeof(entries) + scaled(map(object_size, sample_of(entries.values())), len(entries))
    return size + scaled(map(object_size, sample_of(entries)), len(entries)) if keys else size


def object_size(value: Any, depth: int = _DEPTH) -> int:
    """Return the approximate size of an object with its content."""
    size = sys.getsizeof(value)
    if depth == 0 or isinstance(value, (str, bytes, int, float, bool)):
        return size
    if isinstance(value, Mapping):
        parts = [part for pair in islice(value.items(), _ELEMENTS) for part in pair]
        return size + scaled((object_size(part, depth - 1) for part in parts), 2 * len(value))
    if isinstance(value, (list, tuple, set, frozenset, Row)):
        return size + scaled((object_size(part, depth - 1) for part in islice(value, _ELEMENTS)), len(value))
    fields = getattr(value, "__dict__", None)
    return size if fields is None else size + object_size(fields, depth - 1)
