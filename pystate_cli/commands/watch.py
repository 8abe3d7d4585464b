"""`pystate watch JOBID`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer

from pystate.common.errors import ControlError
from pystate_cli.arguments.job_selection import connect_to_job
from pystate_cli.arguments.options import ApplicationOption, JobIdArgument, JobManagerOption, JsonOption, VerboseOption
from pystate_cli.client.rest_client import RestClient
from pystate_cli.console.watching import IntervalOption
from pystate_cli.console.watching import watch as watch_again
from pystate_cli.sampling.job_history import JobHistory, JobSample
from pystate_cli.session import Session
from pystate_cli.views.watch_lines import LOOKS, look_json
from pystate_cli.views.watch_view import watch_view

if TYPE_CHECKING:
    from rich.console import RenderableType

_DEFAULT_INTERVAL = 1.0


def watch(
    context: typer.Context,
    job: JobIdArgument = None,
    seconds: IntervalOption = _DEFAULT_INTERVAL,
    as_json: JsonOption = False,
    application_id: ApplicationOption = None,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Watch a job like top: throughput, backlog, epoch times, operators, checkpoints. q or Ctrl-C ends it.

    In a pipe it prints a line per look; with --json one look.
    """
    session = Session.of(context)
    console = session.console
    client, job_id = connect_to_job(session, job_manager, job, application_id)
    history = JobHistory(job_id)
    if as_json:
        console.result_json(look_json(history.look(client)))
        return
    looks = _Looks(session, client, job_manager, history, unicode=console.has_unicode)
    watch_again(console, looks.next, seconds, gap=False)


class _Looks:
    """Samples of a job, which continue across the restart of the job manager."""

    def __init__(
        self, session: Session, client: RestClient, address: str | None, history: JobHistory, *, unicode: bool
    ) -> None:
        self._session = session
        self._client = client
        self._address = address
        self._history = history
        self._unicode = unicode
        self._last: JobSample | None = None
        self._answered = 0.0
        self._header = True

    def next(self) -> _Look:
        try:
            self._last = self._history.look(self._client)
        except ControlError as error:
            if self._last is None:
                raise
            silence = time.monotonic() - self._answered
            try:
                self._client = self._session.connect(self._address)
            except ControlError:
                pass  # not yet
            return _Look(self._last, f"no answer for {silence:.0f} s: {error.message}", unicode=self._unicode, header=False)
        self._answered = time.monotonic()
        header, self._header = self._header, False
        return _Look(self._last, None, unicode=self._unicode, header=header)


class _Look:
    """The job at one point in time."""

    def __init__(self, look: JobSample, silence: str | None, *, unicode: bool, header: bool) -> None:
        self._look = look
        self._silence = silence
        self._unicode = unicode
        self._header = header

    @property
    def is_last(self) -> bool:
        return self._silence is None and self._look.progress.state.is_terminal

    def block(self) -> list[str]:
        if self._silence is not None:
            return [f"# {self._silence}"]
        lines = LOOKS.plain([self._look])
        return lines if self._header else lines[1:]

    def view(self, width: int, height: int) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        end = Text("(q: quit)", style="dim")
        if self._silence is not None:
            end = Text(f"{self._silence}  (q: quit)", style="yellow")
        elif self.is_last:
            end = Text(f"Job {self._look.job_id} is {self._look.progress.state.value}.", style="dim")
        return Group(watch_view(self._look, width, height - 1, unicode=self._unicode), end)
