"""`pystate logs [-f] [--tail N] [--stdout] JOBID`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Annotated

import typer

from pystate_cli.arguments.job_selection import connect_to_job
from pystate_cli.arguments.options import ApplicationOption, JobIdArgument, JobManagerOption, JsonOption, VerboseOption
from pystate_cli.client.job_output import JobOutput, lost_sentence
from pystate_cli.session import Session


def logs(
    context: typer.Context,
    job: JobIdArgument = None,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on until the job ends; Ctrl-C ends it before.", show_default=False)
    ] = False,
    tail: Annotated[int | None, typer.Option("--tail", metavar="N", min=0, help="Begin with the last N lines.")] = None,
    stdout: Annotated[
        bool,
        typer.Option("--stdout", help="What an attached job has printed, instead of its log.", show_default=False),
    ] = False,
    as_json: JsonOption = False,
    application_id: ApplicationOption = None,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> int:
    """Show the log of a job, also of one that has ended; what a detached job prints is in it.

    With --json each line is an object.
    """
    session = Session.of(context)
    client, job_id = connect_to_job(session, job_manager, job, application_id)
    output = JobOutput(
        client,
        job_id,
        "stdout" if stdout else "log",
        lost=lambda count: session.console.warning(lost_sentence(count)),
    )
    offset = output.begin() if tail is None else output.offset_of_last(tail)
    if tail is None and offset:
        session.console.info(f"The first {offset:,} bytes of the log are gone: it had grown too large.")
    try:
        pieces = output.from_(offset, follow=follow)
        if as_json:
            for line in _lines(pieces):
                session.console.result(json.dumps({"line": line}))
        else:
            for data in pieces:
                session.console.raw(data)
    except KeyboardInterrupt:
        return 0 if follow else 130
    return 0


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """Yield whole lines, and at the end the rest after the last newline."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace")
    if rest:
        yield rest.decode("utf-8", "replace")
