"""Atomic creation and deletion of files, on each kind of filesystem.

If rename is atomic, a file is written under another name first. An object store has no rename, and needs none: an object
doesn't exist before its last byte is written.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from typing import Any, BinaryIO, Protocol

from fsspec.implementations.local import LocalFileSystem

from pystate.common.configuration.file_system_settings import current_settings
from pystate.common.files.folders import make_folders
from pystate.common.files.regular_files import open_regular
from pystate.common.files.whole_writes import write_fully
from pystate.core.file_systems.file_info import kind_of, scheme_of
from pystate.core.file_systems.local_files import LocalFolder, open_new

_NO_HARD_LINKS = (errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV)
_CONFLICTS = 5
_RENAMES = 3


class HeldFolder(Protocol):
    """A folder that is held open for operations. If the filesystem supports it, it stays the same even if it is renamed."""

    def odd_entry(self) -> str | None:
        """Return what it contains besides files, in words; None if nothing, or if the filesystem only has files."""

    def open(self, name: str) -> BinaryIO:
        """Open one of its files for reading."""

    def unlink(self, name: str) -> None:
        """Delete one of its files.

        Raises:
            FileNotFoundError: There is none.
        """

    def delete(self, first: str) -> None:
        """Delete the folder and its content, a given file first.

        Raises:
            FileNotFoundError: The folder doesn't exist; not every filesystem detects that.
        """


class Store:
    """A filesystem on which a file appears by rename.

    Args:
        fs: The filesystem.

    Attributes:
        may_repeat: Whether a request may be sent twice, so that an existing name may be our own.
        keeps_directories: Whether empty directories exist.
    """

    may_repeat = False
    keeps_directories = False

    def __init__(self, fs: Any) -> None:
        self.fs = fs

    def exists(self, path: str) -> bool:
        """Whether a path exists."""
        return kind_of(self.fs, path) is not None

    def make_directory(self, path: str) -> None:
        """Make a directory, and those above it; does nothing if it is there."""
        self.fs.makedirs(path, exist_ok=True)

    def open_new(self, path: str) -> BinaryIO:
        """Open a new file for writing; it must not exist."""
        file: BinaryIO = self.fs.open(path, "wb")
        return file

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading."""
        file: BinaryIO = self.fs.open(path, "rb")
        return file

    @contextlib.contextmanager
    def held(self, path: str) -> Iterator[HeldFolder]:
        """Hold a folder open, for operations on it.

        Raises:
            FileNotFoundError: There is none; not every filesystem tells.
        """
        yield _NamedFolder(self, path)

    def make_root(self, path: str) -> None:
        """Create a directory for other directories, to find out early if that fails."""
        self.make_directory(path)

    def temporary_name(self, name: str) -> str:
        """Return the temporary name of a file that gets `name` by `rename`."""
        return f".{name}.inprogress"

    def close(self, file: BinaryIO) -> None:
        """Close a written file so that its bytes survive a crash."""
        file.close()

    def rename(self, temporary: str, final: str) -> None:
        """Rename a written file to a name that isn't in use."""
        self.fs.mv(temporary, final)

    def write_new(self, path: str, data: bytes) -> None:
        """Write a small file atomically, unless one of that name exists.

        Raises:
            FileExistsError: There is one.
        """
        directory, _, name = path.rpartition("/")
        temporary = f"{directory}/.{name}-{secrets.token_hex(4)}.inprogress"
        file = self.open_new(temporary)
        try:
            write_fully(file, data)
            self.close(file)
            self.rename_new(temporary, path)
        except BaseException:
            self.abandon(file, temporary)
            raise

    def create(self, path: str, data: bytes) -> None:
        """Create a small file exclusively: of two concurrent processes, one fails.

        Raises:
            FileExistsError: There is one.
            NotImplementedError: The filesystem can't promise that.
        """
        message = f"{scheme_of(self.fs)} has no known way to make a file only once"
        raise NotImplementedError(message)

    def rename_new(self, temporary: str, final: str) -> None:
        """Rename a written file to a name that must be free; another process may take it between check and rename.

        Raises:
            FileExistsError: It isn't.
        """
        if self.exists(final):
            raise _taken(final)
        self.rename(temporary, final)

    def abandon(self, file: Any, path: str) -> None:
        """Remove a partially written file. Failures are ignored: the original error counts."""
        with contextlib.suppress(Exception):
            file.close()
        with contextlib.suppress(Exception):
            self.fs.rm_file(path)

    def delete_directory(self, path: str) -> None:
        """Delete a directory and its content.

        Raises:
            FileNotFoundError: There is none; not every filesystem tells.
        """
        self.fs.rm(path, recursive=True)


class _NamedFolder:
    """A folder identified by its path.

    Args:
        store: Where it is.
        path: Its path there.
    """

    def __init__(self, store: Store, path: str) -> None:
        self._store = store
        self._path = path.rstrip("/")

    def odd_entry(self) -> str | None:
        """Return None: such filesystems have no links, pipes or devices."""
        return None

    def open(self, name: str) -> BinaryIO:
        """Open one of its files for reading."""
        return self._store.open(f"{self._path}/{name}")

    def unlink(self, name: str) -> None:
        """Delete one of its files."""
        self._store.fs.rm_file(f"{self._path}/{name}")

    def delete(self, first: str) -> None:
        """Delete the folder and its content, a given file first."""
        with contextlib.suppress(FileNotFoundError):
            self.unlink(first)
        self._store.delete_directory(self._path)


class FileStore(Store):
    """A filesystem with hard links and file descriptors. Closed and renamed files survive a power loss."""

    keeps_directories = True

    def close(self, file: BinaryIO) -> None:
        """Sync a file to disk and close it."""
        with file:
            file.flush()
            os.fsync(file.fileno())

    def create(self, path: str, data: bytes) -> None:
        """Create a small file exclusively.

        Raises:
            FileExistsError: There is one.
            NotImplementedError: This filesystem has no hard links.
        """
        temporary = f"{os.path.dirname(path)}/.{os.path.basename(path)}-{secrets.token_hex(4)}.inprogress"
        file = self.open_new(temporary)
        try:
            write_fully(file, data)
            self.close(file)
            if not self._linked(temporary, path):
                if self.exists(path):
                    raise _taken(path)
                message = "this filesystem has no hard links"
                raise NotImplementedError(message)
        finally:
            self.abandon(file, temporary)
        _sync_directory(os.path.dirname(path))

    def rename_new(self, temporary: str, final: str) -> None:
        """Rename a written file to a name that must be free.

        Raises:
            FileExistsError: It isn't.
        """
        if self._linked(temporary, final):
            self.fs.rm_file(temporary)
        else:
            super().rename_new(temporary, final)
        directory = os.path.dirname(final)
        _sync_directory(directory)
        _sync_directory(os.path.dirname(directory))

    def _linked(self, temporary: str, final: str) -> bool:
        """Try a hard link: unlike a rename, it fails if the name is taken, even by a concurrent driver."""
        try:
            self.fs.link(temporary, final)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno in _NO_HARD_LINKS:
                return False
            raise
        return True


class LocalStore(FileStore):
    """Local files. Created files have the modes of the settings, independent of the process's umask."""

    def make_directory(self, path: str) -> None:
        """Make a directory, and those above it; does nothing if it is there."""
        make_folders(path, current_settings().folder_mode)

    def open_new(self, path: str) -> BinaryIO:
        """Open a new file for writing; it must not exist."""
        return open_new(path, current_settings().file_mode)

    def open(self, path: str) -> BinaryIO:
        """Open a regular file for reading; others, such as pipes, aren't opened."""
        return open_regular(path)

    @contextlib.contextmanager
    def held(self, path: str) -> Iterator[HeldFolder]:
        """Hold a folder open, for operations on its content; links aren't followed.

        Raises:
            FileNotFoundError: There is none.
            OSError: It is none, or can't be opened.
        """
        with LocalFolder.opened(path) as folder:
            yield folder


class HdfsStore(Store):
    """HDFS, whose name node only renames to a free name."""

    may_repeat = True
    keeps_directories = True

    def create(self, path: str, data: bytes) -> None:
        """Create a small file exclusively.

        Raises:
            FileExistsError: There is one.
        """
        self.write_new(path, data)

    def rename_new(self, temporary: str, final: str) -> None:
        """Rename a written file to a name that must be free.

        Raises:
            FileExistsError: It isn't.
        """
        for left in reversed(range(_RENAMES)):
            try:
                self.fs.mv(temporary, final)
            except FileExistsError:
                raise
            except OSError:
                if self.exists(final):
                    raise _taken(final) from None
                if not left:
                    raise
                # what had the name may be gone since the name node was asked
            else:
                return


class S3Store(Store):
    """S3: objects, no directories, no rename."""

    may_repeat = True

    def make_directory(self, path: str) -> None:
        """Do nothing: a directory exists as soon as it contains something."""

    def make_root(self, path: str) -> None:
        """Check that the bucket exists.

        Raises:
            OSError: It isn't, or we may not write to it.
        """
        bucket, key, _ = self.fs.split_path(path)
        self.fs.call_s3("list_objects_v2", Bucket=bucket, Prefix=f"{key}/", MaxKeys=1)

    def temporary_name(self, name: str) -> str:
        """Return the name itself."""
        return name

    def rename(self, temporary: str, final: str) -> None:
        """Do nothing."""

    def write_new(self, path: str, data: bytes) -> None:
        """Put an object unless one of that name exists, in one conditional request.

        A service that doesn't know such requests is only looked at first: of two drivers that write at the same moment both
        succeed there.

        Raises:
            FileExistsError: There is one.
        """
        if self.exists(path):
            raise _taken(path)
        try:
            self.create(path, data)
        except NotImplementedError:
            self.fs.pipe_file(path, data)

    def create(self, path: str, data: bytes) -> None:
        """Create an object exclusively, in one conditional request.

        Raises:
            FileExistsError: There is one.
            NotImplementedError: The service says that it doesn't know such requests; others ignore the condition.
        """
        for left in reversed(range(_CONFLICTS)):
            try:
                self.fs.pipe_file(path, data, mode="create")
            except FileExistsError:
                raise _taken(path) from None
            except OSError as error:
                code = s3_code(error)
                if code in ("PreconditionFailed", "412"):
                    raise _taken(path) from None
                if code in ("NotImplemented", "501"):
                    message = "this S3 service doesn't know conditional requests"
                    raise NotImplementedError(message) from None
                if code not in ("ConditionalRequestConflict", "409") or not left:
                    raise
                continue  # another process deletes or writes it at this moment
            return

    def abandon(self, file: Any, path: str) -> None:
        """Abort an upload, so that S3 keeps none of its parts; if the object exists after all, it is deleted."""
        if not file.closed:
            with contextlib.suppress(Exception):
                file.discard()
            file.closed = True  # else the garbage collector would complete it
        with contextlib.suppress(Exception):
            self.fs.rm_file(path)

    def delete_directory(self, path: str) -> None:
        """Delete everything below a prefix, and abort all uploads there, of killed processes.

        Raises:
            FileNotFoundError: There is nothing.
        """
        try:
            self.fs.rm(path, recursive=True)
        finally:
            self._abort_uploads(path)

    def _abort_uploads(self, path: str) -> None:
        bucket, key, _ = self.fs.split_path(path)
        query: dict[str, Any] = {"Bucket": bucket, "Prefix": f"{key.rstrip('/')}/"}
        while True:
            try:
                found = self.fs.call_s3("list_multipart_uploads", **query)
            except OSError as error:
                if isinstance(error, (PermissionError, FileNotFoundError)) or error.errno == errno.ENOSYS:
                    return  # a role may lack this right: the bucket's lifecycle rules delete the parts then
                raise
            for upload in found.get("Uploads") or ():
                with contextlib.suppress(FileNotFoundError):
                    self.fs.abort_mpu(bucket, upload["Key"], upload["UploadId"])
            if not found.get("IsTruncated"):
                return
            query["KeyMarker"], query["UploadIdMarker"] = found["NextKeyMarker"], found["NextUploadIdMarker"]


def store_of(fs: Any) -> Store:
    """Return the store of a filesystem."""
    if type(fs) is LocalFileSystem:
        return LocalStore(fs)
    if isinstance(fs, LocalFileSystem):  # a program's own, which does some things in its way
        return FileStore(fs)
    scheme = scheme_of(fs)
    if scheme == "s3":
        return S3Store(fs)
    return HdfsStore(fs) if scheme == "hdfs" else Store(fs)


def _taken(path: str) -> FileExistsError:
    return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)


def s3_code(error: BaseException) -> str:
    """Return S3's error code."""
    response = getattr(error.__cause__, "response", None) or getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))


def _sync_directory(path: str) -> None:
    """Sync a local directory, so that new names survive a power loss."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
