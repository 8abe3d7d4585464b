"""Checks the syntax of a job file before anything is started."""

from __future__ import annotations

import traceback
import warnings
from pathlib import Path

from pystate.common.errors import JobGraphError, UsageError


def check_program(path: Path) -> None:
    """Compile a job file.

    Raises:
        JobGraphError: It has a syntax error; the message has file, line, the line's text and a caret.
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
