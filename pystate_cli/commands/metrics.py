"""`pystate metrics [--filter GLOB] [--watch [-n SECONDS]] JOBID`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from pystate.runtime.rest.metric_messages import JobMetrics
from pystate_cli.arguments.job_selection import connect_to_job
from pystate_cli.arguments.options import ApplicationOption, JobIdArgument, JobManagerOption, JsonOption, VerboseOption
from pystate_cli.console.watching import DEFAULT_INTERVAL, IntervalOption, WatchOption, refuse_watched_json, watch
from pystate_cli.session import Session
from pystate_cli.views.metric_list import METRICS, MetricRow, head_line, matching, measured_subtasks, subtask_table

if TYPE_CHECKING:
    from rich.console import RenderableType

_OTHER_LINES = 6
"""Lines that aren't rows: the sentence, the headings of two tables, gaps, what is left out."""


def metrics(
    context: typer.Context,
    job: JobIdArgument = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--filter", metavar="GLOB", help="Only metrics of such names: 'numRecords*', 'count.*', 'job.lastCheckpoint*'."
        ),
    ] = None,
    watched: WatchOption = False,
    seconds: IntervalOption = DEFAULT_INTERVAL,
    as_json: JsonOption = False,
    application_id: ApplicationOption = None,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Show what is measured of a job: its subtasks, its checkpoints, and what its functions count."""
    session = Session.of(context)
    console = session.console
    refuse_watched_json(watched, as_json)
    client, job_id = connect_to_job(session, job_manager, job, application_id)

    def look() -> _Look:
        return _Look(client.get(f"/pystate/jobs/{job_id}/metrics", JobMetrics), pattern, unicode=console.has_unicode)

    if watched:
        watch(console, look, seconds)
        return
    seen = look()
    if as_json:
        console.result_json(seen.answer)
    elif console.is_terminal:
        console.render(seen.view(console.width, None))
    else:
        for line in seen.block():
            console.result(line)
    if not seen.answer.up and not seen.is_last:
        console.warning("the job's driver does not answer; these are the metrics that stand in its files")
    if pattern is not None and not seen.rows:
        console.info(f"No metric of the job matches {pattern!r}.")


class _Look:
    """The metrics at one point in time.

    Args:
        answer: The answer of the job manager.
        pattern: The value of --filter.
        unicode: Whether the terminal shows more than ASCII.
    """

    def __init__(self, answer: JobMetrics, pattern: str | None, *, unicode: bool) -> None:
        self._all = [MetricRow.of(entry) for entry in answer.metrics]
        self._filtered = pattern is not None
        self._unicode = unicode
        self.rows = matching(self._all, pattern)
        wanted = set(map(id, self.rows))
        chosen = [entry for entry, row in zip(answer.metrics, self._all, strict=True) if id(row) in wanted]
        self.answer = replace(answer, metrics=chosen)

    @property
    def is_last(self) -> bool:
        """Whether the job has ended."""
        return self.answer.state.is_terminal

    def block(self) -> list[str]:
        """Return the lines for a pipe."""
        return METRICS.plain(self.rows)

    def view(self, width: int, height: int | None) -> RenderableType:
        """Return the output for a terminal of that size; without a height it is unlimited."""
        from rich.console import Group
        from rich.text import Text

        parts: list[RenderableType] = [Text(head_line(self.answer, self._all))]
        room = None if height is None else max(2, height - _OTHER_LINES)
        if self._filtered:
            listed = self.rows
        else:
            listed = [row for row in self._all if row.is_of_functions]
            subtasks = measured_subtasks(self._all)
            if subtasks:
                parts += [Text(""), subtask_table(subtasks).table(subtasks, width, unicode=self._unicode)]
                count = len({(row.task, row.subtask) for row in self._all if row.subtask is not None})
                room = None if room is None else max(1, room - count)
        shown = listed if room is None else listed[:room]
        if shown:
            parts += [Text(""), METRICS.table(shown, width, unicode=self._unicode)]
        if len(shown) < len(listed):
            parts.append(Text(f"{len(listed) - len(shown)} more; --filter GLOB chooses.", style="dim"))
        return Group(*parts)
