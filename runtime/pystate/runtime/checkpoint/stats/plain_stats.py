"""How statistics of checkpoints lie in a file: by their fields; rows of numbers packed, since most of them are alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pystate.core.snapshot.plain import unsound


def packed(numbers: Iterable[int | None]) -> Any:
    """Return a row of numbers as plain data; one number over and over is that number."""
    row = list(numbers)
    return row[0] if row and all(number == row[0] for number in row) else row


def unpacked(plain: Any, length: int, name: str, *, gaps: bool = False) -> list[Any]:
    """Return a row of numbers that `packed` gave.

    Args:
        plain: What it gave.
        length: How many there are.
        name: What they are, for people.
        gaps: Whether some may be None.

    Raises:
        CorruptSnapshotError: It is something else.
    """
    row = plain if isinstance(plain, list) else [plain] * length
    if len(row) != length or not all(type(one) is int or (gaps and one is None) for one in row):
        raise unsound(what=f"the row {name!r} does not hold {length} numbers")
    return row
