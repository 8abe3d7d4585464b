"""What is needed to start a job again that is being stopped for that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from pystate.job_folder.content import FileContent


@dataclass(frozen=True)
class Resubmission(FileContent):
    """`resubmission.json`, written by the job manager.

    Attributes:
        environment: The environment variables of the job's driver.
        parallelism: What the successor is to get, or has got.
        successor: The last job that was started with it; None for none yet.
        keepers: Who has asked to keep it and not taken that back, oldest first: an id, and the parallelism that he wants.
    """

    title: ClassVar[str] = "The kept submission"
    version: ClassVar[int | None] = 1
    missing_is_default: ClassVar[bool] = True

    environment: dict[str, str]
    parallelism: int
    successor: str | None = None
    keepers: dict[str, int] = field(default_factory=dict)
