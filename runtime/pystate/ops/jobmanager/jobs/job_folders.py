"""The folders of jobs, which are created and deleted atomically."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path

from pystate.common.errors import PystateError, UsageError
from pystate.common.files.folders import make_private_folder
from pystate.common.files.home import JobDirectory, PystateHome, parse_job_id
from pystate.runtime.driver.replicated_directory import read_replica

logger = logging.getLogger(__name__)

NEW, REMOVED = ".new-", ".removed-"
"""How the names of folders begin that are not there yet, or no more."""


class JobFolders(ABC):
    """The folders of a home's jobs.

    A folder appears with all its files, and is deleted as a whole: a job either exists completely or not at all.
    """

    @abstractmethod
    def prepare(self) -> None:
        """Create the folder of folders, and delete partial folders left by a killed job manager."""

    @abstractmethod
    def job_ids(self) -> list[str]:
        """Return the jobs that have a folder."""

    @abstractmethod
    def job(self, job_id: str) -> JobDirectory:
        """Return the folder of an existing job, by its path in the home, which its driver knows."""

    @abstractmethod
    def bring(self, job_id: str, driver_home: Path | None) -> JobDirectory:
        """Make the files of a job of earlier job managers available locally.

        Args:
            job_id: The job.
            driver_home: The installation of a living driver of the job on this machine; None if there is none.
        """

    @abstractmethod
    def claim(self, job_id: str) -> None:
        """Take over a job's files from a driver on another machine, whose term is over, but which may still write."""

    @abstractmethod
    def publish(self, job_id: str, fill: Callable[[JobDirectory], None]) -> JobDirectory:
        """Create the folder of a new job.

        Args:
            job_id: The job.
            fill: Writes its files.
        """

    @abstractmethod
    def remove(self, job_id: str) -> None:
        """Delete the folder of a job."""


class LocalJobFolders(JobFolders):
    """Folders of a file system. With high availability they are in shared storage, with links in the home.

    Args:
        home: The installation.
        shared: The folder that job managers share; None if the folders are in the home.
    """

    def __init__(self, home: PystateHome, shared: Path | None = None) -> None:
        self._home = home
        self._shared = shared
        self._root = home.jobs if shared is None else shared

    def prepare(self) -> None:
        """Create the folder of folders, and delete partial folders left by a killed job manager."""
        for folder in (self._home.jobs, self._root):
            make_private_folder(folder)
        delete_half_done(self._root)
        if self._shared is not None:
            for entry in os.listdir(self._home.jobs):
                link = self._home.jobs / entry
                if link.is_symlink() and not link.exists():  # another job manager has deleted the job
                    link.unlink()

    def job_ids(self) -> list[str]:
        """Return the jobs that have a folder."""
        found = []
        for entry in sorted(os.listdir(self._root)):
            try:
                job_id = parse_job_id(entry)
            except UsageError:
                if not entry.startswith("."):
                    logger.error("%s is no folder of a job; it is left alone", self._root / entry)
                continue
            try:
                elsewhere = self._served_by_others(self._root / entry)
            except PystateError as error:
                logger.error("the job %s is left out: %s (%s)", job_id, error.message, error.where)
                continue
            if elsewhere is not None:
                logger.warning("job %s is served by the job managers of %s only", job_id, elsewhere)
                continue
            found.append(job_id)
        return found

    def _served_by_others(self, folder: Path) -> str | None:
        """Return the storage of other job managers that left a folder, if it isn't this one."""
        if folder.is_symlink():
            return os.readlink(folder)
        return read_replica(JobDirectory(folder))

    def job(self, job_id: str) -> JobDirectory:
        """Return the folder of an existing job, by its path in the home, which its driver knows."""
        if self._shared is not None:
            link = self._home.job(job_id).path
            if not link.is_symlink():
                with contextlib.suppress(FileExistsError):
                    link.symlink_to(self._shared / job_id, target_is_directory=True)
        return self._home.job(job_id)

    def bring(self, job_id: str, driver_home: Path | None) -> JobDirectory:
        """Return the folder of a job: all job managers share it."""
        del driver_home
        return self.job(job_id)

    def claim(self, job_id: str) -> None:
        """Do nothing: writers in a shared folder can't be distinguished, except by files with a token."""

    def publish(self, job_id: str, fill: Callable[[JobDirectory], None]) -> JobDirectory:
        """Create the folder of a new job.

        Args:
            job_id: The job.
            fill: Writes its files.
        """
        with appearing(self._root / job_id) as new:
            fill(JobDirectory(new))
        try:
            return self.job(job_id)
        except OSError:  # no link to it: the submitter is told that the job wasn't accepted
            self.remove(job_id)
            raise

    def remove(self, job_id: str) -> None:
        """Delete the folder of a job."""
        gone = self._root / f"{REMOVED}{job_id}"
        with contextlib.suppress(FileNotFoundError):
            (self._root / job_id).rename(gone)
        if self._shared is not None:
            self._home.job(job_id).path.unlink(missing_ok=True)
        shutil.rmtree(gone, ignore_errors=True)


@contextlib.contextmanager
def appearing(folder: Path) -> Iterator[Path]:
    """Yield a folder to fill, which gets its final name when complete, or is deleted on failure."""
    new = folder.with_name(f"{NEW}{folder.name}")
    new.mkdir(mode=0o700)
    try:
        yield new
        new.rename(folder)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def delete_half_done(folder: Path) -> None:
    """Delete partial job folders left by a killed job manager."""
    for entry in os.listdir(folder):
        if entry.startswith((NEW, REMOVED)):
            shutil.rmtree(folder / entry, ignore_errors=True)
