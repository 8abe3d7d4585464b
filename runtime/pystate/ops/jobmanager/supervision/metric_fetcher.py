"""Fetches metrics from a job's driver, without ever waiting long."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from pystate.common.errors import PystateError
from pystate.common.job_status import JobStatus
from pystate.common.text.plain_data import PlainDataError
from pystate.core.metrics.last_metrics import LastMetrics
from pystate.core.metrics.sample import MetricSample
from pystate.core.metrics.store import DriverMetrics, JobMetricStore
from pystate.ops.jobmanager.drivers.driver_gateway import DriverUnreachableError

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 2.0
"""How long a driver may take to answer. Prometheus gives a whole scrape 10 s by default."""
_FRESH_SECONDS = 1.0
"""How long an answer is good for: slots report once a second."""
_RETRY_SECONDS = 5.0
"""How long a driver that didn't answer isn't asked again, so that only the first of those who ask has to wait."""


class MetricFetcher:
    """Fetches the metrics of one job.

    Args:
        call: Calls an operation of the driver, with `timeout` in seconds.
        status: Returns the content of `status.json`.
        checkpoints: Returns metrics of checkpoints from the job's files.
        has_no_driver: Whether no driver runs the job at the moment.
        now_ms: The wall clock.
        clock: Monotonic seconds.
        kept: Returns the last metrics of an ended job's driver; None if there are none.
    """

    def __init__(
        self,
        call: Callable[..., Any],
        status: Callable[[], dict[str, Any]],
        checkpoints: Callable[[], list[MetricSample]],
        has_no_driver: Callable[[], bool],
        now_ms: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
        kept: Callable[[], LastMetrics | None] = lambda: None,
    ) -> None:
        self._call = call
        self._status = status
        self._checkpoints = checkpoints
        self._has_no_driver = has_no_driver
        self._now_ms = now_ms
        self._clock = clock
        self._kept = kept
        self._lock = threading.Lock()
        self._asked_at = float("-inf")
        self._answer: DriverMetrics | None = None
        self._is_up = False

    def current(self, patience: float = TIMEOUT_SECONDS) -> JobMetricStore:
        """Return the metrics, at most some seconds old; if a driver hangs or is missing, those from the files.

        For an ended job: the last ones of its driver.

        Args:
            patience: How many seconds to wait for an answer that another caller has asked for; then the last one is good.
        """
        return self._store(lambda: self._ask(patience))

    def known(self) -> JobMetricStore:
        """Return the metrics as they were when the driver was last asked, without asking it."""
        return self._store(lambda: (self._answer, self._is_up))

    def _store(self, ask: Callable[[], tuple[DriverMetrics | None, bool]]) -> JobMetricStore:
        status = self._status()
        told: DriverMetrics | None = None
        is_up = False
        if JobStatus(status["state"]).is_terminal:
            kept = self._kept()
            told = None if kept is None else DriverMetrics(kept.job, self._checkpoints(), kept.tasks)
        elif not self._has_no_driver():
            told, is_up = ask()
        if told is None:
            told = DriverMetrics([], self._checkpoints(), [])
        return JobMetricStore.of(status, told, self._now_ms(), is_up=is_up)

    def _ask(self, patience: float) -> tuple[DriverMetrics | None, bool]:
        """Return the driver's metrics, possibly cached, and whether it answers at all; one caller asks for all."""
        if not self._lock.acquire(timeout=patience):
            return (None, False) if patience >= TIMEOUT_SECONDS else (self._answer, self._is_up)
        try:
            age = self._clock() - self._asked_at
            if age >= (_FRESH_SECONDS if self._is_up else _RETRY_SECONDS):
                self._answer, self._is_up = self._called()
                self._asked_at = self._clock()
            return self._answer, self._is_up
        finally:
            self._lock.release()

    def _called(self) -> tuple[DriverMetrics | None, bool]:
        try:
            return DriverMetrics.from_plain(self._call("metrics", timeout=TIMEOUT_SECONDS)), True
        except DriverUnreachableError as error:
            logger.info("a job's metrics are not known: %s", error.message)
            return None, False
        except PystateError:  # it is still starting
            return None, True
        except PlainDataError as error:  # it runs another version of pystate
            logger.warning("what a job's driver says of its metrics can't be read: %s", error)
            return None, True
