"""Free space on the local disks that the job manager and its jobs write to."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions
from pystate.common.configuration.groups.job_manager_options import HighAvailabilityOptions, JobManagerOptions
from pystate.common.errors import PystateError
from pystate.ops.jobmanager.dispatcher import Dispatcher
from pystate.ops.jobmanager.supervision.supervised_job import SupervisedJob
from pystate.runtime.job_folder.submission import SubmissionFile

logger = logging.getLogger(__name__)

_FRESH_SECONDS = 5.0
_PATIENCE_SECONDS = 1.0
"""How long a caller waits for a disk that may hang; it gets what was known before."""
_OF_JOBS = (
    ("checkpoints", CheckpointingOptions.CHECKPOINTS_DIRECTORY),
    ("savepoints", CheckpointingOptions.SAVEPOINT_DIRECTORY),
)


@dataclass(frozen=True)
class DiskSpace:
    """One disk.

    Attributes:
        name: Its use: home, logs, checkpoints, savepoints, high-availability.
        path: The folder, or its nearest existing parent.
        free: Bytes available to users other than root.
        total: Bytes.
        is_low: Whether less is free than configured.
    """

    name: str
    path: Path
    free: int
    total: int
    is_low: bool


class Disks:
    """Checks disks at most every few seconds, on a thread of its own. Thread-safe.

    Args:
        dispatcher: The jobs.
        configuration: The job manager's options.
    """

    def __init__(self, dispatcher: Dispatcher, configuration: Configuration) -> None:
        self._dispatcher = dispatcher
        self._limit = configuration.get(JobManagerOptions.MIN_FREE_DISK)
        self._storage = configuration.get(HighAvailabilityOptions.HA_STORAGE_PATH)
        self._looking = threading.Lock()
        self._looked_at = float("-inf")
        self._found: list[DiskSpace] = []
        self._places_of_jobs: dict[str, list[tuple[str, Path]]] = {}

    def current(self) -> list[DiskSpace]:
        """Return the space of each place, at most some seconds old; of two places with the same name the one with less."""
        if time.monotonic() - self._looked_at >= _FRESH_SECONDS and self._looking.acquire(blocking=False):
            thread = threading.Thread(target=self._look, name="disks", daemon=True)
            thread.start()
            thread.join(_PATIENCE_SECONDS)
        return self._found

    def _look(self) -> None:
        try:
            found: dict[str, DiskSpace] = {}
            for name, place in self._places():
                space = self._space(name, place)
                if space is not None and (name not in found or space.free < found[name].free):
                    found[name] = space
            self._found = list(found.values())
            self._looked_at = time.monotonic()
        finally:
            self._looking.release()

    def _places(self) -> Iterator[tuple[str, Path]]:
        home = self._dispatcher.home
        yield "home", home.root
        yield "logs", home.jobs
        jobs = [job for job in self._dispatcher.jobs() if job.end_time is None]
        known = self._places_of_jobs
        self._places_of_jobs = {job.job_id: known.get(job.job_id) or list(_places_of(job)) for job in jobs}
        for places in self._places_of_jobs.values():
            yield from places
        storage = local_path(self._storage)
        if storage is not None:
            yield "high-availability", storage

    def _space(self, name: str, place: Path) -> DiskSpace | None:
        try:
            while not place.exists() and place != place.parent:
                place = place.parent
            usage = shutil.disk_usage(place)
        except OSError as error:
            logger.info("the disk of %s can't be looked at: %s", place, error)
            return None
        return DiskSpace(name, place, usage.free, usage.total, usage.free < self._limit)


def local_path(place: str | None) -> Path | None:
    """Return the local folder of a configured place; None if there is none or it is remote."""
    if not place:
        return None
    for scheme in ("file://", "file:", "local://"):
        if place.startswith(scheme):
            place = place[len(scheme) :]
            break
    return Path(place) if place.startswith("/") else None


def _places_of(job: SupervisedJob) -> Iterator[tuple[str, Path]]:
    if job.program is not None:  # it has its settings in its own process
        return
    try:
        settings = SubmissionFile.read(job.directory).configuration
    except (PystateError, OSError) as error:
        logger.info("the places of job %s are not known: %s", job.job_id, error)
        return
    for name, option in _OF_JOBS:
        path = local_path(settings.get(option.key))
        if path is not None:
            yield name, path
