"""What is needed to resubmit a job that is being stopped for that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from pystate.common.text.plain_data import PlainData
from pystate.runtime.job_folder.content import FileContent


@dataclass(frozen=True)
class Keeper(PlainData):
    """A request to keep a submission.

    Attributes:
        keeper_id: 32 hex digits.
        parallelism: The requested parallelism of the successor.
    """

    keeper_id: str
    parallelism: int


@dataclass(frozen=True)
class Resubmission(FileContent):
    """`resubmission.json`, written by the job manager.

    Attributes:
        environment: The environment variables of the job's driver.
        parallelism: The parallelism of the successor, planned or actual.
        successor: The last job that was started with it; None if there is none yet.
        keepers: The requests to keep it that were not withdrawn, oldest first.
    """

    title: ClassVar[str] = "The kept submission"
    version: ClassVar[int | None] = 1
    missing_is_default: ClassVar[bool] = True

    environment: dict[str, str]
    parallelism: int
    successor: str | None = None
    keepers: list[Keeper] = field(default_factory=list)
