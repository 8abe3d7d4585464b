"""The paths of a job's checkpoints and savepoints; no other module builds them. For the layout see `storage`."""

from __future__ import annotations

import re
import secrets

from pystate.common.errors import CheckpointFailedError, SnapshotError, StorageError
from pystate.core.file_systems.file_info import kind_of
from pystate.core.file_systems.file_stores import store_of
from pystate.core.file_systems.places import is_process_memory, join, parse_location
from pystate.core.snapshot.storage.snapshot_location import SHARED_DIRECTORY, TASK_OWNED_DIRECTORY, SnapshotLocation
from pystate.core.snapshot.storage.state_sink import storage_errors

_CHECKPOINT = re.compile(r"chk-\d+")
_OWN_DIRECTORIES = (SHARED_DIRECTORY, TASK_OWNED_DIRECTORY)


class CheckpointStorageAccess:
    """The checkpoint and savepoint directories of one job.

    Args:
        checkpoint_dir: The directory of checkpoints; None if there is none.
        savepoint_dir: The default directory of savepoints; None if there is none.
        job_id: 32 hex digits.
        create_subdir: Whether the job's checkpoints have their own directory.
        for_processes: Whether other processes write there, too, like the slots of a job: then it must not be process memory.

    Attributes:
        job_id: As given.
        is_the_jobs_own: Whether the job's checkpoints have their own directory.

    Raises:
        SnapshotError: A directory isn't a valid path, or its filesystem is unknown.
    """

    def __init__(
        self,
        checkpoint_dir: str | None,
        savepoint_dir: str | None,
        job_id: str,
        create_subdir: bool = True,
        *,
        for_processes: bool = False,
    ) -> None:
        self.job_id = job_id
        self._for_processes = for_processes
        self._savepoint_uri = None if not savepoint_dir else self._parsed(savepoint_dir)
        self._job_uri: str | None = None
        if checkpoint_dir:
            uri = self._parsed(checkpoint_dir)
            self._job_uri = join(uri, job_id) if create_subdir else uri
        self.is_the_jobs_own = create_subdir

    def _parsed(self, directory: str) -> str:
        """Return the URI of a directory for snapshots of the job."""
        fs, _, uri = parse_location(directory)
        if self._for_processes and is_process_memory(fs):
            message = (
                f"{directory!r} is the memory of one process; the job's slots are other processes and can't write there."
            )
            hint = (
                "set a folder, s3://... or hdfs://...; execution.checkpointing.storage = jobmanager keeps checkpoints in the"
                " driver's memory"
            )
            raise SnapshotError(message, hint=hint)
        return uri

    @property
    def has_checkpoint_directory(self) -> bool:
        """Whether there is a directory for checkpoints."""
        return self._job_uri is not None

    @property
    def job_directory(self) -> str:
        """URI of the directory that holds the job's checkpoints.

        Raises:
            CheckpointFailedError: No checkpoint directory is configured.
        """
        if self._job_uri is None:
            message = "Config key [execution.checkpointing.dir] is not set. Checkpoints have no place to go."
            raise CheckpointFailedError(message, hint="-D execution.checkpointing.dir=DIR")
        return self._job_uri

    def initialize(self) -> None:
        """Create the job's directory with `shared` and `taskowned` in it.

        Raises:
            CheckpointFailedError: No checkpoint directory is configured, or it can't be made.
            StorageError: The storage doesn't answer.
        """
        for name in _OWN_DIRECTORIES:
            fs, path, uri = parse_location(join(self.job_directory, name))
            try:
                with storage_errors("create the directory", uri):
                    store_of(fs).make_root(path)
            except StorageError:
                raise
            except SnapshotError as error:
                hint = "set execution.checkpointing.dir to a place the job can write to"
                raise CheckpointFailedError(error.message, where=uri, hint=hint) from error

    def check_there(self) -> None:
        """Check that the directories created by `initialize` exist, as far as the filesystem can tell.

        Raises:
            StorageError: It doesn't: a disk isn't mounted, or it was removed.
        """
        if not self.has_checkpoint_directory:
            return
        for name in _OWN_DIRECTORIES:
            fs, path, uri = parse_location(join(self.job_directory, name))
            if not store_of(fs).keeps_directories:
                return
            with storage_errors("look at", uri):
                fs.invalidate_cache()
                there = kind_of(fs, path) == "directory"
            if not there:
                message = (
                    f"The job's checkpoints were in {self.job_directory}, where {name}/ is not any more: its storage may not"
                    " be mounted. The job waits for it, as its restart strategy says."
                )
                hint = "mount it; where it is gone for good, cancel the job and start it from a savepoint"
                raise StorageError(message, where=self.job_directory, hint=hint)

    def checkpoint_location(self, checkpoint_id: int) -> SnapshotLocation:
        """Return the location of a checkpoint.

        Raises:
            CheckpointFailedError: No checkpoint directory is configured.
        """
        return SnapshotLocation(join(self.job_directory, f"chk-{checkpoint_id}"))

    @property
    def shared_location(self) -> SnapshotLocation:
        """The directory for files that several of the job's checkpoints may refer to.

        Raises:
            CheckpointFailedError: No checkpoint directory is configured.
        """
        return SnapshotLocation(join(self.job_directory, SHARED_DIRECTORY))

    @property
    def task_owned_location(self) -> SnapshotLocation:
        """The job's directory for files that no checkpoint owns.

        Raises:
            CheckpointFailedError: No checkpoint directory is configured.
        """
        return SnapshotLocation(join(self.job_directory, TASK_OWNED_DIRECTORY))

    def checkpoint_directories(self) -> list[tuple[int, SnapshotLocation]]:
        """Return id and directory of all existing checkpoints, complete or not; none if no directory is configured.

        Raises:
            SnapshotError: The storage can't be read.
        """
        if self._job_uri is None:
            return []
        directory = SnapshotLocation(self._job_uri)
        return [
            (int(name[4:]), SnapshotLocation(join(directory.uri, name)))
            for name in directory.file_names()
            if _CHECKPOINT.fullmatch(name)
        ]

    def savepoint_location(self, target: str | None) -> SnapshotLocation:
        """Return the location for a new savepoint, a different one at each call.

        Args:
            target: The parent directory; None for the configured one.

        Raises:
            CheckpointFailedError: There is neither.
            SnapshotError: The target isn't a valid path, or its filesystem is unknown.
        """
        parent = self._parsed(target) if target else self._savepoint_uri
        if parent is None:
            key = "execution.checkpointing.savepoint-dir"
            message = f"Config key [{key}] is not set. Property [target-directory] must be provided."
            raise CheckpointFailedError(message, hint=f"name a directory in the command, or set {key}")
        return SnapshotLocation(join(parent, f"savepoint-{self.job_id[:6]}-{secrets.token_hex(6)}"))
