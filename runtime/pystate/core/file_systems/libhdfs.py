"""HDFS through libhdfs: by pyarrow's filesystem, and by libhdfs directly where pyarrow's behaviour is unsuitable.

pyarrow's rename deletes an existing target, its path lookup reports a missing file when the lookup fails, and its deletion
doesn't report that a file is already gone. libhdfs creates the parent directories of a new file.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import os
import sys
from collections.abc import Iterator
from typing import Any

from fsspec.implementations.arrow import ArrowFile, HadoopFileSystem

from pystate.common.configuration.file_system_settings import current_settings
from pystate.core.file_systems.strict_existence import StrictExistence

READ_AHEAD_BYTES = 1 << 20
WRITE_BUFFER_BYTES = 1 << 20
OPTIONS_VARIABLE = "LIBHDFS_OPTS"
"""The environment variable with the options of the JVM that libhdfs starts."""

_CLUSTERS_OWN_REPLICATION = 0
_KEEP_SIGNALS = "-Xrs"
_UMASK = "fs.permissions.umask-mode"
_LIBRARY = "libhdfs.dylib" if sys.platform == "darwin" else "libhdfs.so"

_started_by: int | None = None


def keep_java_apart() -> None:
    """Keep the JVM that libhdfs starts from changing this process's signal handlers.

    Raises:
        OSError: It runs in the process that this one was forked from: it can't be used here, nor another one started.
    """
    global _started_by  # noqa: PLW0603 - a process has one Java
    if _started_by not in (None, os.getpid()):
        message = "this process was forked from one that uses libhdfs"
        raise OSError(message)
    _started_by = os.getpid()
    options = os.environ.get(OPTIONS_VARIABLE, "").split()
    if _KEEP_SIGNALS not in options:
        os.environ[OPTIONS_VARIABLE] = " ".join([*options, _KEEP_SIGNALS])


class LibHdfsFileSystem(StrictExistence, HadoopFileSystem):  # type: ignore[misc]
    """HDFS of one cluster.

    Args:
        host: The name node, or the name of a name service; `default` for that of Hadoop's settings.
        port: The name node's port; 0 for the default.
        user: The user name for clusters without authentication; None for Hadoop's default.

    Raises:
        OSError: libhdfs, Java or Hadoop's classes aren't found.
    """

    cachable = False

    def __init__(self, host: str, port: int, user: str | None) -> None:
        keep_java_apart()
        super().__init__(
            host=host,
            port=port,
            user=user,
            replication=_CLUSTERS_OWN_REPLICATION,
            extra_conf={_UMASK: f"{current_settings().umask:03o}"},
        )
        self._library = _Library(host, port, user)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return information about a file or a directory.

        Raises:
            FileNotFoundError: Nothing is there.
            OSError: It can't be told.
        """
        while True:
            try:
                found: dict[str, Any] = super().info(path)
            except FileNotFoundError:
                if not self._library.exists(path):
                    raise
                continue  # it was made in between
            return found

    def ls(self, path: str, detail: bool = False, **_: Any) -> Any:
        """List a directory, or a file."""
        one = self.info(path)
        if one["type"] == "file":
            return [one] if detail else [one["name"]]
        with self._library.causes():
            return super().ls(path, detail=detail)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Make a directory, and those above it."""
        if not exist_ok and self.exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        with self._library.causes():
            super().makedirs(path, exist_ok=True)

    def mv(self, path1: str, path2: str, **_: Any) -> None:
        """Rename to a free name: HDFS never replaces by a rename.

        Raises:
            FileExistsError: It isn't free.
        """
        try:
            self._library.rename(path1, path2)
        except OSError:
            if self.exists(path2):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path2) from None
            raise

    def rm_file(self, path: str) -> None:
        """Delete a file.

        Raises:
            FileNotFoundError: There is none.
        """
        with self._library.causes():
            try:
                super().rm_file(path)
            except FileNotFoundError:
                raise
            except OSError:
                if not self.exists(path):
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None
                raise

    def rm(self, path: str, recursive: bool = False, **_: Any) -> None:
        """Delete a file, or a directory with its content.

        Raises:
            FileNotFoundError: There is none.
        """
        if self.info(path)["type"] != "directory":
            self.rm_file(path)
            return
        with self._library.causes():
            super().rm(path, recursive=recursive)

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, seekable: bool = True, **_: Any) -> Any:
        if mode not in ("rb", "wb"):
            message = f"files of HDFS are read and written here, not opened with {mode!r}"
            raise ValueError(message)
        if mode == "rb":
            with self._library.causes():
                return io.BufferedReader(super()._open(path, mode, block_size, seekable), READ_AHEAD_BYTES)
        directory = path.rpartition("/")[0] or "/"
        if not self.exists(directory):  # a late writer must not recreate a deleted directory
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), directory)
        with self._library.causes():
            stream = self.fs.open_output_stream(path, compression=None, buffer_size=WRITE_BUFFER_BYTES)
        return ArrowFile(self, stream, path, mode)


class _Library:
    """The functions of libhdfs that pyarrow lacks, over a separate connection.

    Args:
        host: See `LibHdfsFileSystem`; pyarrow has loaded the library.
        port: Likewise.
        user: Likewise.

    Raises:
        OSError: It can't be reached.
    """

    def __init__(self, host: str, port: int, user: str | None) -> None:
        self._functions = _loaded()
        self._declare("hdfsNewBuilder", ctypes.c_void_p)
        self._declare("hdfsBuilderSetForceNewInstance", None, ctypes.c_void_p)
        self._declare("hdfsBuilderSetNameNode", None, ctypes.c_void_p, ctypes.c_char_p)
        self._declare("hdfsBuilderSetNameNodePort", None, ctypes.c_void_p, ctypes.c_uint16)
        self._declare("hdfsBuilderSetUserName", None, ctypes.c_void_p, ctypes.c_char_p)
        self._declare("hdfsBuilderConnect", ctypes.c_void_p, ctypes.c_void_p)
        self._declare("hdfsExists", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
        self._declare("hdfsRename", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
        self._tells_causes = hasattr(self._functions, "hdfsGetLastExceptionRootCause")  # since Hadoop 3
        if self._tells_causes:
            self._declare("hdfsGetLastExceptionRootCause", ctypes.c_char_p)
        self._file_system = self._connected(host, port, user)

    def exists(self, path: str) -> bool:
        """Return whether something is there.

        Raises:
            OSError: It can't be told.
        """
        try:
            self._call("hdfsExists", "look at", path)
        except FileNotFoundError:
            return False
        return True

    def rename(self, old: str, new: str) -> None:
        """Rename a file to a free name, as the name node does.

        Raises:
            OSError: It did not.
        """
        self._call("hdfsRename", "rename", old, new)

    @contextlib.contextmanager
    def causes(self) -> Iterator[None]:
        """Add Hadoop's message to an error of pyarrow."""
        try:
            yield
        except (FileNotFoundError, FileExistsError):
            raise
        except OSError as error:
            cause = self._last_cause()
            if cause is None:
                raise
            raise OSError(error.errno or errno.EIO, cause) from error

    def _connected(self, host: str, port: int, user: str | None) -> int:
        builder = self._functions.hdfsNewBuilder()
        self._functions.hdfsBuilderSetForceNewInstance(builder)  # one that others share may be closed by them
        name_node = host.encode()  # the builder keeps the pointer
        self._functions.hdfsBuilderSetNameNode(builder, name_node)
        self._functions.hdfsBuilderSetNameNodePort(builder, port)
        user_name = None if user is None else user.encode()
        if user_name is not None:
            self._functions.hdfsBuilderSetUserName(builder, user_name)
        connection: int | None = self._functions.hdfsBuilderConnect(builder)
        if connection is None:
            raise self._error(host, "connect to")
        return connection

    def _call(self, function: str, action: str, *paths: str) -> None:
        if getattr(self._functions, function)(self._file_system, *(path.encode() for path in paths)) != 0:
            raise self._error(paths[0], action)

    def _error(self, what: str, action: str) -> OSError:
        number = ctypes.get_errno()
        known = number in errno.errorcode  # libhdfs has a number of its own for what it doesn't know
        reason = self._last_cause() or (os.strerror(number) if known else "libhdfs has said why on the standard error")
        return OSError(number if known else errno.EIO, f"HDFS did not {action} it: {reason}", what)

    def _last_cause(self) -> str | None:
        """Return Hadoop's message about the last call of this thread; None if there is none."""
        cause: bytes | None = self._functions.hdfsGetLastExceptionRootCause() if self._tells_causes else None
        return None if not cause else cause.decode("utf-8", "replace").split("\n", 1)[0]

    def _declare(self, name: str, result: Any, *arguments: Any) -> None:
        function = getattr(self._functions, name)
        function.restype, function.argtypes = result, arguments


def _loaded() -> ctypes.CDLL:
    """Return the library that pyarrow has loaded, by pyarrow's search order.

    Raises:
        OSError: It isn't found again.
    """
    home, own = os.environ.get("HADOOP_HOME"), os.environ.get("ARROW_LIBHDFS_DIR")
    folders = [None, ".", None if home is None else f"{home}/lib/native", own]
    for folder in folders:
        path = _LIBRARY if folder is None else f"{folder}/{_LIBRARY}"
        with contextlib.suppress(OSError):
            return ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_NOLOAD, use_errno=True)
    message = f"pyarrow has loaded a {_LIBRARY} that is not where it looks for one"
    raise OSError(message)
