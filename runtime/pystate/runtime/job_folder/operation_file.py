"""The result of a triggered savepoint, checkpoint or stop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, ClassVar

from pystate.common.errors import PystateError
from pystate.common.text.bounded_text import bounded_text
from pystate.common.text.plain_data import OpenPlainData, PlainDataError
from pystate.runtime.job_folder.content import FileContent
from pystate.runtime.job_folder.failure_history import JobFailure


class OperationKind(str, Enum):
    """The kind of a triggered operation."""

    SAVEPOINT = "savepoint"
    CHECKPOINT = "checkpoint"
    STOP = "stop"


class OperationStatus(str, Enum):
    """The status of an operation, with Flink's names (`QueueStatus.Id`). COMPLETED is final."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"


@dataclass(frozen=True)
class OperationFile(OpenPlainData, FileContent):
    """`operations/ID.json`, written by the driver once, when the operation has completed, successfully or not.

    Attributes:
        kind: The kind of the operation.
        status: COMPLETED; one that is in progress has no file.
        location: The location of the snapshot; None, without an entry, if there is none.
        checkpoint_id: Its id; likewise.
        failure: Why there is none; None, without an entry, if there is one.
    """

    title: ClassVar[str] = "The result of the operation"
    version: ClassVar[int | None] = 1
    first_without_version: ClassVar[bool] = True

    kind: OperationKind
    status: OperationStatus = OperationStatus.COMPLETED
    location: str | None = None
    checkpoint_id: int | None = None
    failure: JobFailure | None = None

    @staticmethod
    def failed(kind: OperationKind, error: PystateError) -> OperationFile:
        """Return the content for an operation that failed, with texts of bounded length."""
        failure = JobFailure.of(error, "")
        bounded = replace(
            failure,
            message=bounded_text(failure.message),
            where=None if failure.where is None else bounded_text(failure.where),
            hint=None if failure.hint is None else bounded_text(failure.hint),
        )
        return OperationFile(kind, failure=bounded)

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data, without what doesn't apply."""
        return {key: value for key, value in super().to_plain().items() if value is not None}

    @classmethod
    def from_plain(cls, plain: Any) -> OperationFile:
        """Rebuild it.

        Raises:
            PlainDataError: It isn't one.
        """
        found = super().from_plain(plain)
        if found.status is not OperationStatus.COMPLETED:
            message = f"it is {found.status.value}"
            raise PlainDataError(message)
        made = found.checkpoint_id if found.kind is OperationKind.CHECKPOINT else found.location
        if made is None and found.failure is None:
            message = "it has neither a snapshot nor a failure"
            raise PlainDataError(message)
        return found
