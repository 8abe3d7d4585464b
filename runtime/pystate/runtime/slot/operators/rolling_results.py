"""Rolling results of a field for the keys of an epoch, as columns."""

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
from pystate.core.state.kinds.epoch_size import object_size as size_of
from pystate.core.state.kinds.epoch_size import sample_of, scaled
from pystate.core.state.kinds.overlay import EpochBuffer
from pystate.core.state.kinds.value_states import OverlayValueState
from pystate.runtime.slot.operators.epoch_results import EpochResults
from pystate.runtime.slot.operators.keyed_batches import DistinctKeys

Numbers = npt.NDArray[Any]

_FIRST_SIZE = 1024


class RollingResults(EpochBuffer):
    """The results of the running epoch, buffered in memory until they go to their state.

    A key's result is one of its elements with another value in one field. Result objects are created once per epoch, at its
    end, not once per batch.

    Args:
        state: The state that holds them between epochs.
        position: The position of the field; None for elements that are the field themselves.
        fields: The number of fields of an element; 1 for elements that are the field themselves.
        names: The field names of rows; None for others.
        dtype: The dtype of the field.
        epoch: Receives results that leave the buffer before they are emitted; None if each has been emitted.
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
        """Return the index of each key of a batch in the buffer; -1 for a key that isn't in it."""
        return np.fromiter(map(self._places.get, distinct.internal, repeat(-1)), np.int64, len(distinct.internal))

    def stored(self, keys: Sequence[Hashable], key_groups: Sequence[int]) -> list[Any]:
        """Return the values in the state for keys that aren't in the buffer; None for none."""
        return self._state.read_all(keys, key_groups)

    def add(self, keys: Sequence[Hashable], key_groups: Sequence[int], elements: Sequence[Any]) -> Numbers:
        """Add keys that are not in the buffer, with the elements that give their other fields; return their indexes.

        Their numbers must be set next, with `put`.
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

    def replace(self, places: Sequence[int], elements: Sequence[Any]) -> None:
        """Set the elements that give the other fields of the results at some indexes."""
        fields = [place for place in range(len(self._others) + 1) if place != self._at]
        for at, element in zip(places, elements, strict=True):
            for kept, place in zip(self._others, fields, strict=True):
                kept[at] = element[place]

    def numbers(self, places: Numbers) -> Numbers:
        """Return the field of the results at some indexes."""
        found: Numbers = self._numbers[places]
        return found

    def put(self, places: Numbers, numbers: Numbers) -> None:
        """Set the field of the results at some indexes."""
        self._numbers[places] = numbers

    def results(self, places: Numbers) -> list[Any]:
        """Return the results at some indexes as objects."""
        numbers, at = self._numbers[places].tolist(), places.tolist()
        return self._made(numbers, [list(map(kept.__getitem__, at)) for kept in self._others])

    def _made(self, numbers: list[Any], others: list[list[Any]]) -> list[Any]:
        if self._position is None:
            return numbers
        columns = [*others[: self._at], numbers, *others[self._at :]]
        return list(zip(*columns, strict=True)) if self._names is None else rows_of(self._names, columns)

    @override
    def settle(self, *, whole: bool = False) -> None:
        keys, results = self._places, self.hand_on()
        if self._epoch is not None:
            self._epoch.note_all(keys, results)

    def hand_on(self) -> list[Any]:
        """Move all results to the overlay, and return them in the order in which their keys first appeared."""
        if not self._places:
            return []
        results = self._made(self._numbers[: len(self._places)].tolist(), self._others)
        self._state.hold_all(list(self._places), self._groups, results)
        self.drop()
        return results

    @override
    def commit(self) -> None:
        """Do nothing: all results are in the overlay."""

    @override
    def drop(self) -> None:
        self._places = {}
        self._groups = []
        self._others = [[] for _ in self._others]
        if len(self._numbers) > _FIRST_SIZE:
            self._numbers = np.empty(_FIRST_SIZE, self._numbers.dtype)

    @override
    def write_back(self) -> None:
        """Do nothing: results of finished epochs are not kept here."""

    @override
    def held_bytes(self) -> int:
        if not self._places:
            return 0
        lists: list[Any] = [self._groups, *self._others]
        parts: list[Any] = [self._places, *self._others]
        sizes = sum(map(sys.getsizeof, [self._places, *lists])) + self._numbers.nbytes
        return sizes + sum(scaled(map(size_of, sample_of(part)), len(part)) for part in parts)
