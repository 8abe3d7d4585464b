"""The commands, and how errors become messages and exit codes.

Exit codes: 0 for success, 1 for failure, 2 for a wrong call, 130 after Ctrl-C.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Annotated

import typer
from typer.main import get_command

from pystate.common.errors import PystateError, UsageError
from pystate.common.processes.standard_streams import leave_stdout
from pystate_cli.arguments.completions import COMPLETE_VARIABLE, completed_command, prepare_completion
from pystate_cli.command_table import COMMANDS, register
from pystate_cli.console.console import Console, OutputError
from pystate_cli.parser.flink_flags import flag_without_meaning
from pystate_cli.parser.help_pages import WIDTH, SectionedGroup, show_whole_sentences
from pystate_cli.parser.other_commands import OTHER_COMMANDS
from pystate_cli.parser.quick_parameters import let_pass_unchecked
from pystate_cli.session import Session

# typer brings click along in some versions and depends on it in others; this is the ClickException in both
_ParserError: type[Exception] = typer.BadParameter.__mro__[2]


def application(names: Iterable[str] = COMMANDS, listed: Iterable[str] = ()) -> typer.Typer:
    """Return the application with some of its commands.

    Args:
        names: The commands that may be run.
        listed: Those of which only the names and the summaries are asked for.
    """
    app = typer.Typer(
        name="pystate",
        cls=SectionedGroup,
        help="Flink's state, checkpoints and savepoints for PySpark jobs.",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # rich's boxes truncate names that don't fit
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDTH},
    )
    app.callback()(root)
    register(app, names, listed)
    return app


def _show_version(context: typer.Context, asked: bool) -> None:
    if asked:
        from pystate_cli.commands.version import version

        version(context)
        raise typer.Exit


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
        console: The console; by default on stdout and stderr.
    """
    console = console or Console()
    is_completed = COMPLETE_VARIABLE in os.environ
    if is_completed:
        prepare_completion()
    try:
        name, prepared = _prepared(list(words))
        if is_completed:
            name = completed_command(COMMANDS)
        called = () if name is None else (name,)
        # all names are needed for listing them, for completing one, or for suggesting similar ones
        others = [other for other in COMMANDS if other != name] if name is None or is_completed else ()
        command = get_command(application(called, others))
        let_pass_unchecked(command)
        show_whole_sentences(command)
        result = command(prepared or ["--help"], prog_name="pystate", standalone_mode=False, obj=Session(console))
    except PystateError as error:
        if isinstance(error, OutputError):
            leave_stdout()
        console.error(error)
        return error.exit_code
    except _ParserError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            console.result_text(str(error))  # a group of commands without one of them: its help, as for no words at all
        else:
            console.error(_usage_error(error, words))
        return UsageError.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is None:
            leave_stdout()  # it may be this: the parser prints the help
        console.error(_error_of_the_machine(error))
        return 1
    except Exception as error:
        if isinstance(error, OSError):
            from pystate.common.files.refused_files import is_of_files, refused

            if is_of_files(error):
                told = refused(error)
                told.__cause__ = error
                console.error(told)
                return told.exit_code
        # a bug: users can't use a stack trace, developers ask for it
        message = f"{type(error).__name__}: {error}"
        unexpected = PystateError(message, where="pystate itself", hint="run it again with -v to see the stack trace")
        unexpected.__cause__ = error
        console.error(unexpected)
        return 1
    if not words:
        return UsageError.exit_code  # the help was shown instead of a command
    return result if isinstance(result, int) else 0


def _error_of_the_machine(error: OSError) -> PystateError:
    """Return the error for a file that can't be read or written, unless a command reported it better."""
    place = None if error.filename is None else os.fsdecode(error.filename)
    hint = "run it again with -v to see the stack trace"
    if place is not None and isinstance(error, PermissionError):
        hint = f"{place} is not for this user; where it is in pystate's home: set PYSTATE_HOME to a folder of yours"
    told = PystateError(f"{error.strerror or error}.", where=place, hint=hint)
    told.__cause__ = error
    return told


def _prepared(words: list[str]) -> tuple[str | None, list[str]]:
    """Return the called command, None for no or an unknown one, and the words for the parser."""
    place = next((index for index, word in enumerate(words) if not word.startswith("-")), None)
    entry = None if place is None else COMMANDS.get(words[place])
    if place is None or entry is None:
        return None, words
    return words[place], [*words[: place + 1], *entry.prepared(words[place + 1 :])]


def _usage_error(error: Exception, words: Sequence[str]) -> UsageError:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "pystate"
    action = next((word for word in words if not word.startswith("-")), None)
    if action in OTHER_COMMANDS:
        message = f"{action} is no command of pystate."
        return UsageError(message, hint=OTHER_COMMANDS[action])
    known = () if context is None else [name for parameter in context.command.params for name in parameter.opts]
    of_flink = flag_without_meaning(words, known)
    if of_flink is not None:
        message = f"{of_flink[0]} is an option of the flink client that has no meaning here."
        return UsageError(message, hint=of_flink[1])
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    # the parser puts choices on separate lines, and shows the class of an error
    message = " ".join(message.split()).replace(" Value error, ", " ")
    number = next((word for word in words if word[:1] == "-" and word[1:2].isdigit()), None)
    if number is not None and f"No such option: {number[:2]}" in message:
        return UsageError(message, hint=f"{path} ... -- {number}: what follows -- is no option")
    return UsageError(message, hint=f"{path} --help")
