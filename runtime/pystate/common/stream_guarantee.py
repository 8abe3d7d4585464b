"""The delivery guarantee from a source to a sink, with its reason, as displayed to users."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from pystate.common.text.plain_data import OpenPlainData

_GAP = "  "
_INDENT = " " * 4
_LEAST_REASON = 36


class EndToEndGuarantee(str, Enum):
    """How often an element gets from a source to the output of a sink, failures included.

    A sink's own word (`DeliveryGuarantee`) is one of three things it takes: the source has to give elements again, and the
    job has to know which.
    """

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"
    NONE = "none"


@dataclass(frozen=True)
class StreamGuarantee(OpenPlainData):
    """The guarantee for the elements of a source that reach a sink.

    Attributes:
        source: The source's name.
        source_uid: Its uid.
        sink: The sink's name.
        sink_uid: Its uid.
        guarantee: How often an element gets there.
        reason: Why, as a clause.
    """

    source: str
    source_uid: str
    sink: str
    sink_uid: str
    guarantee: EndToEndGuarantee
    reason: str


def guarantee_lines(guarantees: Sequence[StreamGuarantee], width: int | None = None, *, unicode: bool = False) -> list[str]:
    """Return an aligned line for each guarantee: source and sink, guarantee, reason.

    Args:
        guarantees: The guarantees; duplicate lines are dropped.
        width: Columns of the terminal: reasons are wrapped to lines below, or moved there as a whole if there is little
            room. None for one line each, however long.
        unicode: Whether more than ASCII may be written.
    """
    arrow = " → " if unicode else " -> "
    guarantees = list({(one.source, one.sink, one.guarantee, one.reason): one for one in guarantees}.values())
    ways = [f"{_printable(one.source)}{arrow}{_printable(one.sink)}" for one in guarantees]
    longest = max(map(_cells, ways), default=0)
    words = max((len(one.guarantee.value) for one in guarantees), default=0)
    lines = []
    for way, one in zip(ways, guarantees, strict=True):
        head = f"{way}{' ' * (longest - _cells(way))}{_GAP}{one.guarantee.value:<{words}}"
        reason = _printable(one.reason)
        room = None if width is None else width - longest - words - 2 * len(_GAP)
        if room is None:
            lines.append(f"{head}{_GAP}{reason}")
        elif room >= _LEAST_REASON:
            first, *rest = textwrap.wrap(reason, room) or [""]
            lines.append(f"{head}{_GAP}{first}".rstrip())
            lines += [" " * (longest + words + 2 * len(_GAP)) + more for more in rest]
        else:
            assert width is not None  # noqa: S101 - there is little room
            lines += _narrow(way, one.guarantee.value, width)
            lines += textwrap.wrap(reason, width, initial_indent=_INDENT, subsequent_indent=_INDENT)
    return lines


def _narrow(way: str, guarantee: str, width: int) -> list[str]:
    if _cells(way) + 2 + len(guarantee) <= width:
        return [f"{way}: {guarantee}"]
    return [f"{way}:", f"{_INDENT}{guarantee}"]


def _printable(text: str) -> str:
    return "".join(one if one.isprintable() else "?" for one in " ".join(text.split()))


def _cells(text: str) -> int:
    """Return the width of a text in terminal columns."""
    wide = sum(unicodedata.east_asian_width(one) in "WF" for one in text)
    return len(text) + wide - sum(unicodedata.combining(one) > 0 for one in text)
