"""The report of `pystate doctor`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pystate.connectors.finding import Finding, Health

if TYPE_CHECKING:
    from rich.console import RenderableType

_STYLES = {Health.OK: "green", Health.NONE: "dim", Health.WARN: "yellow", Health.FAIL: "bold red"}
_MARKS = {Health.OK: "✓", Health.NONE: "–", Health.WARN: "!", Health.FAIL: "✗"}
_NAME_WIDTH = 17


def plain_lines(finding: Finding) -> list[str]:
    """Return the lines of a finding for a pipe."""
    line = f"{finding.health.value:<4}  {finding.name:<{_NAME_WIDTH}}  {finding.text}"
    return [line] if finding.hint is None else [line, f"{'':<{_NAME_WIDTH + 8}}try: {finding.hint}"]


def view(finding: Finding, width: int, *, unicode: bool) -> RenderableType:
    """Return the lines of a finding for a terminal of that width."""
    from rich.console import Group
    from rich.text import Text

    mark = _MARKS[finding.health] if unicode else finding.health.value
    mark_width = 1 if unicode else 4
    indent = mark_width + _NAME_WIDTH + 2 if width >= 60 else mark_width + 1
    head = Text(f"{mark:<{mark_width}} ", style=_STYLES[finding.health])
    head.append(f"{finding.name:<{_NAME_WIDTH}} " if width >= 60 else f"{finding.name}: ", style="bold")
    first, *others = _wrapped(finding.text, width - head.cell_len, width - indent)
    lines = [head.append(first), *(Text(" " * indent + line) for line in others)]
    for number, line in enumerate(textwrap.wrap(finding.hint or "", max(20, width - indent - 5))):
        lines.append(Text(f"{' ' * indent}{'try: ' if number == 0 else '     '}{line}", style="dim"))
    return Group(*lines)


def _wrapped(text: str, first: int, others: int) -> list[str]:
    """Break between words only, so that paths can be copied."""
    lines: list[str] = []
    room, line = first, ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > room:
            lines.append(line)
            room, line = others, word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]


def verdict(findings: Iterable[Finding]) -> str:
    """Return a sentence with the number of problems."""
    known: Sequence[Finding] = list(findings)
    found = [one for one in known if one.health is not Health.NONE]
    absent = ", ".join(one.name for one in known if one.health is Health.NONE)
    rest = f" Not installed: {absent}." if absent else ""
    failed, warned = (sum(one.health is health for one in found) for health in (Health.FAIL, Health.WARN))
    if failed:
        return f"{failed} of {len(found)} checks failed" + (f", {warned} warn." if warned else ".") + rest
    return (f"{warned} of {len(found)} checks warn." if warned else f"All {len(found)} checks are well.") + rest
