"""A program as it was submitted: its configuration, and how its failures are shown."""

from __future__ import annotations

import traceback
from pathlib import Path

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.options import CoreOptions, StateRecoveryOptions
from pystate.common.errors import PystateError


def submitted_configuration(
    settings: dict[str, str], parallelism: int | None, savepoint_path: str | None, *, allow_non_restored_state: bool
) -> Configuration:
    """Return the configuration of the submission: file and command line, overridden by the flags of `run`.

    Args:
        settings: File and command line.
        parallelism: The value of `-p`.
        savepoint_path: The value of `-s`.
        allow_non_restored_state: Whether `-n` was given.
    """
    configuration = Configuration(settings)
    if parallelism is not None:
        configuration.set(CoreOptions.DEFAULT_PARALLELISM, parallelism)
    if savepoint_path is not None:
        configuration.set(StateRecoveryOptions.SAVEPOINT_PATH, savepoint_path)
    if allow_non_restored_state:
        configuration.set(StateRecoveryOptions.SAVEPOINT_IGNORE_UNCLAIMED_STATE, True)
    return configuration


def program_trace(error: BaseException, job_file: Path) -> str:
    """Return the stack trace from the program's own first frame on, without the frames that started it."""
    if isinstance(error, PystateError):
        return traceback.format_exc()
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != str(job_file):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace or error.__traceback__))


def program_place(error: BaseException, job_file: Path) -> str:
    """Return the program's file, with the line that raised, if there is one."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(job_file)]
    return f"{job_file}, line {lines[-1]}" if lines else str(job_file)
