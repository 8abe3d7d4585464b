"""The recovery terms that a driver records in case it dies: whether another one is to be started, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pystate.common.files.home import JobDirectory
from pystate.common.job_status import JobStatus
from pystate.runtime.job_folder.content import FileContent
from pystate.runtime.job_folder.restart_strategies import RestartBackoffTimeStrategy


@dataclass(frozen=True)
class RecoveryTerms(FileContent):
    """`recovery.json`. A program may set options in code, so only its driver knows the strategy in force.

    Attributes:
        strategy: The restart strategy, as of the last failure.
        end_state: How the job ends after a savepoint that is complete; then no other driver may be started.
    """

    title: ClassVar[str] = "The file of the job's recovery terms"
    version: ClassVar[int | None] = 2

    strategy: RestartBackoffTimeStrategy
    end_state: JobStatus | None = None

    def write(self, directory: JobDirectory) -> None:
        """Write them atomically."""
        self.write_to(directory.recovery)

    @staticmethod
    def read(directory: JobDirectory) -> RecoveryTerms | None:
        """Read them; None if the driver never got to run a job.

        Raises:
            PystateError: They are damaged, or of a version this job manager doesn't know.
        """
        return RecoveryTerms.read_from(directory.recovery)
