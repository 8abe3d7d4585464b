"""The error for a missing job manager: the state of its jobs, and how to start it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystate.common.errors import PystateError, UsageError
from pystate.common.files.job_manager_entry import read_job_manager
from pystate.common.processes.processes import is_alive, started_at
from pystate_cli.client.rest_client import BACK_AGAIN, NoJobManagerError

if TYPE_CHECKING:
    from pystate.common.files.home import JobDirectory, PystateHome


def absent_job_manager(home: PystateHome) -> NoJobManagerError:
    """Return the error of a home without a job manager, killed or never started."""
    entry = read_job_manager(home)  # one that was stopped deletes it
    jobs = _jobs_left(home)
    where = None
    if entry is not None and not is_alive(entry["pid"]):
        message = f"The job manager of this home (process {entry['pid']}) is dead."
        where = str(home.root)
    else:
        message = f"No job manager is running for this home ({home.root})."
    none_yet = "pystate run starts one, or pystate cluster start; PYSTATE_HOME names another home"
    hint = BACK_AGAIN if entry is not None or jobs else none_yet
    return NoJobManagerError(f"{message}{jobs}", where=where, hint=hint)


def has_embedded_jobs_only(home: PystateHome) -> bool:
    """Return whether there are only embedded jobs, and none that a job manager would restart."""
    from pystate.runtime.job_folder.job_liveness import has_ended

    directories = _directories(home)
    embedded = [directory for directory in directories if directory.embedded.exists()]
    return bool(embedded) and all(directory in embedded or has_ended(directory) for directory in directories)


def _jobs_left(home: PystateHome) -> str:
    """Return the sentence about jobs that have not ended."""
    from pystate.runtime.job_folder.job_liveness import has_ended

    left = [directory for directory in _directories(home) if not has_ended(directory)]
    running = sum(map(_has_driver, left))
    sentences = []
    if running:
        sentences.append(f" {running} job{' goes' if running == 1 else 's go'} on without it.")
    if len(left) > running:
        waiting = len(left) - running
        sentences.append(f" {waiting} job{' waits' if waiting == 1 else 's wait'} for it to be started again.")
    return "".join(sentences)


def _directories(home: PystateHome) -> list[JobDirectory]:
    found = []
    for path in sorted(home.jobs.iterdir()) if home.jobs.is_dir() else ():
        try:
            found.append(home.job(path.name))
        except UsageError:
            continue  # no job's
    return found


def _has_driver(directory: JobDirectory) -> bool:
    from pystate.runtime.job_folder.small_files import DriverAddressFile

    try:
        driver = DriverAddressFile.read_from(directory.driver)
        started = None if driver is None else started_at(driver.pid)  # its process id may have been reused
        return driver is not None and started is not None and driver.started in (None, started)
    except (OSError, PystateError):
        return False
