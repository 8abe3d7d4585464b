"""Asks about a program in a process of its own, since the program may do anything to it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from pystate.common.errors import JobGraphError
from pystate.common.files.home import read_json, write_json
from pystate.runtime.rest.failure_messages import OurError
from pystate_cli.client.failures import failure_of
from pystate_cli.programs.given_program import GivenProgram

_DRIVER = "pystate.runtime.driver"


def ask_about(
    program: GivenProgram, module: str, *, parallelism: int | None, allow_non_restored_state: bool
) -> dict[str, Any]:
    """Return the answer of a module of the driver that runs a program up to its execute().

    What the program prints goes to stderr.

    Args:
        program: The program.
        module: `program_plan` or `program_check`.
        parallelism: The value of -p.
        allow_non_restored_state: Whether -n is given.

    Raises:
        JobGraphError: The process ended without an answer.
    """
    request = {
        "job_file": str(program.path),
        "arguments": program.arguments,
        "parallelism": parallelism,
        "configuration": program.configuration.to_dict(),
        "savepoint_path": program.starting,
        "allow_non_restored_state": allow_non_restored_state,
    }
    with tempfile.TemporaryDirectory(prefix="pystate-info-") as folder:
        asked, answered = Path(folder, "request.json"), Path(folder, "answer.json")
        write_json(asked, request, mode=0o600)
        done = subprocess.run(  # noqa: S603 - our own module
            [sys.executable, "-m", f"{_DRIVER}.{module}", str(asked), str(answered)],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
            env={**os.environ},
            check=False,
        )
        answer: dict[str, Any] | None = read_json(answered)
    if answer is None:
        message = f"The program's process ended with exit code {done.returncode} before its plan was known."
        raise JobGraphError(message, where=str(program.path))
    return answer


def planned(program: GivenProgram, *, parallelism: int | None, allow_non_restored_state: bool = False) -> dict[str, Any]:
    """Return the plan of a program.

    Args:
        program: The program.
        parallelism: The value of -p.
        allow_non_restored_state: Whether -n is given.

    Raises:
        PystateError: The program fails before its execute().
    """
    answer = ask_about(program, "program_plan", parallelism=parallelism, allow_non_restored_state=allow_non_restored_state)
    failure = answer.get("failure")
    if failure is not None:
        raise failure_of(OurError.from_plain(failure), failure["stack_trace"])
    return answer
