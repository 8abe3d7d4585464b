"""Tables and line plots as HTML and SVG, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

_MOST_TEXT = 300
_WIDTH, _HEIGHT, _MARGIN = 480, 90, 4


def html_text(value: object) -> str:
    """Return a value as HTML text, shortened if it is long."""
    text = str(value)
    return escape(text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…")


def html_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """Return a table; what its cells hold is escaped."""
    head = "".join(f'<th style="text-align:left">{html_text(column)}</th>' for column in columns)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align:left">{html_text(cell)}</td>' for cell in row) + "</tr>" for row in rows
    )
    below = f"<div><small>{html_text(caption)}</small></div>" if caption else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"


def svg_plot(values: Sequence[float | None], label: str, color: str = "#1f77b4") -> str:
    """Return a line plot of values in equal distances, from 0 to the highest; a None is a gap.

    Args:
        values: The values, the newest last.
        label: What they are, with the latest one; for screen readers, too.
        color: Of the line.
    """
    top = max((value for value in values if value is not None), default=0.0) or 1.0
    step = (_WIDTH - 2 * _MARGIN) / max(len(values) - 1, 1)
    lines, line = [], list[str]()
    for number, value in enumerate([*values, None]):
        if value is not None:
            line.append(f"{_MARGIN + number * step:.1f},{_HEIGHT - _MARGIN - value / top * (_HEIGHT - 2 * _MARGIN):.1f}")
            continue
        if len(line) == 1:  # a value between two gaps is a dot
            line.append(line[0])
        if line:
            lines.append(
                f'<polyline points="{" ".join(line)}" fill="none" stroke="{color}" stroke-width="2" stroke-linecap="round"/>'
            )
        line = []
    frame = f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="currentColor" opacity="0.3"/>'
    title = html_text(label)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'role="img" aria-label="{title}"><title>{title}</title>{frame}{"".join(lines)}</svg>'
    )


def plain_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table as lines of text, with columns side by side."""
    cells = [list(columns), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells)
