"""The result of a finished job."""

from __future__ import annotations

from typing import Any

from pystate.common.job_id import JobID


class JobExecutionResult:
    """The result of `execute`: the id and the run time of a finished job.

    Args:
        job_id: 32 hex digits.
        net_runtime_ms: The run time.
    """

    def __init__(self, job_id: str, net_runtime_ms: int) -> None:
        self._job_id = JobID(job_id)
        self._net_runtime_ms = net_runtime_ms

    def get_job_id(self) -> JobID:
        """Return the job id, 32 hex digits."""
        return self._job_id

    def get_net_runtime(self) -> int:
        """Return the run time in milliseconds."""
        return self._net_runtime_ms

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """Return None: Python functions have no accumulators, as in PyFlink; counters are metrics."""
        return self.get_all_accumulator_results().get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """Return the accumulators by name, of which there are none; see `get_accumulator_result`."""
        return {}

    def __str__(self) -> str:
        """Return a readable form."""
        return f"Job {self._job_id} has finished in {self._net_runtime_ms} ms."
