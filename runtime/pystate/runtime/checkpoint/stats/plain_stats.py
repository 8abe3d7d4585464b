"""The file format of checkpoint statistics: by fields, with packed sequences of numbers, since most are equal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pystate.core.snapshot.plain import unsound


def packed(numbers: Iterable[int | None]) -> Any:
    """Return a sequence of numbers as plain data; a repeated number is stored once."""
    row = list(numbers)
    return row[0] if row and all(number == row[0] for number in row) else row


def unpacked(plain: Any, length: int, name: str, *, gaps: bool = False) -> list[Any]:
    """Return a sequence of numbers packed by `packed`.

    Args:
        plain: The packed data.
        length: The number of values.
        name: Their name, for errors.
        gaps: Whether some may be None.

    Raises:
        CorruptSnapshotError: It is something else.
    """
    row = plain if isinstance(plain, list) else [plain] * length
    if len(row) != length or not all(type(one) is int or (gaps and one is None) for one in row):
        raise unsound(what=f"the row {name!r} does not hold {length} numbers")
    return row
