"""A batch of elements of a keyed stream, for functions that process many at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pystate.core.api.state import ValueState

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


class KeyedBatch(ABC):
    """A batch of elements as columns, in order, with their distinct keys and access to their state.

    A batch has some thousand rows of one subtask; where it ends means nothing. All elements of a key come in their order.

    Attributes:
        data: The elements: a column per field of a row or a tuple (`f0`, `f1`, ...), or one column `value`.
        keys: The distinct keys, as functions see them, in the order of their first elements.
        key_index: For each row the place of its key in `keys`; int32, never null.
        timestamps: The times of the elements, ms since 1970, int64, null where one has none; None if no element has any.
    """

    data: pa.RecordBatch
    keys: Sequence[Any]
    key_index: pa.Array
    timestamps: pa.Array | None

    @property
    def num_rows(self) -> int:
        """The number of elements."""
        return int(self.data.num_rows)

    @abstractmethod
    def get(self, state: ValueState[Any]) -> list[Any]:
        """Return the content of a state for each of `keys`; None if there is none."""

    @abstractmethod
    def update(self, state: ValueState[Any], values: Iterable[Any]) -> None:
        """Set a state for each of `keys`; None removes.

        Raises:
            StateError: A value isn't of the state's type, or there aren't as many as keys.
        """

    @abstractmethod
    def set_current_key(self, position: int) -> None:
        """Set the current key, one of `keys`: states of any kind and the timer service are then scoped to it.

        Raises:
            IndexError: There are fewer keys.
        """

    @abstractmethod
    def rows_by_key(self) -> list[list[int]]:
        """Return the row numbers of each of `keys`, in order."""

    @abstractmethod
    def to_pandas(self) -> pd.DataFrame:
        """Return the elements as a DataFrame, a column per field."""
