"""Where the folders of the jobs are, and how they come and go at one stroke."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from pystate.common.errors import UsageError
from pystate.common.home import JobDirectory, PystateHome, parse_job_id

logger = logging.getLogger(__name__)

_NEW, _REMOVED = ".new-", ".removed-"


class JobFolders:
    """The folders of a home's jobs. With high availability they are in shared storage, with links in the home.

    A folder appears with all files in it, and goes as a whole: a job is either not there or there in full.

    Args:
        home: The installation.
        shared: The folder that job managers share; None where the home has them.
    """

    def __init__(self, home: PystateHome, shared: Path | None = None) -> None:
        self._home = home
        self._shared = shared
        self._root = home.jobs if shared is None else shared

    def prepare(self) -> None:
        """Make the folder of folders, and delete what a killed job manager left half made or half deleted."""
        for folder in (self._home.jobs, self._root):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for entry in os.listdir(self._root):
            if entry.startswith((_NEW, _REMOVED)):
                shutil.rmtree(self._root / entry, ignore_errors=True)
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
            if (self._root / entry).is_symlink():
                logger.warning("job %s is served by the job managers of %s only", job_id, os.readlink(self._root / entry))
                continue
            found.append(job_id)
        return found

    def job(self, job_id: str) -> JobDirectory:
        """Return the folder of a job that is there, by its path in the home, which its driver knows."""
        if self._shared is not None:
            link = self._home.job(job_id).path
            if not link.is_symlink():
                with contextlib.suppress(FileExistsError):
                    link.symlink_to(self._shared / job_id, target_is_directory=True)
        return self._home.job(job_id)

    def publish(self, job_id: str, fill: Callable[[JobDirectory], None]) -> JobDirectory:
        """Make the folder of a new job.

        Args:
            job_id: The job.
            fill: Writes its files.
        """
        new = self._root / f"{_NEW}{job_id}"
        new.mkdir(mode=0o700)
        try:
            fill(JobDirectory(new))
            new.rename(self._root / job_id)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        return self.job(job_id)

    def remove(self, job_id: str) -> None:
        """Delete the folder of a job."""
        gone = self._root / f"{_REMOVED}{job_id}"
        with contextlib.suppress(FileNotFoundError):
            (self._root / job_id).rename(gone)
        if self._shared is not None:
            self._home.job(job_id).path.unlink(missing_ok=True)
        shutil.rmtree(gone, ignore_errors=True)
