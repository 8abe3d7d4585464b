"""`high-availability.storageDir` in a folder that all job managers mount, and the choice of the storage."""

from __future__ import annotations

import logging
import os
import re
import secrets
from pathlib import Path
from typing import Protocol

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.job_manager_options import HighAvailabilityMode, HighAvailabilityOptions
from pystate.common.errors import ConfigurationError, PystateError
from pystate.common.files.folders import make_private_folder
from pystate.common.files.home import PystateHome, write_file_atomically
from pystate.common.files.private_home import ForeignHomeError, check_ours, close_folder
from pystate.common.files.tokens import read_home_token
from pystate.ops.jobmanager.high_availability.lease_files import LeaseFiles, LeaseStore
from pystate.ops.jobmanager.jobs.job_folders import JobFolders, LocalJobFolders

logger = logging.getLogger(__name__)

_CLUSTER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_REMOTE = ("s3", "s3a", "s3n", "s3p", "hdfs")


class HighAvailabilityStorage(Protocol):
    """The storage that job managers share for high availability."""

    @property
    def lease(self) -> LeaseStore:
        """The lease."""

    @property
    def is_there(self) -> bool:
        """Whether a job manager was ever started with it."""

    def folders(self, home: PystateHome, token: int) -> JobFolders:
        """Return the folders of the jobs, for a leader with its installation and fencing token."""

    def token(self) -> str | None:
        """Return the token that requests prove to all job managers; None before the first one was started."""

    def prepare(self) -> str:
        """Create the storage and return the token.

        Raises:
            PystateError: It can't be created, or doesn't support a lease or a secret.
        """


class FolderStorage:
    """The shared folder of one cluster.

    Args:
        root: The folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.jobs = root / "jobs"
        self._leader = root / "leader"
        self._token = root / "token"

    @property
    def lease(self) -> LeaseFiles:
        """The lease."""
        return LeaseFiles(self._leader)

    @property
    def is_there(self) -> bool:
        """Whether a job manager was ever started with it."""
        return self._leader.is_dir()

    def folders(self, home: PystateHome, token: int) -> LocalJobFolders:
        """Return the folders of the jobs, for a leader.

        Args:
            home: The leader's installation.
            token: Its fencing token.
        """
        del token  # fenced files have the token in their names
        return LocalJobFolders(home, self.jobs)

    def token(self) -> str | None:
        """Return the token that requests prove to all job managers; None before the first one was started."""
        return read_home_token(self._token)

    def prepare(self) -> str:
        """Create the folder and return the token.

        Raises:
            PystateError: It can't be created, or its file system doesn't support a lease or a secret.
        """
        try:
            for folder in (self.root, self.jobs, self._leader):
                # anyone who can write there could name another leader, to which commands would send the token
                for sentence in close_folder(make_private_folder(folder), "folder of high availability"):
                    logger.warning("%s", sentence)
            self._check_file_system()
            if not self._token.exists():
                draft = self.root / f".token-{secrets.token_hex(8)}"
                write_file_atomically(draft, f"{secrets.token_hex(32)}\n".encode(), mode=0o600)
                try:
                    os.link(draft, self._token)
                except FileExistsError:
                    pass  # another job manager was faster
                finally:
                    draft.unlink()
            check_ours(self._token.lstat(), self._token, "token of high availability")
            token = read_home_token(self._token)
        except ForeignHomeError as error:
            error.hint = "set high-availability.storageDir to another folder, or be its owner"
            raise
        except OSError as error:
            message = f"The storage for high availability can't be used: {error}."
            raise PystateError(
                message, where=str(self.root), hint="set high-availability.storageDir to another folder"
            ) from error
        if token is None:
            message = "The token of the storage for high availability was deleted while it was read."
            raise PystateError(message, where=str(self._token), hint="start the job manager again")
        return token

    def _check_file_system(self) -> None:
        """Check that links are atomic, which the lease needs, and that modes are kept, which secrets need."""
        first, second = (self.root / f".check-{secrets.token_hex(8)}" for _ in range(2))
        try:
            os.close(os.open(first, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            if first.stat().st_mode & 0o077 or first.stat().st_uid != os.geteuid():
                message = "The file system ignores file modes; anybody could read the environments of the jobs' submitters."
                raise PystateError(
                    message, where=str(self.root), hint="use one that keeps them, such as a local disk or NFS"
                )
            try:
                os.link(first, second)
            except OSError as error:
                message = f"The file system has no hard links ({error.strerror}), and so no atomic way to take the lease."
                hint = "use one that has them, such as a local disk or NFS"
                raise PystateError(message, where=str(self.root), hint=hint) from error
        finally:
            first.unlink(missing_ok=True)
            second.unlink(missing_ok=True)


def shared_storage(configuration: Configuration) -> HighAvailabilityStorage | None:
    """Return the storage of a configuration; None without high availability.

    Raises:
        ConfigurationError: The place is missing or invalid, or the cluster's id can't be part of a path.
    """
    if configuration.get(HighAvailabilityOptions.HA_MODE) is HighAvailabilityMode.NONE:
        return None
    option = HighAvailabilityOptions.HA_STORAGE_PATH
    text = configuration.get(option)
    if not text:
        message = "High availability needs a folder that all job managers reach."
        raise ConfigurationError(message, where=HighAvailabilityOptions.HA_MODE.key, hint=f"set {option.key}")
    cluster = configuration.get(HighAvailabilityOptions.HA_CLUSTER_ID).strip("/")
    if not _CLUSTER_ID.fullmatch(cluster):
        message = f"The cluster id {cluster!r} must be a name of letters, digits and . _ -, or several with / between them."
        raise ConfigurationError(message, where=HighAvailabilityOptions.HA_CLUSTER_ID.key)
    scheme = _SCHEME.match(text)
    if scheme is not None and scheme[1].lower() in _REMOTE:
        from pystate.ops.jobmanager.high_availability.object_storage import ObjectStorage  # importing fsspec is slow

        return ObjectStorage(f"{text.rstrip('/')}/{cluster}")
    return FolderStorage(_local_path(text) / cluster)


def _local_path(text: str) -> Path:
    scheme = _SCHEME.match(text)
    if scheme is None:
        path = text
    elif scheme[1].lower() in ("file", "local") and not re.match(r"\w+://[^/]", text):
        path = text[scheme.end() :]
        path = path[2:] if path.startswith("//") else path
    else:
        message = (
            f"{text!r} can't hold the record of jobs: it isn't known there how to make a file only once, "
            "which the lease is taken by."
        )
        hint = "name a folder that all job managers mount, such as NFS, or a place on s3:// or hdfs://"
        raise ConfigurationError(message, where=HighAvailabilityOptions.HA_STORAGE_PATH.key, hint=hint)
    return Path(os.path.abspath(os.path.expanduser(path)))
