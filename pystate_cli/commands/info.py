"""`pystate info [-s PATH] [OPTIONS] job.py [ARGUMENTS]`."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from pystate.common.errors import RestoreError
from pystate.common.stream_guarantee import StreamGuarantee, guarantee_lines
from pystate.common.text.plain_data import to_plain
from pystate_cli.arguments.options import JOB_MANAGER_NAMES, ConfDirOption, JsonOption, PropertyOption, VerboseOption
from pystate_cli.arguments.savepoint_places import check_starting_snapshot
from pystate_cli.arguments.snapshot_options import CLAIM_MODE_NAMES, RESTORE_MODE_NAMES
from pystate_cli.console.console import Console
from pystate_cli.programs.given_program import given_program
from pystate_cli.programs.program_arguments import (
    NAME_NAMES,
    PROGRAM_FLAGS,
    PROGRAM_WITH_VALUE,
    PYTHON_ARCHIVES_NAMES,
    PYTHON_EXECUTABLE_NAMES,
    TARGET_NAMES,
    AllowNonRestoredOption,
    JobFileArgument,
    ParallelismOption,
    ProgramArgumentsArgument,
    PythonFilesOption,
    starting_option,
    with_job_file_after_options,
)
from pystate_cli.programs.program_process import planned
from pystate_cli.session import Session
from pystate_cli.views.plan_view import plan_view

_FIELDS = ("id", "type", "pact", "contents", "parallelism", "uid", "predecessors")
_AS_FOR_RUN = "Taken as run takes it; it changes nothing here."


def info(
    context: typer.Context,
    job_file: JobFileArgument,
    arguments: ProgramArgumentsArgument = None,
    savepoint_path: Annotated[
        str | None,
        starting_option(
            "Show what the program would make of this savepoint or checkpoint; exit code 1 where it does not fit."
        ),
    ] = None,
    allow_non_restored_state: AllowNonRestoredOption = False,
    parallelism: ParallelismOption = None,
    properties: PropertyOption = None,
    conf_dir: ConfDirOption = None,
    python_files: PythonFilesOption = None,
    python_archives: Annotated[
        str | None, typer.Option(*PYTHON_ARCHIVES_NAMES, metavar="PATH#NAME", help=_AS_FOR_RUN)
    ] = None,
    python_executable: Annotated[
        str | None, typer.Option(*PYTHON_EXECUTABLE_NAMES, metavar="PATH", help=_AS_FOR_RUN)
    ] = None,
    claim_mode: Annotated[str | None, typer.Option(*CLAIM_MODE_NAMES, metavar="MODE", help=_AS_FOR_RUN)] = None,
    restore_mode: Annotated[str | None, typer.Option(*RESTORE_MODE_NAMES, metavar="MODE", help=_AS_FOR_RUN)] = None,
    target: Annotated[str | None, typer.Option(*TARGET_NAMES, metavar="TARGET", help=_AS_FOR_RUN)] = None,
    job_name: Annotated[str | None, typer.Option(*NAME_NAMES, metavar="NAME", help=_AS_FOR_RUN)] = None,
    as_json: JsonOption = False,
    job_manager: Annotated[
        str | None, typer.Option(*JOB_MANAGER_NAMES, metavar="HOST:PORT", help="Not asked: no job manager is needed.")
    ] = None,
    verbose: VerboseOption = False,
) -> int:
    """Show the plan of a program without running its job: a tree on a terminal, Flink's JSON in a pipe.

    The program is executed up to its execute(); what it prints goes to stderr. With -s it is a dry run of a restore: each
    operator and source of the snapshot beside the program's, without starting Spark, and exit code 1 where something does
    not fit. The types of values are declared in open(), and compared when the slots restore them.
    """
    session = Session.of(context)
    console = session.console
    program = given_program(
        session,
        job_file,
        arguments,
        PROGRAM_FLAGS | PROGRAM_WITH_VALUE,
        properties=properties,
        python_files=python_files,
        claim_mode=claim_mode,
        restore_mode=restore_mode,
        conf_dir=conf_dir,
        savepoint_path=savepoint_path,
    )
    check_starting_snapshot(program.starting, here=True)  # the program may take long until its execute()
    with console.waiting(f"Executing {program.path.name} up to execute()"):
        answer = planned(program, parallelism=parallelism, allow_non_restored_state=allow_non_restored_state)
    for notice in answer["notices"]:
        console.warning(notice)
    restore = answer.get("restore")
    nodes = [{name: node[name] for name in _FIELDS if name in node} for node in answer["plan"]["nodes"]]
    guarantees = [StreamGuarantee.from_plain(one) for one in answer["guarantees"]]
    if as_json:
        said = {"nodes": nodes, "guarantees": [to_plain(one) for one in guarantees]}
        console.result_json(said if restore is None else {**said, "restore": restore})
    elif not console.is_terminal:
        if restore is None:
            console.result_text(json.dumps({"nodes": nodes}, indent=2))  # exactly Flink's output
            console.guarantees(guarantees)
    else:
        console.render(plan_view(answer, console.width, unicode=console.has_unicode))
        console.result("")
        for line in guarantee_lines(guarantees, console.width, unicode=console.has_unicode):
            console.result(line)
    return 0 if restore is None else _tell_restore(console, restore, as_json=as_json)


def _tell_restore(console: Console, restore: dict[str, Any], *, as_json: bool) -> int:
    from pystate_cli.views.restore_fit import problem_lines, restore_lines, restore_parts

    if console.is_terminal and not as_json:
        console.result("")
        for part in restore_parts(restore, console.width, unicode=console.has_unicode):
            console.render(part)
    elif not as_json:
        for line in restore_lines(restore):
            console.result(line)
    if restore["fits"]:
        console.info("The snapshot fits, as far as can be seen without slots: they compare the types of values.")
        return 0
    for line in problem_lines(restore):
        console.info(line)
    misfits = [one for one in (*restore["operators"], *restore["sources"]) if one["problem"] is not None]
    count = len(misfits)
    message = f"The snapshot does not fit the program: {count} problem{'' if count == 1 else 's'}."
    gone = any(one["program"] is None for one in misfits)
    hint = "-n leaves out state and sources that the program has no more" if gone else None
    raise RestoreError(message, where=restore["path"], hint=hint)


def info_arguments(arguments: list[str]) -> list[str]:
    """Return the arguments of `info` with the value of Flink's `-py` as a positional argument."""
    return with_job_file_after_options(arguments, PROGRAM_FLAGS, PROGRAM_WITH_VALUE, "info")
