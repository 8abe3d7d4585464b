"""`pystate checkpoints [--watch [-n SECONDS]] JOBID`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from pystate_cli.console import Console
from pystate_cli.job_selection import find_job
from pystate_cli.options import JobIdArgument, JobManagerOption, JsonOption, VerboseOption
from pystate_cli.rest_client import RestClient
from pystate_cli.session import Session, job_state
from pystate_cli.views.checkpoint_list import CheckpointRow, path_lines, plain_lines, summary_line, table
from pystate_cli.watching import DEFAULT_INTERVAL, IntervalOption, WatchOption, refuse_watched_json, watch

if TYPE_CHECKING:
    from rich.console import RenderableType

_OTHER_LINES = 5
"""Lines of a view that aren't rows of the table: headings, a gap, the summary, the job's state."""


def checkpoints(
    context: typer.Context,
    job: JobIdArgument,
    watched: WatchOption = False,
    seconds: IntervalOption = DEFAULT_INTERVAL,
    as_json: JsonOption = False,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Show the latest checkpoints and savepoints of a job."""
    session = Session.of(context)
    console = session.console
    refuse_watched_json(watched, as_json)
    client = session.connect(job_manager)
    job_id = find_job(client, job)
    if watched:
        watch(console, lambda: _Look(client, job_id, unicode=console.has_unicode), seconds)
        return
    statistics = client.get(f"/jobs/{job_id}/checkpoints")
    if as_json:
        console.result_json(statistics)
    else:
        _show(console, statistics)


def _show(console: Console, statistics: dict[str, Any]) -> None:
    rows = _rows(statistics)
    if not console.is_terminal:
        for line in plain_lines(rows):
            console.result(line)
        console.story(summary_line(statistics))
        return
    if rows:
        console.render(table(rows, console.width, unicode=console.has_unicode))
        console.result("")
    console.result(summary_line(statistics))
    for line in path_lines(rows, statistics, console.width):
        console.result(line)


class _Look:
    """The checkpoints at one moment."""

    def __init__(self, client: RestClient, job_id: str, *, unicode: bool) -> None:
        self._job_id = job_id
        self._unicode = unicode
        self._state = job_state(client, job_id)  # asked first: the last statistics are those behind the end
        self._statistics = client.get(f"/jobs/{job_id}/checkpoints")
        self._rows = _rows(self._statistics)

    @property
    def is_last(self) -> bool:
        return self._state.is_terminal

    def block(self) -> list[str]:
        return plain_lines(self._rows)

    def view(self, width: int, height: int) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        end = f"Job {self._job_id} is {self._state.value}" + ("." if self.is_last else " (q: quit).")
        rows = self._rows[: max(1, height - _OTHER_LINES)]
        paths = path_lines(self._rows, self._statistics, width)[: max(0, height - _OTHER_LINES - len(rows))]
        if paths and paths[-1].endswith(":"):
            paths.pop()  # its path stands below it and was cut
        parts: list[RenderableType] = [table(rows, width, unicode=self._unicode), Text("")] if rows else []
        parts += [Text(line) for line in (summary_line(self._statistics), *paths)]
        return Group(*parts, Text(end, style="dim"))


def _rows(statistics: dict[str, Any]) -> list[CheckpointRow]:
    return [CheckpointRow.of(entry) for entry in statistics["history"]]
