"""The commands, and how errors become sentences and exit codes.

Exit codes: 0 for success, 1 for failure, 2 for a wrong call, 130 after Ctrl-C.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from pystate.common.errors import PystateError, UsageError
from pystate_cli.commands.cancel import cancel
from pystate_cli.commands.checkpoints import checkpoints
from pystate_cli.commands.exceptions import exceptions
from pystate_cli.commands.list_jobs import list_jobs
from pystate_cli.commands.run import run, with_job_file_behind_options
from pystate_cli.commands.savepoint import savepoint
from pystate_cli.commands.savepoints import savepoints
from pystate_cli.commands.state_read import state
from pystate_cli.commands.stop import stop
from pystate_cli.commands.version import version
from pystate_cli.console import Console
from pystate_cli.session import Session

# typer brings click along in some versions and depends on it in others; this is its ClickException in both
_ParserError: type[Exception] = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="pystate",
    help="Flink's state, checkpoints and savepoints for PySpark jobs.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run", context_settings={"allow_interspersed_args": False})(run)
app.command("list")(list_jobs)
app.command("savepoint")(savepoint)
app.add_typer(savepoints)
app.add_typer(state)
app.command("stop")(stop)
app.command("cancel")(cancel)
app.command("checkpoints")(checkpoints)
app.command("exceptions")(exceptions)
app.command("version")(version)


def _show_version(context: typer.Context, asked: bool) -> None:
    if asked:
        version(context)
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.", show_default=False),
    ] = False,
) -> None:
    """Flink's state, checkpoints and savepoints for PySpark jobs."""


def run_command_line(words: Sequence[str], console: Console | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        words: The command line without the program's name.
        console: Prints; default: stdout and stderr.
    """
    console = console or Console()
    try:
        result = app(_prepared(list(words)) or ["--help"], prog_name="pystate", standalone_mode=False, obj=Session(console))
    except PystateError as error:
        console.error(error)
        return error.exit_code
    except _ParserError as error:
        console.error(_usage_error(error))
        return UsageError.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # nobody reads the result any more, as behind `| head`; Python would complain again at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        # a bug of ours; whoever sees it can't use a stack trace, whoever mends it asks for it
        message = f"{type(error).__name__}: {error}"
        unexpected = PystateError(message, where="pystate itself", hint="run it again with -v to see the stack trace")
        unexpected.__cause__ = error
        console.error(unexpected)
        return 1
    if not words:
        return UsageError.exit_code  # the help was shown instead of a command
    return result if isinstance(result, int) else 0


def _prepared(words: list[str]) -> list[str]:
    """Move the value of `run -py` to where the job file stands."""
    command = next((index for index, word in enumerate(words) if not word.startswith("-")), None)
    if command is not None and words[command] == "run":
        return [*words[: command + 1], *with_job_file_behind_options(words[command + 1 :])]
    return words


def _usage_error(error: Exception) -> UsageError:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "pystate"
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    return UsageError(message, hint=f"{path} --help")
