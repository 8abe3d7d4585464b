"""Retention of ended jobs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.job_manager_options import JobManagerOptions
from pystate.ops.jobmanager.jobs.job_folders import JobFolders
from pystate.ops.jobmanager.leadership import Leadership, LeadershipInDoubtError, LeadershipLostError
from pystate.ops.jobmanager.supervision.job_registry import JobRegistry

T = TypeVar("T")

logger = logging.getLogger(__name__)

_HOUSEKEEPING_SECONDS = 10.0


@dataclass(frozen=True)
class EndedJob:
    """A job that has ended.

    Attributes:
        job_id: The job.
        end_time: When it ended, in milliseconds since 1970. Used only to order jobs, since clocks may be changed.
        seen_for_ms: How long this job manager has seen it as ended, on a monotonic clock.
    """

    job_id: str
    end_time: int
    seen_for_ms: int


@dataclass(frozen=True)
class JobStoreTerms:
    """How many ended jobs are kept, and for how long.

    Attributes:
        expiration_ms: How long an ended job is kept.
        max_capacity: The maximum number of ended jobs.
    """

    expiration_ms: int = JobManagerOptions.JOB_STORE_EXPIRATION_TIME.default * 1000
    max_capacity: int = JobManagerOptions.JOB_STORE_MAX_CAPACITY.default

    @staticmethod
    def of(configuration: Configuration) -> JobStoreTerms:
        """Return the terms of a configuration."""
        return JobStoreTerms(
            configuration.get(JobManagerOptions.JOB_STORE_EXPIRATION_TIME) * 1000,
            configuration.get(JobManagerOptions.JOB_STORE_MAX_CAPACITY),
        )

    def expired(self, ended: Iterable[EndedJob]) -> list[str]:
        """Return the expired jobs."""
        newest_first = sorted(ended, key=lambda job: (-job.seen_for_ms, job.end_time, job.job_id), reverse=True)
        return [
            job.job_id
            for place, job in enumerate(newest_first)
            if place >= self.max_capacity or job.seen_for_ms >= self.expiration_ms
        ]


class JobStore:
    """Forgets expired jobs: deletes their folders, but never their checkpoints and savepoints.

    Args:
        terms: How many are kept, and for how long.
        registry: The jobs.
        folders: Their folders.
        leadership: Whether this job manager may act.
        steady: Returns milliseconds of a monotonic clock.
    """

    def __init__(
        self,
        terms: JobStoreTerms,
        registry: JobRegistry,
        folders: JobFolders,
        leadership: Leadership,
        steady: Callable[[], int],
    ) -> None:
        self._terms = terms
        self._registry = registry
        self._folders = folders
        self._leadership = leadership
        self._steady = steady
        self._seen_ended: dict[str, int] = {}
        self._refused: set[str] = set()

    def expire_periodically(self, closed: threading.Event) -> None:
        """Forget expired jobs periodically, on a thread of its own.

        Args:
            closed: Set when this job manager stops acting.
        """

        def keep() -> None:
            while not closed.wait(_HOUSEKEEPING_SECONDS):
                try:
                    self.expire_jobs()
                except LeadershipInDoubtError:
                    continue
                except LeadershipLostError:
                    return
                except Exception:
                    logger.exception("housekeeping failed; it is tried again")

        threading.Thread(target=keep, name="housekeeping", daemon=True).start()

    def expire_jobs(self) -> None:
        """Delete the folders of expired jobs.

        Failed steps are retried the next time, and don't prevent the others.

        Raises:
            LeadershipLostError: Another job manager leads.
        """
        self._leadership.check()
        now = self._steady()
        ended = []
        for job in self._registry.jobs():
            end_time = self._try(f"looking at the end of job {job.job_id}", partial(getattr, job, "end_time"))
            if end_time is not None and not job.is_rescaled:
                seen_for = now - self._seen_ended.setdefault(job.job_id, now)
                ended.append(EndedJob(job.job_id, end_time, seen_for))
        for job_id in self._terms.expired(ended):
            self._try(f"deleting the folder of job {job_id}", partial(self._forget, job_id))

    def _forget(self, job_id: str) -> None:
        job = self._registry.unregister(job_id)
        try:
            self._folders.remove(job_id)
        except OSError:
            self._registry.register(job)
            raise
        del self._seen_ended[job_id]
        logger.info("job %s is not listed any longer", job_id)

    def _try(self, what: str, act: Callable[[], T]) -> T | None:
        """Run a cleanup step; a failure is logged once, until it succeeds again."""
        try:
            result = act()
        except OSError as error:
            if what not in self._refused:
                logger.error("%s is tried until it can be done: %s", what, error)
            self._refused.add(what)
            return None
        if what in self._refused:
            self._refused.discard(what)
            logger.info("%s is done", what)
        return result
