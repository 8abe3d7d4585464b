"""Rows that replace those of their keys: how they are staged, and which of them counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pystate.common.errors import ConfigurationError, RecordError
from pystate.common.row import Row, RowKind

DELETED = "_pystate_deleted"
"""The column of staged rows that says that the row of the key is deleted."""
_PLACE = "_pystate_place"


@dataclass(frozen=True)
class Upserts:
    """By what rows replace others.

    Attributes:
        keys: The columns.
        delete_when: Which elements delete the row of their key, besides those of the kinds DELETE and UPDATE_BEFORE.
    """

    keys: tuple[str, ...]
    delete_when: Callable[[Any], bool] | None = None

    def is_told_again(self, element: Any) -> bool:
        """Return whether another element follows that says more of the same key."""
        return isinstance(element, Row) and element.get_row_kind() is RowKind.UPDATE_BEFORE

    def deletes(self, element: Any) -> bool:
        """Return whether an element deletes the row of its key."""
        if isinstance(element, Row) and element.get_row_kind() is RowKind.DELETE:
            return True
        return self.delete_when is not None and self.delete_when(element)

    def check(self, columns: pa.Schema, where: str) -> None:
        """Check that rows with these columns have the keys.

        Raises:
            ConfigurationError: They haven't, or not all values of a key can be told apart.
        """
        lacking = [key for key in self.keys if key not in columns.names]
        if lacking:
            message = f"The rows have no {', '.join(lacking)} by which they replace others."
            raise ConfigurationError(message, where=where, hint=f"there are {', '.join(columns.names)}")
        for key in self.keys:
            of = columns.field(key).type
            if pa.types.is_floating(of) or pa.types.is_nested(of):
                message = f"The column {key} is {of}, by which rows can't be told apart."
                raise ConfigurationError(message, where=where, hint="use texts, whole numbers, dates or timestamps as keys")


def latest(rows: pa.Table, keys: Sequence[str], where: str) -> pa.Table:
    """Return the last row of each key.

    Raises:
        RecordError: A key is null.
    """
    for key in keys:
        if rows.column(key).null_count:
            message = f"A row has no {key}, by which it would replace others."
            raise RecordError(message, where=where, hint="filter such rows")
    placed = rows.select(list(keys)).append_column(_PLACE, pa.array(range(rows.num_rows), pa.int64()))
    last = placed.group_by(list(keys)).aggregate([(_PLACE, "max")]).column(f"{_PLACE}_max")
    return rows.take(last)
