"""Asks about a program in a process of its own, since the program may do anything to it."""

from __future__ import annotations

import contextlib
import os
import signal
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
_IMPORTED = ("pyspark.sql", "pystate.datastream")
"""What every program imports, or what stands for Spark needs."""
_LAST_LINES = 10


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
    request = _request(program, parallelism, allow_non_restored_state=allow_non_restored_state)
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
        raise _no_answer(program, done.returncode)
    return answer


class WaitingProcess:
    """A process that has imported what it needs, and waits for the program that it is asked about.

    What the program prints goes to a file, of which an error has the end.

    Args:
        module: As for `ask_about`.
    """

    def __init__(self, module: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="pystate-info-")
        self._asked, self._answered, printed = (
            Path(self._folder.name, name) for name in ("request.json", "answer.json", "printed")
        )
        self._printed = printed
        with printed.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-m", f"{_DRIVER}.{module}", str(self._asked), str(self._answered), *_IMPORTED],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the command
            )

    def ask(self, program: GivenProgram, *, parallelism: int | None, allow_non_restored_state: bool) -> None:
        """Have it look at a program; this is done once.

        Args:
            program: The program.
            parallelism: The value of -p.
            allow_non_restored_state: Whether -n is given.
        """
        self._program = program
        request = _request(program, parallelism, allow_non_restored_state=allow_non_restored_state)
        write_json(self._asked, request, mode=0o600)
        assert self._process.stdin is not None  # noqa: S101 - a pipe
        with contextlib.suppress(BrokenPipeError):  # it has died, which is told by its answer
            self._process.stdin.write(b"\n")
            self._process.stdin.close()

    def answer(self) -> dict[str, Any] | None:
        """Return the answer; None if there is none yet.

        Raises:
            JobGraphError: The process ended without an answer.
        """
        if self._process.poll() is None:
            return None
        answer: dict[str, Any] | None = read_json(self._answered)
        if answer is None:
            error = _no_answer(self._program, self._process.returncode)
            lines = self._printed.read_text(errors="replace").splitlines()[-_LAST_LINES:]
            error.message = "\n".join([error.message, *(f"  | {line}" for line in lines)])
            raise error
        return answer

    def end(self) -> None:
        """End the process, with all that the program has started."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._folder.cleanup()


def _request(program: GivenProgram, parallelism: int | None, *, allow_non_restored_state: bool) -> dict[str, Any]:
    return {
        "job_file": str(program.path),
        "arguments": program.arguments,
        "parallelism": parallelism,
        "configuration": program.configuration.to_dict(),
        "savepoint_path": program.starting,
        "allow_non_restored_state": allow_non_restored_state,
    }


def _no_answer(program: GivenProgram, exit_code: int) -> JobGraphError:
    message = f"The program's process ended with exit code {exit_code} before its plan was known."
    return JobGraphError(message, where=str(program.path))


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
