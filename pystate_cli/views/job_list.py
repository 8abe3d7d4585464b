"""The list of jobs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pystate_cli.formats import format_flink_time, format_millis, format_moment, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

_WIDTH = 62  # of the flink client's rules
STATE_STYLES = {
    "RUNNING": "green",
    "FINISHED": "cyan",
    "CANCELED": "yellow",
    "CANCELLING": "yellow",
    "FAILED": "bold red",
    "FAILING": "bold red",
    "RESTARTING": "magenta",
}
_WIDE = 100
_LEAST_COLUMNS = 3
_SHORTEST_NAME, _LONGEST_NAME = 8, 48


@dataclass(frozen=True)
class JobGroups:
    """Entries of GET /jobs/overview; None for a group nobody asked for."""

    running: list[dict[str, Any]] | None
    scheduled: list[dict[str, Any]] | None
    terminated: list[dict[str, Any]] | None

    def all(self) -> list[dict[str, Any]]:
        """Return the entries of all groups."""
        return [*(self.running or ()), *(self.scheduled or ()), *(self.terminated or ())]


def plain_lines(groups: JobGroups) -> list[str]:
    """Return the lines of the flink client, for programs that read them."""
    lines: list[str] = []
    blocks = (
        (groups.running, " Running/Restarting Jobs ", "No running jobs."),
        (groups.scheduled, " Scheduled Jobs ", "No scheduled jobs."),
    )
    for jobs, title, none in blocks:
        if jobs:
            lines += _block(title, jobs)
        elif jobs is not None:
            lines.append(none)
    if groups.terminated:
        lines += _block(" Terminated Jobs ", groups.terminated)
    return lines


def _block(title: str, jobs: list[dict[str, Any]]) -> list[str]:
    left = (_WIDTH - len(title)) // 2
    rule = f"{'-' * left}{title}{'-' * (_WIDTH - len(title) - left)}"
    entries = [
        f"{format_flink_time(job['start-time'])} : {job['jid']} : {printable(job['name'])} ({job['state']})" for job in jobs
    ]
    return [rule, *entries, "-" * _WIDTH]


def table(groups: JobGroups, width: int, *, unicode: bool, now: int | None = None) -> RenderableType:
    """Return the table for a terminal of that width."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    jobs = groups.all()
    if not jobs:
        asked = [name for name, group in (("running", groups.running), ("scheduled", groups.scheduled)) if group is not None]
        return Text(f"No {' or '.join(asked)} jobs." if groups.terminated is None else "No jobs.")
    now = int(time.time() * 1000) if now is None else now
    wide = width >= _WIDE
    rows = [_cells(job, now, wide=wide, unicode=unicode) for job in jobs]
    headings = ["Job ID", "Name", "State", "Started", "Duration", "Tasks"][: len(rows[0])]
    widths = [max(len(row[column]) for row in [headings, *rows]) for column in range(len(headings))]
    gap = 2 if wide else 1
    while len(widths) > _LEAST_COLUMNS and sum(widths) - widths[1] + _SHORTEST_NAME + gap * len(widths) > width:
        widths.pop()  # half an id would be of no use
    # the name gives way, nothing else
    widths[1] = min(widths[1], _LONGEST_NAME, max(_SHORTEST_NAME, width - sum(widths) + widths[1] - gap * len(widths)))
    grid = Table(
        box=box.SIMPLE_HEAD if unicode else box.ASCII2,
        padding=(0, gap - 1, 0, 0),
        pad_edge=False,
        show_edge=False,
        header_style="bold",
    )
    for heading, column_width in zip(headings, widths, strict=False):
        justify: Literal["left", "right"] = "right" if heading in ("Started", "Duration", "Tasks") else "left"
        grid.add_column(heading, width=column_width, justify=justify, no_wrap=True, overflow="ellipsis")
    for job, row in zip(jobs, rows, strict=True):
        style = STATE_STYLES.get(job["state"], "dim")
        shown = row[: len(widths)]
        grid.add_row(*(Text(cell, style=style if column == 2 else "") for column, cell in enumerate(shown)))
    return grid


def _cells(job: dict[str, Any], now: int, *, wide: bool, unicode: bool) -> list[str]:
    started = format_moment(job["start-time"], now)
    state = f"● {job['state']}" if unicode and wide else job["state"]
    short_start = started if wide or len(started) <= len("11:58:37") else started[5:16]
    cells = [job["jid"], printable(job["name"]), state, short_start, format_millis(job["duration"])]
    return [*cells, f"{job['tasks']['running']}/{job['tasks']['total']}"] if wide else cells
