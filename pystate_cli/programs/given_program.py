"""Reads the program that a command is given, with its settings."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pystate.common.errors import JobGraphError, UsageError
from pystate_cli.arguments.savepoint_places import starting_path
from pystate_cli.arguments.snapshot_options import claim_mode_property
from pystate_cli.programs.hiding_files import check_files_beside
from pystate_cli.programs.program_arguments import check_program_arguments, job_path
from pystate_cli.session import Session

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration


@dataclass(frozen=True)
class GivenProgram:
    """A program that exists, and what it is to be started with.

    Attributes:
        path: Its file.
        arguments: Its own arguments.
        configuration: The settings of the file and of the command.
        starting: The savepoint of -s, as a path; None if there is none.
    """

    path: Path
    arguments: list[str]
    configuration: Configuration
    starting: str | None


def given_program(
    session: Session,
    job_file: str,
    arguments: Sequence[str] | None,
    options: Collection[str],
    *,
    properties: Sequence[str] | None,
    conf_dir: str | None,
    python_files: str | None = None,
    python_archives: str | None = None,
    python_executable: str | None = None,
    target: str | None = None,
    savepoint_path: str | None = None,
    claim_mode: str | None = None,
    restore_mode: str | None = None,
    compiled: bool = True,
) -> GivenProgram:
    """Check a command's words, and return the program.

    Args:
        session: The session of the command.
        job_file: The program, as typed.
        arguments: The words after it.
        options: The names of the command's options.
        properties: The values of -D.
        conf_dir: The value of --conf-dir.
        python_files: The value of -pyfs, where the command has it.
        python_archives: The value of -pyarch, likewise.
        python_executable: The value of -pyexec, likewise.
        target: The value of -t, likewise.
        savepoint_path: The value of -s, likewise.
        claim_mode: The value of --claimMode, likewise.
        restore_mode: The value of --restoreMode, likewise.
        compiled: Whether it has to be Python by now.

    Raises:
        UsageError: A word means nothing, or there is no such program.
        PystateError: The program isn't Python, or the settings can't be read.
    """
    from pystate.common.configuration.loaded_configuration import parse_dynamic_properties

    path = job_path(job_file, savepoint_path)
    program_arguments = check_program_arguments(session.console, job_file, arguments or [], options)
    if compiled and path.suffix == ".py":  # Python also runs archives and compiled programs
        check_program(path)
    by_options = {
        "execution.target": target,
        "python.files": python_files,
        "python.archives": python_archives,
        "python.executable": python_executable,
    }
    of_options = [f"{key}={value}" for key, value in by_options.items() if value is not None]
    mode = claim_mode_property(claim_mode, restore_mode)
    set_here = parse_dynamic_properties([*(properties or ()), *of_options, *mode])
    configuration = session.configuration(conf_dir, set_here).configuration
    starting = None if savepoint_path is None else starting_path(savepoint_path, configuration)
    return GivenProgram(path, program_arguments, configuration, starting)


def check_program(path: Path) -> None:
    """Compile a job file, and look whether it can be started from its folder.

    Raises:
        JobGraphError: It has a syntax error; the message has file, line, the line's text and a caret. Or a file beside it
            hides a module that pystate needs.
        UsageError: It can't be read.
    """
    try:
        source = path.read_bytes()
    except OSError as error:
        message = f"The job file can't be read: {error.strerror}."
        raise UsageError(message, where=str(path)) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the driver reports them again
            compile(source, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        lines = "".join(traceback.format_exception_only(type(error), error)[:-1]).splitlines()
        where = "\n".join([lines[0].strip(), *lines[1:]]) if lines else str(path)
        message = f"{type(error).__name__}: {error.msg}"
        raise JobGraphError(message, where=where) from error
    except ValueError as error:  # raised by older Pythons for a zero byte
        message = f"The job file is not a Python program: {error}."
        raise JobGraphError(message, where=str(path)) from error
    check_files_beside(path)
