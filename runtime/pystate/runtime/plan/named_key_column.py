"""Resolves the column named in a key_by(), as far as the type of the rows is known."""

from __future__ import annotations

import difflib

from pystate.common.errors import JobGraphError
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.core.records.key_column import KeyColumn


def named_key_column(
    name: str, rows: TypeInformation | None, key_type: TypeInformation | None, place: str | None
) -> KeyColumn:
    """Return the column that is the key.

    Args:
        name: The column.
        rows: The type of the elements; None for untyped ones.
        key_type: The key type declared by the program; None if there is none.
        place: The line of the program, as "FILE, line N".

    Raises:
        JobGraphError: There is no such column, or it can't be the key.
    """
    names = [] if rows is None or rows.kind is not TypeKind.ROW else rows.get_field_names()
    if rows is None or name not in names:
        known = ", ".join(names) or "no named fields"
        message = f"key_by({name!r}): the rows have {known}."
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "name one of these columns, or give a function"
        raise JobGraphError(message, where=place, hint=hint)
    column_type = rows.get_field_types()[names.index(name)]
    if key_type is not None and key_type != column_type:
        message = f"key_by({name!r}): the column is {column_type.name}, key_type says {key_type.name}."
        raise JobGraphError(message, where=place, hint="leave key_type out, or cast the column")
    column = KeyColumn(name, column_type)
    if not column.native:
        message = f"key_by({name!r}): a column of type {column_type.name} can't be a key."
        raise JobGraphError(message, where=place, hint=f"key_by(lambda row: row[{name!r}])")
    return column
