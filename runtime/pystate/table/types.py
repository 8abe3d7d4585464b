"""The Table API's types; Spark's are in `pyspark.sql.types`."""

from __future__ import annotations

from typing import Any

from pystate.common.not_there import no_tables
from pystate.common.row import Row, RowKind

_NAMES = frozenset(
    {
        "DataTypes",
        "UserDefinedType",
    }
)

__all__ = ["Row", "RowKind"]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = globals()[name] = no_tables(name)
    return value
