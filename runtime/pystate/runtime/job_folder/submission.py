"""The submission of a job: as received, and as stored in the job's folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from pystate.common.errors import UsageError
from pystate.common.files.home import JobDirectory
from pystate.common.text.plain_data import OpenPlainData, unless_none
from pystate.runtime.job_folder.content import DamagedFileError, FileContent

_MAX_PARALLELISM = 1 << 15
_MAX_TEXT = 4096
"""Characters of a path or a name."""
_MAX_VALUE = 128 << 10
"""Characters of an argument, an option or a variable; Linux passes no longer ones."""
_MAX_ENTRIES = 4096
"""Arguments, options or variables."""
_BOUNDS = f"at most {_MAX_ENTRIES} texts of at most {_MAX_VALUE} characters"


@dataclass(frozen=True)
class Submission(OpenPlainData):
    """The submission of a job.

    Attributes:
        job_file: The program, an absolute path.
        arguments: Its arguments.
        working_directory: Where it was submitted from; the driver starts there.
        parallelism: The value of `-p`.
        savepoint_path: The value of `-s`.
        allow_non_restored_state: Whether `-n` was given.
        configuration: Key -> text: the file, overridden by `-D`.
        attached: Whether the submitter waits and reads what the job prints.
        python: The interpreter that runs the driver.
        job_name: The value of `--name`, which overrides the program's job name.
        origins: Key -> where its value in `configuration` was set, for people; None from clients that don't say it.
    """

    job_file: str
    arguments: list[str]
    working_directory: str
    parallelism: int | None
    savepoint_path: str | None
    allow_non_restored_state: bool
    configuration: dict[str, str]
    attached: bool
    python: str
    job_name: str | None = None
    origins: dict[str, str] | None = unless_none(default=None)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Submission:
        """Validate a received submission.

        Raises:
            UsageError: A field is missing or of the wrong kind, or the job file or the working directory doesn't exist.
        """
        submission = Submission(
            job_file=_text(data, "job_file"),
            arguments=_texts(data.get("arguments", []), "arguments"),
            working_directory=_text(data, "working_directory"),
            parallelism=_parallelism(data, "parallelism"),
            savepoint_path=_optional_text(data, "savepoint_path"),
            allow_non_restored_state=_truth(data, "allow_non_restored_state"),
            configuration=_mapping(data.get("configuration", {}), "configuration"),
            attached=_truth(data, "attached"),
            python=_text(data, "python"),
            job_name=_optional_text(data, "job_name"),
            origins=_mapping(data.get("origins") or {}, "origins") or None,
        )
        submission.check_paths()
        return submission

    @property
    def initial_name(self) -> str:
        """The name of the job before its program has set one."""
        return self.job_name or Path(self.job_file).stem

    def check_paths(self) -> None:
        """Check that everything a driver is started with exists.

        Raises:
            UsageError: The job file, the working directory or the interpreter doesn't exist.
        """
        for path, what, check in (
            (self.job_file, "job file", Path.is_file),
            (self.working_directory, "working directory", Path.is_dir),
            (self.python, "Python interpreter", Path.is_file),
        ):
            if not os.path.isabs(path) or not check(Path(path)):
                message = f"The {what} does not exist: {path}"
                raise UsageError(message)


@dataclass(frozen=True, kw_only=True)
class SubmissionFile(Submission, FileContent):
    """`submission.json`, written by the job manager once, before the job's first driver is started.

    Attributes:
        job_id: 32 hex digits.
        submitted_at: Milliseconds since 1970.
    """

    title: ClassVar[str] = "The submission"
    version: ClassVar[int | None] = 1
    first_without_version: ClassVar[bool] = True

    job_id: str
    submitted_at: int

    @staticmethod
    def of(submission: Submission, job_id: str, submitted_at: int) -> SubmissionFile:
        """Return the content of a job's file.

        Args:
            submission: What it is to run.
            job_id: The job.
            submitted_at: Milliseconds since 1970.
        """
        asked = {one.name: getattr(submission, one.name) for one in fields(Submission)}
        return SubmissionFile(**asked, job_id=job_id, submitted_at=submitted_at)

    @staticmethod
    def read(directory: JobDirectory) -> SubmissionFile:
        """Read the file. The paths in it need not exist any more, see `check_paths`.

        Raises:
            DamagedFileError: It is damaged or gone.
            PystateError: It is of a version that isn't known here.
            OSError: It can't be read.
        """
        found = SubmissionFile.read_from(directory.submission)
        if found is None:
            message = f"{SubmissionFile.title} is gone."
            raise DamagedFileError(message, where=str(directory.submission))
        return found


def environment_from_json(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the submitter's environment variables, which the driver is started with.

    They may hold secrets: they are kept in a file of mode 0600 for as long as a driver may have to be started again.
    """
    return _mapping(data.get("environment", {}), "environment")


def _wrong(name: str, expected: str) -> UsageError:
    message = f"The field {name!r} of the submission must be {expected}."
    return UsageError(message)


def _is_text(value: Any, most: int = _MAX_VALUE) -> bool:
    return isinstance(value, str) and len(value) <= most and "\0" not in value


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    if not value or not _is_text(value, _MAX_TEXT):
        raise _wrong(name, f"a text of at most {_MAX_TEXT} characters")
    return str(value)


def _optional_text(data: Mapping[str, Any], name: str) -> str | None:
    return None if data.get(name) is None else _text(data, name)


def _texts(value: Any, name: str) -> list[str]:
    if not isinstance(value, list) or len(value) > _MAX_ENTRIES or not all(_is_text(item) for item in value):
        raise _wrong(name, f"a list of {_BOUNDS}")
    return list(value)


def _mapping(value: Any, name: str) -> dict[str, str]:
    fits = isinstance(value, dict) and len(value) <= _MAX_ENTRIES
    if not fits or not all(_is_text(item) for pair in value.items() for item in pair):
        raise _wrong(name, f"an object of {_BOUNDS}")
    return dict(value)


def _truth(data: Mapping[str, Any], name: str) -> bool:
    value = data.get(name, False)
    if not isinstance(value, bool):
        raise _wrong(name, "true or false")
    return value


def _parallelism(data: Mapping[str, Any], name: str) -> int | None:
    value = data.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MAX_PARALLELISM:
        raise _wrong(name, f"a whole number from 1 to {_MAX_PARALLELISM}")
    return value
