"""Bars and sparklines made of characters."""

from __future__ import annotations

from collections.abc import Sequence

_LEVELS = "▁▂▃▄▅▆▇"  # not the full height of a line: lines are adjacent
_ASCII_LEVELS = "_.-=+*#"
_FULL, _HALF, _REST = "━", "╸", "╌"
_ASCII_FULL, _ASCII_REST = "#", "."


def sparkline(values: Sequence[float | None], width: int, *, unicode: bool) -> str:
    """Return the last values as a line of small columns, the newest on the right; a gap for an unknown one.

    Args:
        values: The values, 0 or more, oldest first.
        width: The number of columns.
        unicode: Whether the terminal shows more than ASCII.
    """
    levels = _LEVELS if unicode else _ASCII_LEVELS
    shown = list(values)[-width:]
    most = max((value for value in shown if value is not None), default=0)

    def level(value: float | None) -> str:
        if value is None:
            return " "
        return levels[0] if most <= 0 else levels[min(len(levels) - 1, int(value / most * len(levels)))]

    return "".join(map(level, shown)).rjust(width)


def progress(done: float, total: float, width: int, *, unicode: bool) -> tuple[str, str]:
    """Return the done and the open part of a bar of `width` characters."""
    full, rest = (_FULL, _REST) if unicode else (_ASCII_FULL, _ASCII_REST)
    share = 0.0 if total <= 0 else max(0.0, min(1.0, done / total))
    count = int(share * width)
    if share and not count:
        count = 1  # at least something is done
    return full * count, rest * (width - count)


def magnitude(value: float | None, most: float, width: int, *, unicode: bool) -> str:
    """Return a bar whose length is proportional to a value relative to the largest, in half characters."""
    if not value or value < 0 or most <= 0:
        return ""
    share = min(1.0, value / most) * width
    if not unicode:
        return _ASCII_FULL * max(1, round(share))
    whole, half = divmod(max(1, round(share * 2)), 2)
    return _FULL * whole + _HALF * half
