"""The replicated files of a job, if its job manager shares object storage with others: a local copy and one there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystate.common.files.home import JobDirectory, PystateHome
from pystate.runtime.job_folder.small_files import ReplicaFile

if TYPE_CHECKING:
    from pystate.core.file_systems.fenced_files import FencedFiles


def write_replica(directory: JobDirectory, uri: str) -> None:
    """Record the location of the replica in a job's folder."""
    ReplicaFile(uri).write_to(directory.replica)


def read_replica(directory: JobDirectory) -> str | None:
    """Return the location of a job's replica; None for a job with local files only.

    Raises:
        PystateError: The file that says so is damaged, or of a version that isn't known here.
    """
    replica = ReplicaFile.read_from(directory.replica)
    return None if replica is None else replica.uri


def replica_of(uri: str, token: int) -> FencedFiles:
    """Return the replica of a job's files in the storage that job managers share.

    Args:
        uri: The folder there.
        token: The fencing token of the job manager in charge.

    Raises:
        SnapshotError: The storage can't be used.
    """
    # these bring fsspec along, which a command that looks for the leader in a folder need not wait for
    from pystate.core.file_systems.fenced_files import FencedFiles
    from pystate.core.file_systems.places import parse_location

    fs, path, _ = parse_location(uri)
    return FencedFiles(fs, path, token)


def job_directory(home: PystateHome, job_id: str, token: int | None) -> JobDirectory:
    """Return a job's files for writing.

    Args:
        home: The installation.
        job_id: The job.
        token: The fencing token of the job manager in charge; None if it has no stand-in.

    Raises:
        SnapshotError: The storage can't be used.
    """
    directory = home.job(job_id)
    uri = None if token is None else read_replica(directory)
    if uri is None or token is None:
        return directory
    return JobDirectory(directory.path, replica_of(uri, token))
