"""How a program that runs its jobs itself ends with an error: in words, where it is one for people."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.ops.jobmanager.harness import PYTHON_PATH

PROGRAM = """
import sys
from pystate.common.errors import JobExecutionError, UserFunctionError
from pystate.runtime.driver.uncaught_errors import tell_errors_in_words

{before}
tell_errors_in_words()

def main():
    {raises}

main()
"""
REFUSED = 'raise JobExecutionError("It runs already.", where="there", hint="pystate list")'
CAUGHT = """
    try:
        int("x" if sys.argv else "y")
    except ValueError as error:
        raise JobExecutionError("Mine.") from error
"""


def _said(folder: Path, raises: str, before: str = "", *options: str) -> str:
    program = folder / "job.py"
    program.write_text(PROGRAM.format(raises=raises, before=before))
    environment = {"PYTHONPATH": PYTHON_PATH}
    command = [sys.executable, *options, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 1
    return done.stderr


def test_a_refusal_is_sentence_place_and_next_step(tmp_path: Path) -> None:
    line = f'      File "{tmp_path}/job.py", line 10, in main'
    assert _said(tmp_path, REFUSED) == f"error: It runs already.\n  at: there\n{line}\n  try: pystate list\n"


@pytest.mark.parametrize(
    ("raises", "before", "options"),
    [
        ("raise ValueError(1)", "", ()),
        ('raise UserFunctionError("ValueError: 1")', "", ()),
        (CAUGHT, "", ()),
        (REFUSED, "sys.ps1 = '>>> '", ()),
        (REFUSED, "", ("-X", "dev")),
    ],
    ids=["of Python", "of a function", "comes of one of a function", "at a prompt", "for developers"],
)
def test_other_errors_keep_their_stack_trace(tmp_path: Path, raises: str, before: str, options: tuple[str, ...]) -> None:
    said = _said(tmp_path, raises, before, *options)
    assert "Traceback (most recent call last):" in said
    assert "error: " not in said.splitlines()[0]


def test_one_that_comes_of_an_error_inside_of_pystate_is_told_in_words(tmp_path: Path) -> None:
    inside = 'from pystate.common.processes.job_manager_address import parse_address; parse_address("host:x")'
    assert _said(tmp_path, inside).startswith("error: The address of the job manager must be host:port")
    damaged = "import pathlib, pystate.common.files.tokens as tokens; tokens.read_home_token(pathlib.Path(sys.argv[0]))"
    assert _said(tmp_path, damaged).startswith("error: The token is damaged: ")


def test_a_hook_of_the_program_stays(tmp_path: Path) -> None:
    assert _said(tmp_path, REFUSED, "sys.excepthook = lambda *_: print('mine', file=sys.stderr)") == "mine\n"
