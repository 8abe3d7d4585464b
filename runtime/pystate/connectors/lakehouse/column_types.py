"""Types of columns: which has each value of another, and whether staged rows have those that a table has by now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from pystate.common.errors import CommitError

CHANGED_HINT = (
    "change the table back and resume; a sink under another uid goes on without these rows (--allowNonRestoredState)"
)


def check_still_fits(staged: pa.Schema, table: pa.Schema, where: str, takes: Callable[[Any, Any], bool]) -> None:
    """Check that a table has the columns of staged rows still; nullable ones may have come.

    Args:
        staged: The columns of the rows.
        table: Those of the table now.
        where: The table, for messages.
        takes: Whether values of one type are those of another.

    Raises:
        CommitError: It hasn't.
    """
    for field in staged:
        now = table.field(field.name).type if field.name in table.names else None
        if now is None or not takes(field.type, now):
            is_what = "is gone" if now is None else f"is {now}"
            message = f"The column {field.name} of the table {is_what} now; rows were staged for {field.type}."
            raise CommitError(message, where=where, hint=CHANGED_HINT)
    needed = [field.name for field in table if not field.nullable and field.name not in staged.names]
    if needed:
        message = f"The table needs values for {', '.join(needed)} now, which the rows that were staged don't have."
        raise CommitError(message, where=where, hint=CHANGED_HINT)


def is_same(old: Any, new: Any) -> bool:
    """Return whether two types of Arrow are the same in a file; the newer one may have more nullable fields in structs."""
    if is_list(old) and is_list(new):
        return is_same(old.value_type, new.value_type)
    if pa.types.is_map(old) and pa.types.is_map(new):
        return is_same(old.key_type, new.key_type) and is_same(old.item_type, new.item_type)
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        there, now = {one.name: one.type for one in old}, {one.name: one for one in new}
        return all(name in now and is_same(of, now[name].type) for name, of in there.items()) and all(
            one.nullable or name in there for name, one in now.items()
        )
    return bool(old == new or (_is_text(old) and _is_text(new)) or (_is_bytes(old) and _is_bytes(new)))


def widens(old: Any, new: Any) -> bool:
    """Return whether each value of one type of Arrow is one of another, or is checked value by value (decimals)."""
    types = pa.types
    if old == new:
        return True
    for alike in (_is_text, _is_bytes, types.is_decimal):
        if alike(old) or alike(new):
            return bool(alike(old) and alike(new))
    if types.is_signed_integer(old) and types.is_signed_integer(new):
        return bool(old.bit_width <= new.bit_width)
    if types.is_floating(old) and types.is_floating(new):
        return bool(old.bit_width <= new.bit_width)
    if types.is_signed_integer(old) and new == pa.float64():
        return bool(old.bit_width <= 32)  # noqa: PLR2004 - as many bits as it holds exactly
    if types.is_timestamp(old) and types.is_timestamp(new):
        return (old.tz is None) == (new.tz is None)
    if is_list(old) and is_list(new):
        return widens(old.value_type, new.value_type)
    if types.is_map(old) and types.is_map(new):
        return widens(old.key_type, new.key_type) and widens(old.item_type, new.item_type)
    if types.is_struct(old) and types.is_struct(new):
        there, now = {one.name: one.type for one in old}, {one.name: one for one in new}  # by name, as Arrow casts them
        return all(name in now and widens(of, now[name].type) for name, of in there.items()) and all(
            one.nullable or name in there for name, one in now.items()
        )
    return False


def _is_text(of: Any) -> bool:
    return bool(pa.types.is_string(of) or pa.types.is_large_string(of))


def _is_bytes(of: Any) -> bool:
    return bool(pa.types.is_binary(of) or pa.types.is_large_binary(of))


def is_list(of: Any) -> bool:
    """Return whether a type of Arrow is one of lists."""
    return bool(pa.types.is_list(of) or pa.types.is_large_list(of))
