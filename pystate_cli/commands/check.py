"""`pystate check [-s PATH] [OPTIONS] job.py [ARGUMENTS]`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pystate.common.errors import JobGraphError
from pystate.common.program_finding import ProgramFinding, Severity
from pystate.common.stream_guarantee import StreamGuarantee, guarantee_lines
from pystate.common.text.plain_data import to_plain
from pystate_cli.arguments.options import ConfDirOption, JsonOption, PropertyOption, VerboseOption
from pystate_cli.arguments.savepoint_places import check_starting_snapshot
from pystate_cli.programs.given_program import given_program
from pystate_cli.programs.program_arguments import (
    PROGRAM_FLAGS,
    PROGRAM_WITH_VALUE,
    AllowNonRestoredOption,
    JobFileArgument,
    ParallelismOption,
    ProgramArgumentsArgument,
    PythonFilesOption,
    starting_option,
    with_job_file_after_options,
)
from pystate_cli.programs.program_process import ask_about
from pystate_cli.session import Session
from pystate_cli.views.program_report import in_order, plain_lines, verdict, view


def check(
    context: typer.Context,
    job_file: JobFileArgument,
    arguments: ProgramArgumentsArgument = None,
    savepoint_path: Annotated[
        str | None,
        starting_option(
            "Look whether the program fits this savepoint or checkpoint, too: operators, keys, sources, states."
        ),
    ] = None,
    allow_non_restored_state: AllowNonRestoredOption = False,
    parallelism: ParallelismOption = None,
    properties: PropertyOption = None,
    conf_dir: ConfDirOption = None,
    python_files: PythonFilesOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Find errors of a program without Spark: graph, uids, types, states, functions, settings; exit code 1 if there are any.

    The program is executed up to its execute(); what it prints goes to stderr. Instead of a Spark session it gets an object
    that takes everything; where the program needs a value of Spark's, the check ends, and says so.
    """
    session = Session.of(context)
    console = session.console
    try:
        program = given_program(
            session,
            job_file,
            arguments,
            PROGRAM_FLAGS | PROGRAM_WITH_VALUE,
            properties=properties,
            python_files=python_files,
            conf_dir=conf_dir,
            savepoint_path=savepoint_path,
        )
    except JobGraphError as error:  # it can't even be compiled
        answer: dict[str, Any] = {"findings": [ProgramFinding.of(error, "program").to_plain()]}
    else:
        check_starting_snapshot(program.starting, here=True)  # the program may take long until its execute()
        with console.waiting(f"Checking {program.path.name}"):
            answer = ask_about(
                program, "program_check", parallelism=parallelism, allow_non_restored_state=allow_non_restored_state
            )
    findings = in_order([ProgramFinding.from_plain(one) for one in answer["findings"]])
    guarantees = [StreamGuarantee.from_plain(one) for one in answer.get("guarantees", ())]
    failed = any(one.severity is Severity.ERROR for one in findings)
    if as_json:
        plain = {"findings": [to_plain(one) for one in findings], "guarantees": [to_plain(one) for one in guarantees]}
        restore = answer.get("restore")
        console.result_json(plain if restore is None else {**plain, "restore": restore})
        return int(failed)
    for finding in findings:
        if console.is_terminal:
            console.render(view(finding, console.width))
        else:
            for line in plain_lines(finding):
                console.result(line)
    width = console.width if console.is_terminal else None
    for line in guarantee_lines(guarantees, width, unicode=console.has_unicode):
        console.result(line)
    console.info(verdict(answer.get("name"), findings))
    return int(failed)


def check_arguments(arguments: list[str]) -> list[str]:
    """Return the arguments of `check` with the value of Flink's `-py` as a positional argument."""
    return with_job_file_after_options(arguments, PROGRAM_FLAGS, PROGRAM_WITH_VALUE, "check")
