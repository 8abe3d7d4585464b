"""What is needed to start a job again that is being stopped for that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pystate.job_folder.content import FileContent


@dataclass(frozen=True)
class Resubmission(FileContent):
    """`resubmission.json`, written by the job manager.

    Attributes:
        environment: The environment variables of the job's driver.
        parallelism: What the successor is to get.
        successor: The last job that was started with it; None for none yet.
    """

    title: ClassVar[str] = "The kept submission"
    version: ClassVar[int | None] = 1

    environment: dict[str, str]
    parallelism: int
    successor: str | None = None
