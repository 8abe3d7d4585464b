"""Formats of a column's values: rounded for display, exact for programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pystate.common.text.figures import UNKNOWN, format_count, format_millis, format_moment, format_size, format_watermark
from pystate_cli.console.formats import format_iso, printable

_TIME_LENGTH = len("08:56:52")


@dataclass(frozen=True)
class Look:
    """What the cells of a table may depend on, besides their row.

    Attributes:
        now: Milliseconds since 1970.
        unicode: Whether the terminal shows more than ASCII.
        wide: Whether to use long headings and words, or short headings and marks.
        brief: Whether to use the shortest names.
    """

    now: int
    unicode: bool
    wide: bool = True
    brief: bool = False


@dataclass(frozen=True)
class Kind:
    """The format of one kind of values; None is an unknown value.

    Attributes:
        shown: For display.
        plain: For programs.
        left: Whether they are left-aligned; numbers are right-aligned.
    """

    shown: Callable[[Any, Look], str]
    plain: Callable[[Any], str]
    left: bool = False


def plain_number(number: float | None) -> str:
    """Return a number, or a dash if unknown."""
    return UNKNOWN if number is None or number < 0 else f"{number:g}" if isinstance(number, float) else str(number)


def moment_cell(millis: int | None, look: Look) -> str:
    """Return an instant for a table; on a narrow terminal without year and seconds, unless it was today."""
    text = format_moment(millis, look.now)
    return text if look.wide or len(text) <= _TIME_LENGTH else text[5:16]


def _text(value: object) -> str:
    return UNKNOWN if value is None or value == "" else printable(str(value))


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)


WATERMARK = Kind(
    lambda value, look: format_watermark(value, look.now), lambda value: UNKNOWN if value is None else str(value)
)
"""Event time; for programs Flink's number, which may be below 0."""
TEXT = Kind(lambda value, _: _text(value), _text, left=True)
"""A name or a sentence, on one line."""
PHRASE = Kind(lambda value, _: printable(str(value or "")), lambda value: printable(str(value or "")), left=True)
"""What need not be there, and leaves its place empty."""
LIST = Kind(lambda names, _: printable(", ".join(names)), lambda names: printable(",".join(names)) or UNKNOWN, left=True)
"""Names."""
NUMBER = Kind(lambda value, _: plain_number(value), plain_number)
"""An id, or a number that is never large."""
COUNT = Kind(lambda value, _: format_count(_rounded(value)), plain_number)
SIZE = Kind(lambda value, _: format_size(_rounded(value)), plain_number)
"""Bytes."""
MILLIS = Kind(lambda value, _: format_millis(_rounded(value)), plain_number)
"""A length of time in ms."""
INSTANT = Kind(moment_cell, format_iso)
"""Milliseconds since 1970."""
