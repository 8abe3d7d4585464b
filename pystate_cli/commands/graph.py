"""`pystate graph JOB` and `pystate graph job.py`: the job graph as text and as SVG."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Annotated, Any

import typer

from pystate.common.errors import UsageError
from pystate.common.files.home import write_file_atomically
from pystate.runtime.rest.job_detail_messages import JobPlanInfo, PlanNode
from pystate_cli.arguments.completions import complete_job
from pystate_cli.arguments.job_selection import connect_to_job
from pystate_cli.arguments.options import (
    ApplicationOption,
    ConfDirOption,
    JobManagerOption,
    JsonOption,
    PropertyOption,
    VerboseOption,
)
from pystate_cli.programs.program_arguments import ParallelismOption
from pystate_cli.session import Session
from pystate_cli.views.plan_view import plan_lines, plan_view

_FIELDS = ("id", "type", "pact", "parallelism", "uid", "predecessors")


def graph(
    context: typer.Context,
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="JOBID|JOB.PY",
            help="The job, or the program of one, for which no job manager is needed.",
            autocompletion=complete_job,
            show_default=False,
        ),
    ] = None,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGUMENTS]", help="Those of the program, after --.", show_default=False)
    ] = None,
    svg: Annotated[
        str | None,
        typer.Option("--svg", metavar="FILE", help="Write a drawing to this file; - prints it.", show_default=False),
    ] = None,
    parallelism: ParallelismOption = None,
    properties: PropertyOption = None,
    conf_dir: ConfDirOption = None,
    as_json: JsonOption = False,
    application_id: ApplicationOption = None,
    job_manager: JobManagerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Draw the graph of a job: as a tree, and with --svg as a picture. Of job.py it is drawn without running a job.

    The graph of a job has its tasks, with what is chained in one; that of a program has its steps.
    """
    session = Session.of(context)
    console = session.console
    if job is not None and job.endswith(".py"):
        answer = _of_program(session, job, arguments or [], parallelism, properties or [], conf_dir)
    elif arguments or properties or parallelism is not None or conf_dir is not None:
        message = "-p, -D, --conf-dir and arguments are for the graph of a program."
        raise UsageError(message, hint="pystate graph job.py; the graph of a job is as it runs")
    else:
        client, job_id = connect_to_job(session, job_manager, job, application_id)
        answer = plan_of_job(client.get(f"/jobs/{job_id}/plan", JobPlanInfo))
    if svg is not None and as_json:
        message = "--svg and --json can't be given together."
        raise UsageError(message)
    if as_json:
        nodes = [{name: node[name] for name in _FIELDS if name in node} for node in answer["plan"]["nodes"]]
        console.result_json({"name": answer["name"], "parallelism": answer["parallelism"], "nodes": nodes})
    elif svg is not None:
        from pystate_cli.views.plan_svg import plan_svg

        drawing = plan_svg(answer)
        if svg == "-":
            console.result(drawing)
            return
        try:
            write_file_atomically(Path(svg), f"{drawing}\n".encode(), mode=0o644)
        except OSError as error:
            message = f"The drawing can't be written: {error.strerror}."
            raise UsageError(message, where=svg) from error
        console.info(f"Drawn to {svg}")
    elif console.is_terminal:
        console.render(plan_view(answer, console.width, unicode=console.has_unicode))
    else:
        for line in plan_lines(answer, unicode=console.has_unicode):
            console.result(line)


def plan_of_job(info: JobPlanInfo) -> dict[str, Any]:
    """Return the plan of a job as that of a program: the first nodes first, each with what it follows."""
    nodes = info.plan.nodes[::-1]
    feeds = {one.id for node in nodes for one in node.inputs or ()}
    return {
        "name": info.plan.name,
        "parallelism": max((node.parallelism for node in nodes), default=1),
        "plan": {"nodes": [_node(node, is_last=node.id not in feeds) for node in nodes]},
    }


def _node(node: PlanNode, *, is_last: bool) -> dict[str, Any]:
    names = [html.unescape(line).lstrip(" +-:|") for line in node.description.split("<br/>") if line]
    return {
        "id": node.id,
        "type": " -> ".join(names),
        "pact": "Data Sink" if is_last and node.inputs else "Operator" if node.inputs else "Data Source",
        "parallelism": node.parallelism,
        "uid": node.uid,
        "predecessors": [{"id": one.id, "ship_strategy": one.ship_strategy} for one in node.inputs or ()],
    }


def _of_program(
    session: Session,
    job_file: str,
    arguments: list[str],
    parallelism: int | None,
    properties: list[str],
    conf_dir: str | None,
) -> dict[str, Any]:
    from pystate_cli.programs.given_program import given_program
    from pystate_cli.programs.program_process import planned

    program = given_program(session, job_file, arguments, (), properties=properties, conf_dir=conf_dir)
    with session.console.waiting(f"Executing {program.path.name} up to execute()"):
        answer = planned(program, parallelism=parallelism)
    for notice in answer["notices"]:
        session.console.warning(notice)
    return answer
