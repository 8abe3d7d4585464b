"""The errors shown to users.

Every error that may reach a person is a `PystateError`: what happened, where, and what to do next. Protocol outcomes are
enums and never come here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar


class PystateError(Exception):
    """The base of all errors meant for users.

    Args:
        message: What happened, in one sentence.
        where: The place it concerns: a TOML path, an operator uid, a file.
        hint: The next command to run or the change to make.
        table: Rows of columns that lay out what doesn't fit together; the first row names the columns.
    """

    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        table: Iterable[Iterable[str]] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint
        self.table = tuple(tuple(row) for row in table)

    def __str__(self) -> str:
        """Return message, table, place and hint, a line each."""
        lines = [self.message]
        widths = [max(map(len, column)) for column in zip(*self.table, strict=True)]
        for row in self.table:
            cells = "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            lines.append(f"    {cells.rstrip()}")
        if self.where:
            lines.append(f"  at: {self.where}")
        if self.hint:
            lines.append(f"  try: {self.hint}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the error as plain data, for control messages and REST."""
        plain = {"class": type(self).__name__, "message": self.message, "where": self.where, "hint": self.hint}
        return {**plain, "table": [list(row) for row in self.table]} if self.table else plain


class UsageError(PystateError):
    """The command was called wrongly (exit code 2)."""

    exit_code = 2


class ConfigurationError(PystateError):
    """An option is unknown, has a bad value, or the file can't be read."""


class DynamicPropertyError(ConfigurationError):
    """What `-D` says of an option can't be taken: the command was called wrongly (exit code 2)."""

    exit_code = 2


class ConnectorError(PystateError):
    """An installed connector can't be loaded, or the installation names none."""


class JavaNotFoundError(PystateError):
    """No Java for Spark was found."""


class JobNotFoundError(PystateError):
    """No job has this id."""


class JobTerminatedError(PystateError):
    """The job has ended, so the request can't be executed."""


class JobGraphError(PystateError):
    """The job's program can't be translated: a missing sink, a refused source, a clash of uids."""


class JobExecutionError(PystateError):
    """The job ended in FAILED."""


class SparkLostError(JobExecutionError):
    """The Spark application is lost, so its driver process can't run the job any more; another one can."""


class DriverLostError(JobExecutionError):
    """The job's driver process ended, or was killed, without recording how the job ends."""


class ExternalSystemError(JobExecutionError):
    """A broker, a database, a storage or a Spark master doesn't answer, or not with what the job needs.

    That may change while the program stays as it is, so the restart strategy decides, at the first start, too.
    """


class IncompleteInputError(JobExecutionError):
    """The rows of an epoch have not all arrived, or that can't be proven; the epoch is discarded."""


class JobCancelledError(PystateError):
    """The job was cancelled while someone waited for its result."""


class RecordError(PystateError):
    """An element does not have the type its stream declares, or has no usable key."""


class UserFunctionError(PystateError):
    """A function of the job raised an exception."""


class CommitError(PystateError):
    """What a sink has written could not be committed."""


class StateError(PystateError):
    """A state was declared or used in a way that can't work."""


class StateDeclarationError(StateError):
    """A state was requested with a different declaration, or where its kind isn't allowed.

    What a program declares is the same at every start, so no restart helps.
    """


class SnapshotError(PystateError):
    """A checkpoint or savepoint can't be written or read."""


class CorruptSnapshotError(SnapshotError):
    """Bytes of a snapshot are damaged, truncated, or not a snapshot at all."""


class RestoreError(SnapshotError):
    """A sound snapshot doesn't fit the job that is to start from it."""


class UnknownClassError(RestoreError):
    """State holds an object of a class that isn't here: the program has renamed it, or this isn't the program."""


class StorageError(SnapshotError, ExternalSystemError):
    """The storage of snapshots failed."""


class NoSnapshotError(RestoreError):
    """There is no snapshot at the given location."""


class CheckpointFailedError(PystateError):
    """A requested checkpoint or savepoint did not complete."""


class SubtaskHangsError(JobExecutionError):
    """A subtask did not take its part of a checkpoint before the checkpoint expired."""


class SnapshotExistsError(SnapshotError):
    """Another completed snapshot exists at the target location."""


class ControlError(PystateError):
    """The other process can't be reached or refuses the connection."""


class ConnectionLostError(ControlError):
    """A connection broke during a call: it is unknown whether the other process has executed it."""


class DriverReplacedError(ControlError):
    """Another driver has taken over the job; this one must stop."""


def error_from_dict(data: dict[str, Any]) -> PystateError:
    """Rebuild an error that crossed a process boundary; unknown classes become `PystateError`."""
    name = data.get("class") or ""
    known = {cls.__name__: cls for cls in _all_subclasses(PystateError)}
    cls = known.get(name, PystateError)
    message = data.get("message") or name or "unknown error"
    return cls(message, where=data.get("where"), hint=data.get("hint"), table=data.get("table") or ())


def _all_subclasses(cls: type[PystateError]) -> list[type[PystateError]]:
    found = []
    for sub in cls.__subclasses__():
        found.append(sub)
        found.extend(_all_subclasses(sub))
    return found
