"""About how much memory the running epoch takes, and when it is worth to look.

Nothing is counted while records are processed. A look goes over the touched keys in steps and measures a few of them; the
time to the next one grows with the epoch, so that all looks of an epoch take a fraction of a percent of its time.
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
    """Says when to look at the size of the epoch.

    Args:
        bound: Bytes that an epoch may take.
    """

    __slots__ = ("_bound", "_due", "_first", "_weight")

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._first = bound // _FIRST_LOOK
        self._weight = 0
        self._due: float = self._first

    def took(self, records: int, size: int) -> bool:
        """Take in how many records of how many bytes were processed; return whether to look."""
        self._weight += size + _RECORD_WEIGHT * records
        return self._weight >= self._due

    def is_over(self, held: int) -> bool:
        """Return whether the bytes that a look found are too many; else the next look is when they will be, as it goes."""
        if held >= self._bound:
            return True
        growth = self._bound / held if held else _FASTEST_GROWTH
        self._due = self._weight * min(_FASTEST_GROWTH, max(_SLOWEST_GROWTH, growth))
        return False

    def start(self) -> None:
        """Begin anew: nothing is held."""
        self._weight = 0
        self._due = self._first


def sample_of(values: Collection[Any]) -> list[Any]:
    """Return some values, taken evenly."""
    return list(islice(values, 0, None, max(1, len(values) // _SAMPLE)))


def scaled(sizes: Iterable[int], count: int) -> int:
    """Return the size of `count` values, of a sample's sizes."""
    known = list(sizes)
    return sum(known) * count // len(known) if known else 0


def mapping_size(entries: Mapping[Hashable, Any], *, keys: bool = True) -> int:
    """Return the bytes of a dict and its values, with its keys where no other dict has the same."""
    size = sys.getsizeof(entries) + scaled(map(object_size, sample_of(entries.values())), len(entries))
    return size + scaled(map(object_size, sample_of(entries)), len(entries)) if keys else size


def object_size(value: Any, depth: int = _DEPTH) -> int:
    """Return about the bytes of an object with what is in it."""
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
