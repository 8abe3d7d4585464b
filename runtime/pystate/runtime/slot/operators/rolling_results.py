"""Rolling results of a field over the keys of an epoch, as columns."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from pystate.common.overrides import override
from pystate.common.row import inserted_values, rows_of
from pystate.core.state.kinds.epoch_buffer import EpochBuffer
from pystate.core.state.kinds.epoch_size import object_size as size_of
from pystate.core.state.kinds.epoch_size import sample_of, scaled
from pystate.core.state.kinds.value_states import OverlayValueState
from pystate.runtime.slot.operators.epoch_results import EpochResults
from pystate.runtime.slot.operators.keyed_batches import DistinctKeys

Numbers = npt.NDArray[Any]

_FIRST_SIZE = 1024


class RollingResults(EpochBuffer):
    """The results that the running epoch has, in front of the state that they are of.

    A key's result is its first element with another value in one field. Objects of it are made once an epoch, when it ends,
    not once a batch.

    Args:
        state: Where they are between epochs.
        position: Of the field; None for elements that are their own field.
        fields: How many fields elements have; 1 for those.
        names: Those of the fields of rows; None for others.
        dtype: Of the field.
        epoch: Is told of keys whose results leave this before they are given out; None where all results are given out.
    """

    def __init__(
        self,
        state: OverlayValueState,
        position: int | None,
        fields: int,
        names: tuple[str, ...] | None,
        dtype: type,
        epoch: EpochResults | None = None,
    ) -> None:
        self._state = state
        self._position = position
        self._at = position or 0
        self._names = names
        self._epoch = epoch
        self._places: dict[Hashable, int] = {}
        self._groups: list[int] = []
        self._numbers: Numbers = np.empty(_FIRST_SIZE, dtype)
        self._others: list[list[Any]] = [[] for _ in range(fields - 1)]
        state.front = self

    def places_of(self, distinct: DistinctKeys) -> Numbers:
        """Return where in this each key of a batch is; -1 for a key that the epoch hasn't here."""
        return np.fromiter(map(self._places.get, distinct.internal, repeat(-1)), np.int64, len(distinct.internal))

    def stored(self, keys: Sequence[Hashable], key_groups: Sequence[int]) -> list[Any]:
        """Return what the state has of keys that aren't here; None for nothing."""
        return self._state.read_all(keys, key_groups)

    def add(self, keys: Sequence[Hashable], key_groups: Sequence[int], elements: Sequence[Any]) -> Numbers:
        """Take in keys that aren't here, with what gives their results' other fields; return their places.

        Their numbers are to be `put` next.
        """
        first, count = len(self._places), len(keys)
        if not count:
            return np.arange(0)
        self._places.update(zip(keys, range(first, first + count), strict=True))
        self._groups += key_groups
        if self._others:
            rows = None if self._names is None else inserted_values(self._names, elements)
            fields = [place for place in range(len(self._others) + 1) if place != self._at]
            for kept, place in zip(self._others, fields, strict=True):
                kept += map(itemgetter(place), elements if rows is None else rows)
        if first + count > len(self._numbers):
            grown: Numbers = np.empty(max(2 * len(self._numbers), first + count), self._numbers.dtype)
            grown[:first] = self._numbers[:first]
            self._numbers = grown
        return np.arange(first, first + count)

    def numbers(self, places: Numbers) -> Numbers:
        """Return the field of the results at some places."""
        found: Numbers = self._numbers[places]
        return found

    def put(self, places: Numbers, numbers: Numbers) -> None:
        """Set the field of the results at some places."""
        self._numbers[places] = numbers

    def results(self, places: Numbers) -> list[Any]:
        """Return the results at some places as objects."""
        numbers, at = self._numbers[places].tolist(), places.tolist()
        return self._made(numbers, [list(map(kept.__getitem__, at)) for kept in self._others])

    def _made(self, numbers: list[Any], others: list[list[Any]]) -> list[Any]:
        if self._position is None:
            return numbers
        columns = [*others[: self._at], numbers, *others[self._at :]]
        return list(zip(*columns, strict=True)) if self._names is None else rows_of(self._names, columns)

    @override
    def settle(self, *, whole: bool = False) -> None:
        keys, groups = self._places, self._groups
        if self.hand_on() and self._epoch is not None:
            self._epoch.note_keys(list(keys), groups)

    def hand_on(self) -> list[Any]:
        """Hand all results on to the overlay, and return them in the order in which their keys were first there."""
        if not self._places:
            return []
        results = self._made(self._numbers[: len(self._places)].tolist(), self._others)
        self._state.hold_all(list(self._places), self._groups, results)
        self.drop()
        return results

    @override
    def commit(self) -> None:
        """Nothing: what there was is in the overlay."""

    @override
    def drop(self) -> None:
        self._places = {}
        self._groups = []
        self._others = [[] for _ in self._others]
        if len(self._numbers) > _FIRST_SIZE:
            self._numbers = np.empty(_FIRST_SIZE, self._numbers.dtype)

    @override
    def write_back(self) -> None:
        """Nothing: of finished epochs nothing is kept here."""

    @override
    def held_bytes(self) -> int:
        if not self._places:
            return 0
        lists: list[Any] = [self._groups, *self._others]
        parts: list[Any] = [self._places, *self._others]
        sizes = sum(map(sys.getsizeof, [self._places, *lists])) + self._numbers.nbytes
        return sizes + sum(scaled(map(size_of, sample_of(part)), len(part)) for part in parts)
