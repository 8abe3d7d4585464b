"""The types, under PyFlink's module name."""

from __future__ import annotations

from collections.abc import Sequence

from pystate.common.type_info import TypeInformation, Types

__all__ = ["RowTypeInfo", "TypeInformation", "Types"]


def RowTypeInfo(  # noqa: N802 - a class in PyFlink
    field_types: Sequence[TypeInformation], field_names: Sequence[str] | None = None
) -> TypeInformation:
    """Return the type of rows: `Types.ROW`, with names `Types.ROW_NAMED`."""
    return Types.ROW(list(field_types)) if field_names is None else Types.ROW_NAMED(list(field_names), list(field_types))
