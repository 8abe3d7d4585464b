"""What `pystate dev` shows: one screen on a terminal, lines in a pipe."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pystate.common.program_finding import ProgramFinding
from pystate.common.text.figures import format_millis
from pystate_cli.console.formats import printable
from pystate_cli.console.live_region import drawn_lines
from pystate_cli.console.word_wrap import folded
from pystate_cli.sampling.run_sample import RunSample
from pystate_cli.tables.facts import flowing
from pystate_cli.views.program_report import in_order, plain_lines, view
from pystate_cli.views.run_view import run_view

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_LEAST_OUTPUT = 3
_MOST_FINDINGS = 5
_LAST_TOLD = 3


@dataclass(frozen=True)
class DevNews:
    """What is known of a session, besides the figures and the output of its job.

    Attributes:
        program: The program's name.
        version: The number of the version that runs, or ran last; 0 before the first.
        doing: What is being done at the moment; empty if a job just runs.
        saved: When the program was saved last, seconds since 1970; None before the first.
        took: How long the last version took from the save until it ran, in seconds.
        parts: What that time consists of.
        findings: What is wrong with the version that was saved last.
        failure: The lines of the last error, with the paths and lines of the author's files.
        told: What has happened, the latest last.
    """

    program: str
    version: int = 0
    doing: str = ""
    saved: float | None = None
    took: float | None = None
    parts: str = ""
    findings: tuple[ProgramFinding, ...] = ()
    failure: tuple[str, ...] = ()
    told: tuple[str, ...] = ()


def news_lines(before: DevNews, now: DevNews) -> Iterator[str]:
    """Yield the lines for a pipe that say what has changed."""
    if now.findings != before.findings:
        for finding in in_order(now.findings):
            yield from plain_lines(finding)
    if now.failure != before.failure:
        yield from now.failure
    yield from now.told[len(before.told) :]


def dev_view(
    news: DevNews,
    sample: RunSample | None,
    output: Sequence[str],
    width: int,
    height: int,
    *,
    unicode: bool,
    now: int | None = None,
) -> RenderableType:
    """Return the screen.

    Args:
        news: What is known of the session.
        sample: The figures of its job; None without any.
        output: The last lines that the job has printed.
        width: Columns of the terminal.
        height: Its lines; the output gets those that are left.
        unicode: Whether it shows more than ASCII.
        now: Milliseconds since 1970.
    """
    from rich.console import Group
    from rich.rule import Rule
    from rich.text import Text

    now = int(time.time() * 1000) if now is None else now
    line = "─" if unicode else "-"
    head = [Text(f"dev {printable(news.program)}", style="bold")]
    if news.version:
        head.append(Text(f"version {news.version}"))
    if news.saved is not None:
        head.append(Text(f"saved {format_millis(max(0, now - int(news.saved * 1000)))} ago", style="dim"))
    if news.took is not None:
        head.append(Text(f"ran after {news.took:.1f} s ({news.parts})", style="dim"))
    parts: list[RenderableType] = [*flowing(head, width, gap=2)]
    if news.doing:
        parts.append(folded(news.doing, "cyan"))
    if sample is not None:
        parts.append(run_view(sample, width, unicode=unicode, now=now))
    parts += [folded(printable(sentence), "dim") for sentence in news.told[-_LAST_TOLD:]]
    findings = in_order(news.findings)
    if findings or news.failure:
        parts.append(Rule(style="dim", characters=line))
    parts += [view(finding, width) for finding in findings[:_MOST_FINDINGS]]
    if len(findings) > _MOST_FINDINGS:
        more = f"and {len(findings) - _MOST_FINDINGS} more: pystate check {printable(news.program)}"
        parts.append(folded(more, "dim"))
    parts += [folded(text, "red") for text in news.failure]
    parts.append(Rule("output", style="dim", characters=line, align="left"))
    room = max(_LEAST_OUTPUT, height - drawn_lines(parts, width) - 1)
    parts += _last_rows(output, width, room)
    parts.append(Text("(q or Ctrl-C ends it)", style="dim"))
    return Group(*parts)


def _last_rows(output: Sequence[str], width: int, rows: int) -> list[Text]:
    """Return the last rows that a terminal of that width needs for lines of output."""
    from rich.cells import chop_cells
    from rich.text import Text

    found: list[str] = []
    for line in reversed(output):
        if len(found) >= rows:
            break
        found = [*(chop_cells(line.expandtabs(), width) or [""]), *found]
    return [Text(row) for row in found[-rows:]]
