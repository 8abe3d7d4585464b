"""What the job manager itself must remember of a job, and what it was asked to run."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

from pystate.common.errors import PystateError, UsageError
from pystate.common.home import JobDirectory, read_json, write_file_atomically, write_json
from pystate.common.job_files import read_job_file
from pystate.common.job_status import JobStatus
from pystate.common.plain_data import PlainData, PlainDataError
from pystate.common.regular_files import OddFileError
from pystate.job_folder.content import FileContent
from pystate.job_folder.failure_history import JobFailure

_WITHOUT_CHECKSUM = 1
"""The oldest version that is read."""
_MAX_PARALLELISM = 1 << 15
_MAX_TEXT = 4096
"""Characters of a path or a name."""
_MAX_VALUE = 128 << 10
"""Characters of an argument, an option or a variable; Linux passes no longer ones."""
_MAX_ENTRIES = 4096
"""Arguments, options or variables."""
_BOUNDS = f"at most {_MAX_ENTRIES} texts of at most {_MAX_VALUE} characters"


class RecordPhase(str, Enum):
    """How far the job manager got with a job."""

    SUBMITTED = "SUBMITTED"  # on disk, no driver was started yet
    STARTED = "STARTED"  # a driver was started
    RESTARTING = "RESTARTING"  # the driver has died, another one is to be started
    ENDED = "ENDED"  # the driver is gone, and it is known how the job ended


@dataclass(frozen=True)
class JobVerdict(PlainData):
    """How a job ended whose driver left no word.

    Attributes:
        state: The last state.
        failure: What it failed of; None where it did not fail.
        end_time: When, ms since 1970.
    """

    state: JobStatus
    failure: JobFailure | None
    end_time: int


@dataclass(frozen=True)
class JobRecord(FileContent):
    """`record.json`: written by the job manager before and after each step, so that a new one can go on from it.

    Where several job managers stand in for each other, each writes to a file with its own fencing token in its name, and the
    highest token counts: what a job manager writes that has been replaced is read by nobody.

    Attributes:
        job_id: 32 hex digits.
        name: What the job is called until the driver says better.
        submitted_at: Milliseconds since 1970.
        phase: How far the job manager got.
        pid: The driver's process id, for people.
        cancel_requested: Whether someone asked to cancel, so that the request outlives this process.
        exit_code: The driver's exit code, negative for a signal; None while it runs or where nobody saw it.
        verdict: How the job ended where the driver left no word.
        machine: Where the driver was started, see `this_machine`; None in records of older versions.
    """

    title: ClassVar[str] = "The job record"
    version: ClassVar[int | None] = 2

    job_id: str
    name: str
    submitted_at: int
    phase: RecordPhase = RecordPhase.SUBMITTED
    pid: int | None = None
    cancel_requested: bool = False
    exit_code: int | None = None
    verdict: JobVerdict | None = None
    machine: str | None = None

    def with_changes(self, **changes: Any) -> JobRecord:
        """Return a copy with other values."""
        return replace(self, **changes)

    def write(self, directory: JobDirectory, token: int | None = None) -> None:
        """Write it atomically.

        Args:
            directory: The job's files.
            token: The fencing token of the job manager; None where it has no stand-in.
        """
        self.write_to(directory.record_of(token), directory.record_reserve)

    @staticmethod
    def read(directory: JobDirectory) -> JobRecord | None:
        """Read it; None where there is none.

        Raises:
            DamagedFileError: It is damaged.
            PystateError: It is of a version this job manager doesn't know.
        """
        return JobRecord.read_from(directory.latest_record)

    def to_file(self) -> dict[str, Any]:
        """Return what stands in the file."""
        content = self.to_plain()
        return {"version": self.version, "crc32": _checksum(content), **content}

    @classmethod
    def from_file(cls, plain: Any, where: str) -> JobRecord:
        """Rebuild it from what stands in a file.

        Raises:
            PlainDataError: It is something else, or its checksum is another one.
            PystateError: It is of a version this job manager doesn't know.
        """
        if isinstance(plain, dict) and plain.get("version") == _WITHOUT_CHECKSUM:
            return cls.from_plain({"machine": None, **plain})
        record = super().from_file(plain, where)
        if plain.get("crc32") != _checksum({key: plain[key] for key in plain if key not in ("version", "crc32")}):
            message = "its checksum is another one"
            raise PlainDataError(message)
        return record

    @staticmethod
    def set_aside(directory: JobDirectory) -> Path:
        """Put a damaged record aside, so that another one can be written; return where it is now."""
        record = directory.latest_record
        aside = directory.path / f"{record.name}.damaged"
        written = os.lstat(record).st_mtime_ns
        try:
            write_file_atomically(aside, read_job_file(record), mode=0o600)
            os.utime(aside, ns=(written, written))
        except OddFileError:  # a pipe, a folder, something huge: nothing to copy
            os.replace(record, aside)
        record.unlink(missing_ok=True)
        return aside


def record_token(directory: JobDirectory) -> int | None:
    """Return the token of the job manager whose record counts; None where the record was written without one."""
    return max(directory.record_tokens(), default=None)


def remove_older_records(directory: JobDirectory, token: int) -> None:
    """Delete the records of job managers that came before one; what they write later counts for nothing."""
    for older in directory.record_tokens():
        if older < token:
            directory.record_of(older).unlink(missing_ok=True)


def _checksum(content: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


@dataclass(frozen=True)
class Submission:
    """`submission.json`: what someone wants to run.

    Attributes:
        job_file: The program, an absolute path.
        arguments: Its arguments.
        working_directory: Where it was submitted from; the driver starts there.
        parallelism: The value of `-p`.
        savepoint_path: The value of `-s`.
        allow_non_restored_state: Whether `-n` was given.
        configuration: Key -> text, the file with `-D` above it.
        attached: Whether the submitter waits and reads what the job prints.
        python: The interpreter that runs the driver.
        job_name: The value of `--name`, above the name that the program gives.
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

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Submission:
        """Check what came in.

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
        )
        for path, what, check in (
            (submission.job_file, "job file", Path.is_file),
            (submission.working_directory, "working directory", Path.is_dir),
            (submission.python, "Python interpreter", Path.is_file),
        ):
            if not os.path.isabs(path) or not check(Path(path)):
                message = f"The {what} does not exist: {path}"
                raise UsageError(message)
        return submission

    @staticmethod
    def read(directory: JobDirectory) -> Submission:
        """Read what was written, to start the job's driver again.

        Raises:
            PystateError: It is damaged, or what it names doesn't exist any more.
        """
        try:
            data = read_json(directory.submission)
        except ValueError as error:
            message = f"The submission is damaged: {error}."
            raise PystateError(message, where=str(directory.submission)) from error
        if not isinstance(data, dict):
            message = "The submission is gone or damaged."
            raise PystateError(message, where=str(directory.submission))
        return Submission.from_json(data)

    def write(self, directory: JobDirectory, job_id: str, submitted_at: int) -> None:
        """Write it atomically, for the driver."""
        data = {**asdict(self), "job_id": job_id, "submitted_at": submitted_at}
        write_json(directory.submission, data, mode=0o600)


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
