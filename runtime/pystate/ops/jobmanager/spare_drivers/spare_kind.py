"""The kind of a spare driver: the properties of a driver that can't change once it runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pystate.common.configuration.config_option import ConfigOption
from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.execution_target import execution_target
from pystate.common.configuration.groups.deployment_options import ExecutionTarget, PythonOptions
from pystate.common.configuration.groups.execution_options import CoreOptions
from pystate.common.configuration.groups.job_manager_options import JobManagerOptions
from pystate.common.configuration.groups.pystate_options import SparkOptions
from pystate.common.errors import ConfigurationError
from pystate.runtime.job_folder.submission import Submission

_OF_A_TERMINAL = frozenset(
    (
        *("_", "SHLVL", "OLDPWD", "PWD", "COLUMNS", "LINES", "TERM", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION"),
        *("TERM_SESSION_ID", "TMUX", "TMUX_PANE", "STY", "WINDOW", "WINDOWID", "VTE_VERSION", "XDG_SESSION_ID"),
        *("SSH_AUTH_SOCK", "SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "GPG_TTY", "PS1", "PROMPT_COMMAND", "LS_COLORS"),
    )
)
"""Variables that differ between terminals. A job's program gets its own; its JVM and workers have the spare's."""
_OPTIONS: tuple[ConfigOption[Any], ...] = (
    CoreOptions.DEFAULT_PARALLELISM,
    SparkOptions.MASTER,
    PythonOptions.PYTHON_EXECUTABLE,
    PythonOptions.PYTHON_ARCHIVES,
    JobManagerOptions.CLASS_DATA_ARCHIVE,
)


@dataclass(frozen=True)
class SpareKind:
    """The kind of a spare driver.

    Attributes:
        python: The interpreter.
        working_directory: The working directory.
        environment: Its environment variables, except those of a terminal.
        session: The submission's settings of the Spark session. The program may add more, which the driver checks.
    """

    python: str
    working_directory: str
    environment: frozenset[tuple[str, str]]
    session: frozenset[tuple[str, str]]

    @property
    def parallelism(self) -> int:
        """The number of subtasks that its slots support."""
        return int(dict(self.session)[CoreOptions.DEFAULT_PARALLELISM.key])

    def difference(self, needed: SpareKind) -> str:
        """Return the names of differing properties, without values, which may be secrets."""
        if self.python != needed.python:
            return "its Python is another one"
        if self.working_directory != needed.working_directory:
            return f"its working directory is {self.working_directory}"
        what = "environment variables" if self.environment != needed.environment else "options"
        ours, theirs = (self.environment, needed.environment) if "env" in what else (self.session, needed.session)
        names = sorted({name for name, _ in ours ^ theirs})
        return f"other {what}: {', '.join(names)}"


def spare_kind(submission: Submission, environment: Mapping[str, str]) -> SpareKind | None:
    """Return the kind of spare driver that a job needs; None if it can't have one: on a cluster it would hold executors.

    Args:
        submission: The submission of the job.
        environment: Its environment variables; if empty, those of this process.
    """
    configuration = submitted_options(submission)
    try:
        if execution_target(configuration) is not ExecutionTarget.LOCAL:
            return None
        values = {option.key: str(configuration.get(option)) for option in _OPTIONS}
    except ConfigurationError:
        return None  # its driver reports it
    values.update(configuration.spark_properties())
    variables = environment or os.environ
    return SpareKind(
        submission.python,
        submission.working_directory,
        frozenset((name, value) for name, value in variables.items() if name not in _OF_A_TERMINAL),
        frozenset(values.items()),
    )


def submitted_options(submission: Submission) -> Configuration:
    """Return the options of a submission, with its `-p`."""
    configuration = Configuration(submission.configuration)
    if submission.parallelism is not None:
        configuration.set(CoreOptions.DEFAULT_PARALLELISM, submission.parallelism)
    return configuration
