"""`pystate checkpoints [--summary] [--watch [-n SECONDS]] JOBID [ID]`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from pystate.common.errors import UsageError
from pystate.common.job_status import JobStatus
from pystate.runtime.rest.checkpoint_messages import (
    CheckpointingStatistics,
    CheckpointStatistics,
    TaskCheckpointStatisticsWithSubtaskDetails,
)
from pystate_cli.arguments.job_selection import connect_to_job
from pystate_cli.arguments.options import ApplicationOption, JobIdArgument, JobManagerOption, JsonOption, VerboseOption
from pystate_cli.client.rest_client import RestClient
from pystate_cli.console.console import Console
from pystate_cli.console.watching import DEFAULT_INTERVAL, IntervalOption, WatchOption, refuse_watched_json, watch
from pystate_cli.session import Session, job_state
from pystate_cli.views.snapshots.checkpoint_details import CheckpointDetails, details_view, header_line
from pystate_cli.views.snapshots.checkpoint_details import plain_lines as plain_details
from pystate_cli.views.snapshots.checkpoint_list import CHECKPOINTS, CheckpointRow, path_lines, summary_line, wait_lines
from pystate_cli.views.snapshots.checkpoint_summary import SUMMARY, summary_rows, summary_title

if TYPE_CHECKING:
    from rich.console import RenderableType

_OTHER_LINES = 5
"""Lines of a list that aren't rows of the table: headings, a gap, the summary, the job's state."""


def checkpoints(
    context: typer.Context,
    job: JobIdArgument = None,
    checkpoint_id: Annotated[
        int | None,
        typer.Argument(metavar="ID", min=0, help="One checkpoint or savepoint, with its operators and subtasks."),
    ] = None,
    summary: Annotated[
        bool,
        typer.Option("--summary", help="Minimum, average, percentiles and maximum of all completed.", show_default=False),
    ] = False,
    watched: WatchOption = False,
    seconds: IntervalOption = DEFAULT_INTERVAL,
    as_json: JsonOption = False,
    application_id: ApplicationOption = None,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Show the latest checkpoints and savepoints of a job, or one of them down to its subtasks."""
    session = Session.of(context)
    console = session.console
    refuse_watched_json(watched, as_json)
    if summary and checkpoint_id is not None:
        message = "--summary is of all checkpoints, and an ID names one."
        raise UsageError(message, hint="leave one of them out")
    client, job_id = connect_to_job(session, job_manager, job, application_id)
    path = f"/jobs/{job_id}/checkpoints"

    def read() -> _View:
        if checkpoint_id is not None:
            details = client.get(f"{path}/details/{checkpoint_id}", CheckpointStatistics)
            subtasks = f"{path}/details/{checkpoint_id}/subtasks"
            kind = TaskCheckpointStatisticsWithSubtaskDetails
            return _Details(details, {vertex: client.get(f"{subtasks}/{vertex}", kind) for vertex in details.tasks})
        statistics = client.get(path, CheckpointingStatistics)
        return _Summary(statistics) if summary else _List(statistics)

    if watched:
        watch(console, lambda: _Look(client, job_id, read, unicode=console.has_unicode), seconds)
    elif as_json:
        console.result_json(read().json())
    else:
        _show(console, read())


class _View(Protocol):
    """The requested view, of one answer."""

    @property
    def is_final(self) -> bool:
        """Whether it can't change any more, although the job continues."""

    def json(self) -> Any:
        """Return the output of `--json`."""

    def plain(self) -> list[str]:
        """Return the lines for a pipe."""

    def sentence(self) -> str:
        """Return a sentence for stderr beside a pipe."""

    def waits(self) -> list[str]:
        """Return which of them wait for the end of an epoch, for stderr beside a pipe."""

    def parts(self, width: int, height: int | None, *, unicode: bool) -> list[RenderableType]:
        """Return the output for a terminal of that size; without a height it is unlimited."""


class _List:
    """The last checkpoints."""

    is_final = False

    def __init__(self, statistics: CheckpointingStatistics) -> None:
        self._statistics = statistics
        self._rows = [CheckpointRow.of(entry) for entry in statistics.history]

    def json(self) -> Any:
        return self._statistics

    def plain(self) -> list[str]:
        return CHECKPOINTS.plain(self._rows)

    def sentence(self) -> str:
        return summary_line(self._statistics.counts)

    def waits(self) -> list[str]:
        return wait_lines(self._rows)

    def parts(self, width: int, height: int | None, *, unicode: bool) -> list[RenderableType]:
        from rich.text import Text

        rows = self._rows if height is None else self._rows[: max(1, height - _OTHER_LINES)]
        paths = path_lines(self._rows, self._statistics.latest.restored, width)
        if height is not None:
            paths = paths[: max(0, height - _OTHER_LINES - len(rows))]
            if paths and paths[-1].endswith(":"):
                paths.pop()  # its path is shown below it and was truncated
        parts: list[RenderableType] = [CHECKPOINTS.table(rows, width, unicode=unicode), Text("")] if rows else []
        return [*parts, *(Text(line, overflow="fold") for line in (self.sentence(), *paths))]


class _Summary:
    """Figures of all completed checkpoints."""

    is_final = False

    def __init__(self, statistics: CheckpointingStatistics) -> None:
        self._statistics = statistics

    def json(self) -> Any:
        return {"counts": self._statistics.counts, "summary": self._statistics.summary}

    def plain(self) -> list[str]:
        return SUMMARY.plain(summary_rows(self._statistics.summary, all_figures=True))

    def sentence(self) -> str:
        return summary_title(self._statistics.counts.completed)

    def waits(self) -> list[str]:
        return []

    def parts(self, width: int, height: int | None, *, unicode: bool) -> list[RenderableType]:
        from rich.text import Text

        del height
        title = Text(self.sentence())
        if not self._statistics.counts.completed:
            return [title]
        return [title, Text(""), SUMMARY.table(summary_rows(self._statistics.summary), width, unicode=unicode)]


class _Details:
    """One checkpoint."""

    def __init__(
        self, answer: CheckpointStatistics, tasks: Mapping[str, TaskCheckpointStatisticsWithSubtaskDetails]
    ) -> None:
        self._answer, self._tasks = answer, tasks
        self._details = CheckpointDetails.of(answer, tasks)

    def json(self) -> Any:
        return {**self._answer.to_plain(), "tasks": self._tasks}

    @property
    def is_final(self) -> bool:
        return not self._details.is_in_progress

    def plain(self) -> list[str]:
        return plain_details(self._details)

    def sentence(self) -> str:
        return header_line(self._details)

    def waits(self) -> list[str]:
        return wait_lines([self._details.row])

    def parts(self, width: int, height: int | None, *, unicode: bool) -> list[RenderableType]:
        return [details_view(self._details, width, unicode=unicode, height=height)]


def _show(console: Console, view: _View) -> None:
    if console.is_terminal:
        for part in view.parts(console.width, None, unicode=console.has_unicode):
            console.render(part)
        return
    for line in view.plain():
        console.result(line)
    for line in (view.sentence(), *view.waits()):
        console.info(line)


class _Look:
    """A view at one point in time."""

    def __init__(
        self,
        client: RestClient,
        job_id: str,
        read: Callable[[], _View],
        *,
        unicode: bool,
    ) -> None:
        self._job_id = job_id
        self._unicode = unicode
        self._state: JobStatus = job_state(client, job_id)  # checked first: the last answer is one after the end
        self._view = read()

    @property
    def is_last(self) -> bool:
        return self._state.is_terminal or self._view.is_final

    def block(self) -> list[str]:
        return self._view.plain()

    def view(self, width: int, height: int) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        end = f"Job {self._job_id} is {self._state.value}" + ("." if self.is_last else " (q: quit).")
        parts = self._view.parts(width, height - 1, unicode=self._unicode)
        return Group(*parts, Text(end, style="dim"))
