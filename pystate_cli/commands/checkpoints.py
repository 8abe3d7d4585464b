"""`pystate checkpoints JOBID`."""

from __future__ import annotations

import typer

from pystate.common.home import parse_job_id
from pystate_cli.options import JobIdArgument, JobManagerOption, JsonOption, VerboseOption
from pystate_cli.session import Session
from pystate_cli.views.checkpoint_list import CheckpointRow, path_lines, plain_lines, summary_line


def checkpoints(
    context: typer.Context,
    job_id: JobIdArgument,
    as_json: JsonOption = False,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Show the latest checkpoints and savepoints of a job."""
    session = Session.of(context)
    job = parse_job_id(job_id)
    statistics = session.connect(job_manager).get(f"/jobs/{job}/checkpoints")
    console = session.console
    if as_json:
        console.result_json(statistics)
        return
    rows = [CheckpointRow.of(entry) for entry in statistics["history"]]
    if not console.is_terminal:
        for line in plain_lines(rows):
            console.result(line)
        console.story(summary_line(statistics))
        return
    if rows:
        from pystate_cli.views.checkpoint_list import table

        console.render(table(rows, console.width, unicode=console.has_unicode))
        console.result("")
    console.result(summary_line(statistics))
    for line in path_lines(rows, statistics, console.width):
        console.result(line)
