"""What a driver leaves behind for the case that it dies: whether another one is to be started, and when."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.common.errors import PystateError
from pystate.common.home import JobDirectory, read_json, write_json
from pystate.common.job_status import JobStatus
from pystate.job_folder.restart_strategy import RestartBackoffTimeStrategy, strategy_from_plain

TERMS_VERSION = 2


@dataclass(frozen=True)
class RecoveryTerms:
    """`recovery.json`. A program may set options in code, so only its driver knows the strategy in force.

    Attributes:
        strategy: When the job is started again; it stands behind the last failure.
        end_state: How the job ends behind a savepoint that is complete; then no other driver may be started.
    """

    strategy: RestartBackoffTimeStrategy
    end_state: JobStatus | None = None

    def write(self, directory: JobDirectory) -> None:
        """Write them atomically."""
        data = {
            "version": TERMS_VERSION,
            "strategy": self.strategy.to_plain(),
            "end_state": None if self.end_state is None else self.end_state.value,
        }
        write_json(directory.recovery, data)

    @staticmethod
    def read(directory: JobDirectory) -> RecoveryTerms | None:
        """Read them; None where the driver never came so far as to run a job.

        Raises:
            PystateError: They are damaged, or of a version this job manager doesn't know.
        """
        try:
            data = read_json(directory.recovery)
            if data is None:
                return None
            if data["version"] != TERMS_VERSION:
                message = f"The job's recovery terms have version {data['version']}; this job manager knows {TERMS_VERSION}."
                raise PystateError(message, where=str(directory.recovery))
            end_state = None if data["end_state"] is None else JobStatus(data["end_state"])
            return RecoveryTerms(strategy_from_plain(data["strategy"]), end_state)
        except (ValueError, TypeError, KeyError) as error:
            message = f"The job's recovery terms are damaged: {error}."
            raise PystateError(message, where=str(directory.recovery)) from error
