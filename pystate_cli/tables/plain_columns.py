"""Lines for programs: a header, then columns of fixed width with plain numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pystate_cli.console.formats import UNKNOWN


def plain_table(columns: Sequence[tuple[str, int]], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a header and a line per row.

    Args:
        columns: Name and width of each; a width of 0 for the last, whose text may have any length.
        rows: A text per column.
    """
    return [
        "  ".join(f"{cell:<{width}}" for cell, (_, width) in zip(cells, columns, strict=True)).rstrip()
        for cells in ([name for name, _ in columns], *rows)
    ]


def plain_number(number: float | None) -> str:
    """Return a number, or a dash for one that is not known."""
    return UNKNOWN if number is None or number < 0 else f"{number:g}" if isinstance(number, float) else str(number)
