"""One job in the job manager: its record, its driver, and its status."""

from __future__ import annotations

import logging
import threading
from typing import Any

from pystate.common.errors import PystateError
from pystate.common.files.home import JobDirectory
from pystate.common.job_status import JobStatus
from pystate.core.metrics.last_metrics import read_last_metrics
from pystate.ops.jobmanager.drivers.driver_gateway import CALL_TIMEOUT_SECONDS, DriverGateway
from pystate.ops.jobmanager.drivers.job_status_provider import JobStatusProvider
from pystate.ops.jobmanager.jobs.kept_record import KeptRecord
from pystate.ops.jobmanager.supervision.cached_operations import CachedOperationsHandler
from pystate.ops.jobmanager.supervision.job_checkpoints import JobCheckpoints
from pystate.ops.jobmanager.supervision.job_manager_runner import JobManagerRunner
from pystate.ops.jobmanager.supervision.job_queries import JobQueries
from pystate.ops.jobmanager.supervision.metric_fetcher import MetricFetcher
from pystate.ops.jobmanager.supervision.shared_services import JobManagerSharedServices
from pystate.runtime.job_folder.job_record import JobRecord, RecordPhase
from pystate.runtime.job_folder.small_files import EmbeddedProgramFile
from pystate.runtime.logs.log_reader import read_log
from pystate.runtime.logs.pieces import is_written

logger = logging.getLogger(__name__)

_LAST_WORDS_SECONDS = 5.0
"""How long after a driver's end its output is waited for; something it has started may hold it open for ever."""


class SupervisedJob:
    """A job of the job manager.

    Args:
        record: Its record, which must already be on disk.
        directory: Its folder.
        services: The shared services of all runners.

    Attributes:
        job_id: 32 hex digits.
        directory: Its folder.
        runner: Its lifecycle: drivers, restarts, cancel, end.
        operations: Its savepoints, checkpoints and stops.
        checkpoints: The statistics of its checkpoints.
        metrics: Its metrics.
        queries: Its queryable state.
        resubmitting: Held while changing the data for a resubmission, or resubmitting the job.
        is_rescaled: Whether this job manager is rescaling it, for which its folder is needed after its end.
    """

    program: EmbeddedProgramFile | None = None
    """The program that runs the job itself; None for a job of ours."""

    def __init__(self, record: JobRecord, directory: JobDirectory, services: JobManagerSharedServices) -> None:
        self.job_id = record.job_id
        self.directory = directory
        self._record = self._kept(record, services)
        self._gateway = gateway = self._gateway_to(self._record)
        self._status = JobStatusProvider(self._record, directory)
        self.runner = JobManagerRunner(self._record, directory, gateway, self._status, services)
        self.operations = CachedOperationsHandler(self._record, directory, gateway, self._status)
        self.checkpoints = JobCheckpoints(self.job_id, directory, gateway, services.statistics)
        self.metrics = MetricFetcher(
            gateway.call,
            self.status,
            self.checkpoints.samples,
            lambda: gateway.has_no_driver,
            services.clock,
            kept=lambda: read_last_metrics(directory.last_metrics),
        )
        self.queries = JobQueries(self.job_id, gateway)
        self.resubmitting = threading.Lock()
        self.is_rescaled = False
        self._progress_unknown: str | None = None

    def _kept(self, record: JobRecord, services: JobManagerSharedServices) -> KeptRecord:
        return KeptRecord(record, self.directory, services.leadership, services.steps)

    def _gateway_to(self, record: KeptRecord) -> DriverGateway:
        return DriverGateway(record, self.directory)

    @property
    def record(self) -> JobRecord:
        """The record: the decisions, which are also on disk unless that is full."""
        return self._record.current

    @property
    def driver_is_gone(self) -> bool:
        """Whether no driver will write anything for this job any more."""
        return self._gateway.is_closed

    @property
    def has_no_driver(self) -> bool:
        """Whether no driver runs the job at the moment, e.g. between two drivers."""
        return self._gateway.has_no_driver

    @property
    def end_time(self) -> int | None:
        """When the job ended, ms since 1970; None while its end isn't known."""
        if not self.driver_is_gone or self.record.phase is not RecordPhase.ENDED:
            return None
        status = self._status.current()
        return status.end_time if status.state.is_terminal else None

    def state(self) -> JobStatus:
        """Return the state of the job."""
        return self._status.current().state

    def status(self) -> dict[str, Any]:
        """Return the status in the form of `status.json`, with `silent_since` if the driver doesn't answer."""
        status, silence = self._status.current().to_plain(), self._status.silence
        if silence is None or JobStatus(status["state"]).is_terminal:
            return status
        return {**status, "silent_since": silence.since, "waits_for": silence.describe(self.record.pid)}

    def progress(self, timeout: float = CALL_TIMEOUT_SECONDS) -> dict[str, Any]:
        """Return the status with the figures of a living driver: `epoch`, `records_in`, `records_out`.

        Args:
            timeout: The timeout of the driver in seconds; without an answer its figures are left out.
        """
        status = self.status()
        if not self.driver_is_gone and not JobStatus(status["state"]).is_terminal:
            try:
                # the state is that of the job manager, which may know of a cancel that the driver hasn't received yet
                progress = {**self._gateway.call("status", timeout=timeout), "state": status["state"]}
                self._progress_unknown = None
                return progress
            except PystateError as error:
                # clients that wait for the job ask many times a second
                if error.message != self._progress_unknown:
                    self._progress_unknown = error.message
                    logger.info("the progress of job %s is not known: %s", self.job_id, error.message)
        return status

    def read_output(self, name: str, offset: int, limit: int) -> tuple[bytes, bool]:
        """Return the next bytes of `stdout` or `log`, and whether they are the last ones.

        Raises:
            LogGoneError: These bytes were deleted when the log grew too large.
        """
        log = self.directory.stdout if name == "stdout" else self.directory.log
        # checked before the file is read: output of a dead driver may still be on its way there
        ended = self.driver_is_gone and (self._gateway.closed_for_seconds > _LAST_WORDS_SECONDS or not is_written(log))
        return read_log(log, offset, limit, ended=ended)
