"""Splits a command's options from the program's arguments: `[OPTIONS] job.py [ARGUMENTS]`, or Flink's `-py job.py`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pystate.common.errors import UsageError
from pystate_cli.arguments.completions import complete_savepoint
from pystate_cli.arguments.options import CONF_DIR_NAMES, JOB_MANAGER_NAMES, JSON_NAMES, PROPERTY_NAMES, VERBOSE_NAMES
from pystate_cli.arguments.snapshot_options import CLAIM_MODE_NAMES, RESTORE_MODE_NAMES

if TYPE_CHECKING:
    from pystate_cli.console.console import Console

PYTHON_NAMES = ("-py", "--python")
PARALLELISM_NAMES = ("-p", "--parallelism")
PYTHON_FILES_NAMES = ("-pyfs", "--pyFiles")
PYTHON_ARCHIVES_NAMES = ("-pyarch", "--pyArchives")
PYTHON_EXECUTABLE_NAMES = ("-pyexec", "--pyExecutable")
SAVEPOINT_NAMES = ("-s", "--fromSavepoint")
ALLOW_NON_RESTORED_NAMES = ("-n", "--allowNonRestoredState")
TARGET_NAMES = ("-t", "--target", "-e", "--executor")
NAME_NAMES = ("--name",)

JobFileArgument = Annotated[str, typer.Argument(metavar="JOB.PY", help="The program; -py JOB.PY means the same.")]
ProgramArgumentsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[ARGUMENTS]", help="All that follows goes to the program.")
]
ParallelismOption = Annotated[
    int | None, typer.Option(*PARALLELISM_NAMES, metavar="N", min=1, help="The number of subtasks of each operator.")
]
PythonFilesOption = Annotated[
    str | None,
    typer.Option(
        *PYTHON_FILES_NAMES,
        metavar="PATHS",
        help="Python files of the job that don't stand beside it, commas between them: .py, .zip, .egg, .whl, folders.",
    ),
]
PythonArchivesOption = Annotated[
    str | None,
    typer.Option(
        *PYTHON_ARCHIVES_NAMES,
        metavar="PATH#NAME",
        help="Archives that are unpacked for Spark's workers into a folder NAME, commas between them.",
    ),
]
PythonExecutableOption = Annotated[
    str | None, typer.Option(*PYTHON_EXECUTABLE_NAMES, metavar="PATH", help="The Python of Spark's workers.")
]
AllowNonRestoredOption = Annotated[
    bool,
    typer.Option(*ALLOW_NON_RESTORED_NAMES, help="Leave out state that no operator of the job claims.", show_default=False),
]


def starting_option(text: str) -> Any:
    """Return the declaration of `-s`, with what the command makes of the snapshot as its help."""
    return typer.Option(*SAVEPOINT_NAMES, metavar="PATH|ID", help=text, autocompletion=complete_savepoint)


PROGRAM_FLAGS = frozenset((*VERBOSE_NAMES, *JSON_NAMES, *ALLOW_NON_RESTORED_NAMES))
"""The options of both `run` and `info` that take no value."""

PROGRAM_WITH_VALUE = frozenset(
    (
        *SAVEPOINT_NAMES,
        *CLAIM_MODE_NAMES,
        *RESTORE_MODE_NAMES,
        *TARGET_NAMES,
        *NAME_NAMES,
        *PARALLELISM_NAMES,
        *PROPERTY_NAMES,
        *CONF_DIR_NAMES,
        *JOB_MANAGER_NAMES,
        *PYTHON_FILES_NAMES,
        *PYTHON_ARCHIVES_NAMES,
        *PYTHON_EXECUTABLE_NAMES,
    )
)
"""The options of both that take a value."""


def with_job_file_after_options(
    arguments: Sequence[str], flags: Collection[str], with_value: Collection[str], command: str
) -> list[str]:
    """Return the arguments of a command with the value of Flink's `-py` as a positional argument.

    As in Flink, the first argument that is neither an option of the command nor its value begins the program's arguments.

    Args:
        arguments: The words after the command's name.
        flags: The names of its options that take no value.
        with_value: The names of its options that take a value.
        command: Its name, for the help.

    Raises:
        UsageError: `-py` has no value.
    """
    arguments = list(arguments)
    kept: list[str] = []
    job_file: str | None = None
    index = 0
    while index < len(arguments):
        argument = arguments[index]
        name, equals, value = argument.partition("=")
        if argument in PYTHON_NAMES:
            if index + 1 == len(arguments):
                message = f"{argument} needs the path of the program."
                raise UsageError(message, hint=f"pystate {command} --help")
            job_file, index = arguments[index + 1], index + 2
        elif name in PYTHON_NAMES and equals:
            job_file, index = value, index + 1
        elif argument in with_value:
            kept += arguments[index : index + 2]
            index += 2
        elif argument in flags or (equals and name in with_value) or _is_joined(argument, with_value):
            kept.append(argument)
            index += 1
        else:
            break
    return arguments if job_file is None else [*kept, job_file, *arguments[index:]]


def _is_joined(argument: str, with_value: Collection[str]) -> bool:
    """Return whether an argument is a short option joined with its value: -p2."""
    return argument[:2] in with_value and argument[:2] != "--"


def check_program_arguments(
    console: Console, job_file: str, arguments: Sequence[str], options: Collection[str]
) -> list[str]:
    """Return the program's arguments; if some look like options of the command, ask whether they are meant for the program.

    As in Flink, everything after the program's file is the program's, so `run job.py -p 2` leaves the parallelism as it is.
    Without a terminal there is a warning. `--` right after the file confirms it.

    Args:
        console: The console for the question or the warning.
        job_file: The program, as typed.
        arguments: The words after it.
        options: The names of the command's options.

    Raises:
        UsageError: The answer is no.
    """
    if arguments[:1] == ["--"]:
        return list(arguments[1:])
    found = [word for word in arguments if word in options or word.partition("=")[0] in options]
    if found:
        told = f"{', '.join(found)} after {job_file} {'goes' if len(found) == 1 else 'go'} to the program"
        if not console.can_ask:
            console.warning(f"{told}; put pystate's own before it, or -- right after it where that is intended.")
        elif not console.confirm(f"{told}, not to pystate. Go on?"):
            message = "Nothing was started."
            raise UsageError(message, hint=f"put pystate's options before {job_file}; -- right after it asks no question")
    return list(arguments)


_PROGRAM = "give the path of a Python program; pystate new NAME makes one"


def job_path(job_file: str, savepoint: str | None = None) -> Path:
    """Return the path of the program.

    Args:
        job_file: As it was given.
        savepoint: The value of -s: the program itself, where a variable in its place was empty.

    Raises:
        UsageError: There is no such file, or no working directory any more.
    """
    try:
        Path.cwd()
    except FileNotFoundError as error:
        message = "The working directory was deleted: the program would have none."
        raise UsageError(message, hint="cd to a directory that exists") from error
    path = Path(job_file).expanduser().absolute()
    hint = _PROGRAM
    if savepoint is not None and savepoint.endswith(".py") and Path(savepoint).is_file():
        hint = f"-s has taken {savepoint} for the savepoint: is a variable of your command not set?"
    if not path.exists():
        message = f"The job file does not exist: {job_file}"
        raise UsageError(message, where=str(path.parent), hint=hint)
    if not path.is_file():
        message = f"The job file is not a file: {job_file}"
        raise UsageError(message, where=str(path), hint=hint)
    return path
