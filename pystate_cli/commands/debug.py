"""`pystate debug [OPTIONS] job.py [ARGUMENTS]`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from pystate.common.files.home import read_json, write_json
from pystate.runtime.rest.failure_messages import OurError
from pystate_cli.arguments.completions import complete_savepoint
from pystate_cli.arguments.options import ConfDirOption, JsonOption, PropertyOption, VerboseOption
from pystate_cli.arguments.savepoint_places import check_starting_snapshot
from pystate_cli.programs.given_program import given_program
from pystate_cli.programs.program_arguments import (
    PROGRAM_FLAGS,
    PROGRAM_WITH_VALUE,
    SAVEPOINT_NAMES,
    JobFileArgument,
    ProgramArgumentsArgument,
    PythonFilesOption,
    python_properties,
    with_job_file_behind_options,
)
from pystate_cli.session import Session

DEBUGGER = (sys.executable, "-m", "pystate.testing.debug_process")
_FLAGS = PROGRAM_FLAGS | {"--no-debugger"}
_WITH_VALUE = PROGRAM_WITH_VALUE | {"--operator", "--record", "--timestamp", "--input", "--as-test"}


def debug(
    context: typer.Context,
    job_file: JobFileArgument,
    arguments: ProgramArgumentsArgument = None,
    record: Annotated[
        str,
        typer.Option(
            "--record",
            metavar="EXPRESSION",
            help="The record, as a Python expression with the names of the program: 5, ('a', 1), Row(word='a').",
        ),
    ] = ...,  # type: ignore[assignment]  # it has none
    operator: Annotated[
        str | None,
        typer.Option("--operator", metavar="UID|NAME", help="The operator that takes it; the only one where there is one."),
    ] = None,
    savepoint_path: Annotated[
        str | None,
        typer.Option(
            *SAVEPOINT_NAMES,
            metavar="PATH|ID",
            help="The savepoint or checkpoint with the state of its key; without it there is none.",
            autocompletion=complete_savepoint,
        ),
    ] = None,
    timestamp: Annotated[
        int | None, typer.Option("--timestamp", metavar="MS", help="Its timestamp, milliseconds since 1970.")
    ] = None,
    input_number: Annotated[
        int, typer.Option("--input", metavar="1|2", min=1, max=2, help="The input of the operator, where it has two.")
    ] = 1,
    as_test: Annotated[
        Path | None, typer.Option("--as-test", metavar="FILE", help="Write it as a test with the harness, too.")
    ] = None,
    no_debugger: Annotated[
        bool, typer.Option("--no-debugger", help="Process the record without stopping.", show_default=False)
    ] = False,
    properties: PropertyOption = None,
    conf_dir: ConfDirOption = None,
    python_files: PythonFilesOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> int:
    """Process one record in one operator of a program, with the state of its key, under pdb and without Spark: a what-if.

    It stops at the first line of the function that takes the record, and again where that raises. The program is executed up
    to its execute(). In a pipe, with --json and with --no-debugger nothing stops; exit code 1 if the function raises.
    """
    session = Session.of(context)
    console = session.console
    program = given_program(
        session,
        job_file,
        arguments,
        _FLAGS | _WITH_VALUE,
        settings=[*(properties or ()), *python_properties(python_files, None, None)],
        claim_mode=None,
        restore_mode=None,
        conf_dir=conf_dir,
        savepoint_path=savepoint_path,
    )
    check_starting_snapshot(program.starting, here=True)
    with tempfile.TemporaryDirectory(prefix="pystate-debug-") as folder:
        asked = Path(folder, "request.json")
        request = {
            "job_file": str(program.path),
            "arguments": program.arguments,
            "configuration": program.configuration.to_dict(),
            "savepoint_path": program.starting,
            "operator": operator,
            "record": record,
            "timestamp": timestamp,
            "input": input_number,
            "debugger": not (no_debugger or as_json) and console.can_ask,
            "as_test": None if as_test is None else str(as_test.absolute()),
            "json": as_json,
        }
        write_json(asked, request, mode=0o600)
        code = subprocess.run([*DEBUGGER, str(asked)], check=False).returncode  # noqa: S603 - our own module
        failure = read_json(asked.with_name("failure.json"))
    if failure is not None:
        raise OurError.from_plain(failure).error()
    if as_test is not None:
        console.info(f"The test is {as_test}: python -m pytest {as_test}")
    return code


def debug_arguments(arguments: list[str]) -> list[str]:
    """Return the arguments of `debug` with the value of Flink's `-py` as a positional argument."""
    return with_job_file_behind_options(arguments, _FLAGS, _WITH_VALUE, "debug")
