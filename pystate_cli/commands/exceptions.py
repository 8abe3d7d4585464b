"""`pystate exceptions JOBID`."""

from __future__ import annotations

import typer

from pystate.runtime.rest.job_detail_messages import JobExceptionsInfoWithHistory
from pystate_cli.arguments.job_selection import connect_to_job
from pystate_cli.arguments.options import ApplicationOption, JobIdArgument, JobManagerOption, JsonOption, VerboseOption
from pystate_cli.session import Session
from pystate_cli.views.failure_list import FAILURES, FailureRow, failure_lines, hint_lines, trace_lines


def exceptions(
    context: typer.Context,
    job: JobIdArgument = None,
    as_json: JsonOption = False,
    application_id: ApplicationOption = None,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Show the last failures of a job, those it was restarted after among them; -v adds their stack traces."""
    session = Session.of(context)
    console = session.console
    client, job_id = connect_to_job(session, job_manager, job, application_id)
    answer = client.get(f"/jobs/{job_id}/exceptions", JobExceptionsInfoWithHistory)
    if as_json:
        console.result_json(answer)
        return
    history = answer.exception_history
    rows = [FailureRow.of(entry, job_id) for entry in history.entries]
    if not console.is_terminal:
        for line in FAILURES.plain(rows):
            console.result(line)
    elif rows:
        for part in failure_lines(rows, console.width):
            console.render(part)
        hints = hint_lines(rows)
        for line in ["", *hints] if hints else []:
            console.result(line)
    for line in (line for row in rows for line in (trace_lines(row) if verbose else ())):
        console.result(line)
    if not rows:
        console.info("Nothing has failed.")
    elif history.truncated:
        console.info(f"These are the last {len(rows)}; there were more.")
