"""`high-availability.storageDir` on object storage or HDFS."""

from __future__ import annotations

import contextlib
import secrets

from pystate.common.errors import PystateError
from pystate.common.files.home import PystateHome
from pystate.core.file_systems.file_info import kind_of
from pystate.core.file_systems.file_stores import store_of
from pystate.core.file_systems.places import join, parse_location
from pystate.ops.jobmanager.high_availability.lease_objects import LeaseObjects
from pystate.ops.jobmanager.high_availability.replicated_folders import ReplicatedJobFolders

_HINT = "set high-availability.storageDir to another place: a folder that all job managers mount, s3:// or hdfs://"


class ObjectStorage:
    """The object storage of one cluster.

    Args:
        uri: The place.

    Raises:
        SnapshotError: It isn't valid, or a package for it is missing.
    """

    def __init__(self, uri: str) -> None:
        self._fs, path, self.uri = parse_location(uri)
        self._store = store_of(self._fs)
        self._root = path
        self._leader = join(path, "leader")
        self._token = join(path, "token")

    @property
    def lease(self) -> LeaseObjects:
        """The lease."""
        return LeaseObjects(self._fs, self._leader)

    @property
    def is_there(self) -> bool:
        """Whether a job manager was ever started with it."""
        return kind_of(self._fs, self._token) is not None

    def folders(self, home: PystateHome, token: int) -> ReplicatedJobFolders:
        """Return the folders of the jobs, for a leader.

        Args:
            home: The leader's installation.
            token: Its fencing token.
        """
        return ReplicatedJobFolders(home, join(self.uri, "jobs"), token)

    def token(self) -> str | None:
        """Return the token that requests prove to all job managers; None before the first one was started."""
        try:
            return str(self._fs.cat_file(self._token).decode().strip())
        except FileNotFoundError:
            return None

    def prepare(self) -> str:
        """Create the storage and return the token.

        Raises:
            PystateError: It can't be created, or doesn't support a lease.
        """
        try:
            self._store.make_root(self._root)
            for folder in (self._leader, join(self._root, "jobs")):
                self._store.make_directory(folder)
            self._check_storage()
            with contextlib.suppress(FileExistsError):  # of several concurrent job managers one creates it
                if not self.is_there:
                    self._store.create(self._token, f"{secrets.token_hex(32)}\n".encode())
            token = self.token()
        except (OSError, NotImplementedError) as error:
            message = f"The storage for high availability can't be used: {error}."
            raise PystateError(message, where=self.uri, hint=_HINT) from error
        if token is None:
            message = "The storage for high availability forgets what was written."
            raise PystateError(message, where=self.uri, hint=_HINT)
        return token

    def _check_storage(self) -> None:
        """Check that a file can be created only once: the lease needs it, and some S3 services ignore the condition."""
        path = join(self._leader, f".check-{secrets.token_hex(8)}")
        self._store.create(path, b"first")
        try:
            self._store.create(path, b"second")
        except FileExistsError:
            return
        finally:
            self._fs.rm_file(path)
        message = "The storage gives the same name twice (it ignores If-None-Match), and so has no way to take the lease."
        raise PystateError(message, where=self.uri, hint=_HINT)
