"""`pystate info [OPTIONS] job.py [ARGUMENTS]`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import typer

from pystate.common.errors import JobGraphError
from pystate.common.home import read_json, write_json
from pystate_cli.failures import failure_of
from pystate_cli.options import JsonOption, VerboseOption
from pystate_cli.program_check import check_program
from pystate_cli.program_words import (
    COMMON_FLAGS,
    COMMON_WITH_VALUE,
    ConfDirOption,
    JobFileArgument,
    ParallelismOption,
    ProgramArgumentsArgument,
    PropertyOption,
    PythonFilesOption,
    job_path,
    python_properties,
    with_job_file_behind_options,
)
from pystate_cli.session import Session
from pystate_cli.views.plan_view import plan_view

PLANNER = (sys.executable, "-m", "pystate.driver.program_plan")
_FIELDS = ("id", "type", "pact", "contents", "parallelism", "uid", "predecessors")
_FLAGS = frozenset((*COMMON_FLAGS, "--json"))


def info(
    context: typer.Context,
    job_file: JobFileArgument,
    arguments: ProgramArgumentsArgument = None,
    parallelism: ParallelismOption = None,
    properties: PropertyOption = None,
    conf_dir: ConfDirOption = None,
    python_files: PythonFilesOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show the plan of a program without running its job: a tree on a terminal, Flink's JSON in a pipe.

    The program is executed up to its execute(); what it prints goes to stderr.
    """
    from pystate.common.configuration import parse_dynamic_properties

    session = Session.of(context)
    console = session.console
    path = job_path(job_file)
    if path.suffix == ".py":
        check_program(path)
    settings = [*(properties or ()), *python_properties(python_files, None, None)]
    configuration = session.configuration(conf_dir, parse_dynamic_properties(settings)).configuration
    request = {
        "job_file": str(path),
        "arguments": arguments or [],
        "parallelism": parallelism,
        "configuration": configuration.to_dict(),
    }
    with console.waiting(f"Executing {path.name} up to execute()"):
        answer = _answer(request)
    for notice in answer["notices"]:
        console.warning(notice)
    nodes = [{name: node[name] for name in _FIELDS if name in node} for node in answer["plan"]["nodes"]]
    if as_json:
        console.result_json({"nodes": nodes})
    elif not console.is_terminal:
        console.result(json.dumps({"nodes": nodes}, indent=2))  # to the letter what Flink prints
    else:
        console.render(plan_view(answer, console.width, unicode=console.has_unicode))


def info_words(words: list[str]) -> list[str]:
    """Return the arguments of `info` with the value of Flink's `-py` as the positional it stands for."""
    return with_job_file_behind_options(words, _FLAGS, COMMON_WITH_VALUE, "info")


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the plan, from a process of its own: the program may do with that what it likes.

    Raises:
        PystateError: The program fails in front of its execute().
    """
    with tempfile.TemporaryDirectory(prefix="pystate-info-") as folder:
        asked, answered = Path(folder, "request.json"), Path(folder, "answer.json")
        write_json(asked, request, mode=0o600)
        done = subprocess.run(  # noqa: S603 - our own module
            [*PLANNER, str(asked), str(answered)],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
            env={**os.environ},
            check=False,
        )
        answer: dict[str, Any] | None = read_json(answered)
    if answer is None:
        message = f"The program's process ended with exit code {done.returncode} before its plan was known."
        raise JobGraphError(message, where=str(request["job_file"]))
    failure = answer.get("failure")
    if failure is not None:
        raise failure_of({"class": failure["class"], "stack-trace": failure["stack_trace"], "pystate": failure})
    return answer
