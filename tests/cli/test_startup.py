"""The command line must answer in a blink."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest
from typer.main import get_command

from pystate_cli.command_line import application
from pystate_cli.command_table import COMMANDS
from pystate_cli.parser.help_pages import show_whole_sentences

HEAVY = ("pyspark", "pyarrow", "pandas", "numpy", "starlette", "uvicorn", "msgpack", "asyncio", "rich", "py4j", "fsspec")
# typer loads it where a value has to be checked: a number, a choice
CHECKS = ("pydantic",)
# of the project's own: what a terminal's table needs, and whole layers
OWN = (
    "pystate.core.api",
    "pystate.runtime.checkpoint",
    "pystate.runtime.driver",
    "pystate.ops.jobmanager",
    "pystate.runtime.spark",
    "pystate.core.state",
    "pystate_cli.client.failures",
    "pystate_cli.console.live_region",
    "pystate_cli.tables.fitted_table",
    "pystate_cli.views.job_list",
    "pystate_cli.views.measured",
    "pystate.common.processes.rest_client_security",
)

REST_ONLY = [
    "list",
    "savepoint",
    "stop",
    "cancel",
    "checkpoint",
    "checkpoints",
    "exceptions",
    "logs",
    "wait",
    "watch",
    "rescale",
]


@pytest.mark.parametrize("command", [*REST_ONLY, "run", "info", "new", "completion", "version", "savepoints"])
def test_no_command_imports_what_it_does_not_need(command, manager):
    words = {
        "list": ["list"],
        "run": ["run", "nosuch.py"],
        "info": ["info", "nosuch.py"],
        "new": ["new", "class"],
        "completion": ["completion", "bash"],
        "version": ["version"],
        "rescale": ["rescale", "0" * 32, "-p", "2"],
        "savepoints": ["savepoints", "list", "--nosuch"],
    }.get(command, [command, "0" * 32])
    needs_a_check = command in ("rescale", "completion")

    assert imported(words, HEAVY if needs_a_check else (*HEAVY, *CHECKS)) == []


def test_list_in_a_pipe_imports_only_what_it_needs(manager, running):
    assert imported(["list"], (*HEAVY, *CHECKS, *OWN)) == []


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_what_all_commands_share_imports_none_of_them(word):
    modules = tuple(f"pystate_cli.commands.{entry.module}" for name, entry in COMMANDS.items() if name != "version")
    assert imported([word], (*HEAVY, *CHECKS, *modules)) == []


def test_the_summaries_of_the_table_are_those_of_the_commands():
    command = get_command(application())
    show_whole_sentences(command)
    assert {name: entry.summary for name, entry in COMMANDS.items()} == {
        name: below.short_help for name, below in command.commands.items()
    }


@pytest.mark.parametrize("line", ["pystate savepoint --t", "pystate savepoint"])
def test_completion_loads_only_the_command_in_the_line(line):
    shell = {"_PYSTATE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    modules = tuple(f"pystate_cli.commands.{entry.module}" for name, entry in COMMANDS.items() if name != "savepoint")
    assert imported([], (*HEAVY, *CHECKS, *modules), shell) == []


def imported(words: list[str], names: tuple[str, ...], environment: Mapping[str, str] | None = None) -> list[str]:
    """Return which modules are there after a command."""
    program = (
        "import atexit, sys\n"  # a completion ends the process
        "from pystate_cli.command_line import run_command_line\n"
        f"atexit.register(lambda: print(*[name for name in {names!r} if name in sys.modules], file=sys.stderr))\n"
        f"run_command_line({words!r})\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **(environment or {})},
    )
    return finished.stderr.splitlines()[-1].split()


def test_ctrl_c_during_the_imports_is_not_a_traceback():
    program = (
        "import builtins, sys\n"
        "from pystate_cli.main import main\n"
        "importing = builtins.__import__\n"
        "def interrupted(name, *rest):\n"
        "    if name == 'typer':\n"
        "        raise KeyboardInterrupt\n"
        "    return importing(name, *rest)\n"
        "builtins.__import__ = interrupted\n"
        "main()\n"
    )

    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (finished.returncode, finished.stdout, finished.stderr) == (130, "", "")
