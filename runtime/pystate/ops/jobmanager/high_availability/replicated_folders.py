"""Job folders replicated to object storage: local for the jobs of this machine, and remote for all."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from pystate.common.errors import UsageError
from pystate.common.files.folders import make_private_folder
from pystate.common.files.home import JobDirectory, PystateHome, parse_job_id
from pystate.common.files.job_files import replace_file
from pystate.core.file_systems.places import join, parse_location
from pystate.ops.jobmanager.jobs.job_folders import REMOVED, JobFolders, appearing, delete_half_done
from pystate.runtime.driver.replicated_directory import read_replica, replica_of, write_replica

_RECORD = "record"
"""How the names of the files begin that make a folder a job: what has none is half made, or half deleted."""


class ReplicatedJobFolders(JobFolders):
    """The folders of the jobs of one cluster, for its leader.

    Files are written to the remote storage first. They are read locally: they are copied there when the leader takes over a
        job, and the driver that it starts writes them there.

    Args:
        home: The leader's installation.
        uri: The remote folder of folders.
        token: The leader's fencing token.
    """

    def __init__(self, home: PystateHome, uri: str, token: int) -> None:
        self._home = home
        self._uri = uri
        self._token = token
        self._fs, self._root, _ = parse_location(uri)

    def prepare(self) -> None:
        """Create the local folder of folders, and delete partial folders left by a killed job manager."""
        make_private_folder(self._home.jobs)
        delete_half_done(self._home.jobs)
        folders = self._folders()
        there = {job_id for job_id in folders if self._has_record(job_id)}
        for job_id in folders:
            if job_id not in there:
                replica_of(self._uri_of(job_id), self._token).delete_folder()
        for entry in os.listdir(self._home.jobs):
            path = self._home.jobs / entry
            if entry not in there and (path.is_symlink() or self._is_replicated(path)):  # another one has deleted the job
                _remove(path)

    def job_ids(self) -> list[str]:
        """Return the jobs that have a record."""
        return [job_id for job_id in self._folders() if self._has_record(job_id)]

    def job(self, job_id: str) -> JobDirectory:
        """Return the folder of a job; `bring` copies the files of others to it."""
        return JobDirectory(self._home.job(job_id).path, replica_of(self._uri_of(job_id), self._token))

    def bring(self, job_id: str, driver_home: Path | None) -> JobDirectory:
        """Copy a job's remote files to the local folder.

        Args:
            job_id: The job.
            driver_home: The installation of a living driver of the job on this machine, which continues to write its files;
                None if there is none.
        """
        path = self._home.job(job_id).path
        if driver_home is None:
            if path.is_symlink():
                path.unlink()
        elif (target := PystateHome(driver_home).job(job_id).path.resolve()) != path.resolve():  # which may link to this one
            _remove(path)
            path.symlink_to(target, target_is_directory=True)
        make_private_folder(path)
        directory = self.job(job_id)
        there = replica_of(self._uri_of(job_id), self._token).read_all("" if driver_home is None else _RECORD)
        for name, data in there.items():
            _write(directory.local(name), data)
        if driver_home is None:
            directory.driver.unlink(missing_ok=True)
            _delete_all_but(directory, there)
        write_replica(directory, self._uri_of(job_id))
        return directory

    def claim(self, job_id: str) -> None:
        """Rewrite a job's files with this leader's token: files with lower tokens, even new ones, are invalid then."""
        directory, replica = self.job(job_id), replica_of(self._uri_of(job_id), self._token)
        for name, data in replica.read_all().items():
            if not name.startswith(_RECORD):
                replica.write(name, data)
                _write(directory.local(name), data)

    def publish(self, job_id: str, fill: Callable[[JobDirectory], None]) -> JobDirectory:
        """Create the folder of a new job.

        Args:
            job_id: The job.
            fill: Writes its files, the record last.
        """
        replica = replica_of(self._uri_of(job_id), self._token)
        try:
            with appearing(self._home.job(job_id).path) as new:
                replica.make_folder()
                fill(JobDirectory(new, replica))
                write_replica(JobDirectory(new), self._uri_of(job_id))
        except BaseException:
            with contextlib.suppress(OSError):
                replica.delete_folder()
            raise
        return self.job(job_id)

    def remove(self, job_id: str) -> None:
        """Delete the remote and the local folder of a job."""
        replica = replica_of(self._uri_of(job_id), self._token)
        for name in replica.names():
            if name.startswith(_RECORD):
                replica.delete(name)
        replica.delete_folder()
        path, gone = self._home.job(job_id).path, self._home.jobs / f"{REMOVED}{job_id}"
        if path.is_symlink():
            path.unlink()
            return
        with contextlib.suppress(FileNotFoundError):
            path.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)

    def _uri_of(self, job_id: str) -> str:
        return join(self._uri, job_id)

    def _folders(self) -> list[str]:
        try:
            entries = self._fs.ls(self._root, detail=False)
        except FileNotFoundError:
            return []
        found = []
        for entry in sorted(entries):
            with contextlib.suppress(UsageError):
                found.append(parse_job_id(entry.rstrip("/").rpartition("/")[2]))
        return found

    def _is_replicated(self, path: Path) -> bool:
        uri = read_replica(JobDirectory(path)) if path.is_dir() else None
        return uri is not None and uri.rpartition("/")[0] == self._uri

    def _has_record(self, job_id: str) -> bool:
        return any(name.startswith(_RECORD) for name in replica_of(self._uri_of(job_id), self._token).names())


def _write(path: Path, data: bytes) -> None:
    make_private_folder(path.parent)
    replace_file(path, data, mode=0o600)


def _delete_all_but(directory: JobDirectory, names: Collection[str]) -> None:
    """Delete local files of an earlier run of the job here that no longer exist remotely."""
    for name, path in directory.replicated().items():
        if name not in names:
            path.unlink(missing_ok=True)


def _remove(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)
