"""HDFS over WebHDFS: fsspec's filesystem, with additional checks of answers.

WebHDFS answers `false` if a rename or mkdir has failed, and an error of a data node comes as an answer with a body. Requests
have a timeout and are retried; of several name nodes the active one is asked.
"""

from __future__ import annotations

import errno
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

import requests
from fsspec.implementations.webhdfs import WebHDFS
from fsspec.spec import AbstractBufferedFile
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from pystate.common.configuration.file_system_settings import current_settings
from pystate.core.file_systems.kerberos import KerberosLogin, NegotiateAuth, asks_for_proof
from pystate.core.file_systems.strict_existence import StrictExistence

BLOCK_BYTES = 16 << 20
"""The number of bytes that one request writes or reads ahead."""

_BROKEN_STATUSES = (502, 503, 504)
_STANDBY = "StandbyException"
_ERRORS: dict[str, type[OSError]] = {
    "FileNotFoundException": FileNotFoundError,
    "FileAlreadyExistsException": FileExistsError,
    "ParentNotDirectoryException": NotADirectoryError,
    "AccessControlException": PermissionError,
    "SecurityException": PermissionError,
}


class _StandbyError(OSError):
    """A name node is in standby; another one is active."""


class _Adapter(HTTPAdapter):
    """Adds a timeout and retries to requests.

    Args:
        timeout_s: The timeout without data.
        max_retries: The number of retries; after connecting, only idempotent requests are retried, never appends.
    """

    def __init__(self, timeout_s: float, max_retries: int) -> None:
        self._timeout_s = timeout_s
        super().__init__(
            max_retries=Retry(
                total=max_retries,
                backoff_factor=0.2,
                status_forcelist=_BROKEN_STATUSES,
                raise_on_status=False,
            )
        )

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: bool | str = True,
        cert: Any = None,
        proxies: dict[str, str] | None = None,
    ) -> requests.Response:
        """Send a request."""
        return super().send(request, stream, timeout or self._timeout_s, verify, cert, proxies)


class WebHdfsFileSystem(StrictExistence, WebHDFS):  # type: ignore[misc]
    """WebHDFS of one cluster.

    Args:
        addresses: `host:port` or `https://host:port` of its name nodes, or of HttpFS.
        user: The user name for clusters without authentication; None for none.
        login: Who one is for clusters with Kerberos.
        requires_kerberos: Whether Hadoop's settings ask for it; the servers may, too.
        timeout_s: The timeout without data.
        max_retries: The number of retries.
        why_not_libhdfs: Why libhdfs isn't used, for errors.
    """

    protocol = "hdfs"
    cachable = False

    def __init__(
        self,
        addresses: tuple[str, ...],
        user: str | None,
        login: KerberosLogin,
        requires_kerberos: bool,
        timeout_s: float,
        max_retries: int,
        why_not_libhdfs: str,
    ) -> None:
        self._login = login
        self._negotiate = NegotiateAuth(login, required=requires_kerberos)
        self._adapter = (timeout_s, max_retries)
        self._why_not_libhdfs = why_not_libhdfs
        self._urls = [address if "://" in address else f"http://{address}" for address in addresses]
        super().__init__(self._urls[0], 0, user=None if requires_kerberos else user)
        self.url = f"{self._urls[0].rstrip('/')}/webhdfs/v1"

    def _connect(self) -> None:
        super()._connect()
        for scheme in ("http://", "https://"):
            self.session.mount(scheme, _Adapter(*self._adapter))
        self.session.auth = self._negotiate

    @property
    def kerberos_login(self) -> KerberosLogin | None:
        """Who one is for the cluster; None where it hasn't asked for Kerberos."""
        return self._login if self._negotiate.required else None

    def _call(
        self, op: str, method: str = "get", path: str | None = None, data: Any = None, redirect: bool = True, **kwargs: Any
    ) -> Any:
        """Send a request to the active name node.

        Raises:
            OSError: It refuses, or there is none.
        """
        problems = []
        for url in list(self._urls):
            query = {**kwargs, **self.pars, "op": op.upper()}
            target = f"{url.rstrip('/')}/webhdfs/v1{quote(path or '/', safe='/=')}"
            try:
                return self.checked(method, target, params=query, data=data, allow_redirects=redirect)
            except _StandbyError as error:
                problems.append(f"{url}: {error}")
            except ConnectionError as error:
                problems.append(str(error))
            if self._urls[0] == url and len(self._urls) > 1:
                self._urls = [*self._urls[1:], url]  # the next request begins with another one
        message = f"HDFS can't be reached. libhdfs: {self._why_not_libhdfs}. WebHDFS: {'; '.join(problems)}"
        raise ConnectionError(message)

    def checked(self, method: str, url: str, **options: Any) -> Any:
        """Send a request; return the answer unless it is an error.

        Raises:
            OSError: It does, or there is none.
            StorageError: Kerberos has no proof of who one is, or the server doesn't accept it.
        """
        place = "/".join(url.split("/", 3)[:3])
        try:
            answer = self._answer(method, url, options)
        except requests.RequestException as error:
            reason = getattr(error.args[0], "reason", error) if error.args else error
            message = f"{place} does not answer: {type(error).__name__}: {reason}"
            raise ConnectionError(message) from None
        if answer.status_code < 400:
            return answer
        try:
            remote = answer.json()["RemoteException"]
            kind, message = str(remote["exception"]), str(remote["message"]).split("\n", 1)[0]
        except (ValueError, KeyError, TypeError):
            if answer.status_code in (401, 403) and "Authorization" in answer.request.headers:
                self._login.refuse(place, answer.reason)
            message = f"WebHDFS answered {answer.status_code} {answer.reason}"
            raise OSError(errno.EREMOTEIO, message) from None
        if kind == _STANDBY:
            raise _StandbyError(message)
        if kind in _ERRORS:
            raise _ERRORS[kind](message)
        raise OSError(errno.EREMOTEIO, f"{kind}: {message}")

    def _answer(self, method: str, url: str, options: dict[str, Any]) -> requests.Response:
        """Send a request, again with a proof of who one is if the server asks for it."""
        answer: requests.Response = self.session.request(method.upper(), url, **options)
        if not asks_for_proof(answer):
            return answer
        # Hadoop's settings don't say so, or the server's cookie has expired
        self._negotiate.required = True
        self.session.cookies.clear()
        self.pars.pop("user.name", None)
        options.get("params", {}).pop("user.name", None)
        answer = self.session.request(method.upper(), url, **options)
        return answer

    # -- what fsspec takes for granted

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path

    @staticmethod
    def _process_info(info: dict[str, Any]) -> dict[str, Any]:
        modified = datetime.fromtimestamp(info["modificationTime"] / 1000, timezone.utc)
        info.update(type=info["type"].lower(), size=info["length"], mtime=modified)
        return info

    def ls(self, path: str, detail: bool = False, **_: Any) -> Any:
        """List a directory, or a file."""
        found = super().ls(path, detail=True)
        for entry in found:
            entry["name"] = entry["name"].rstrip("/")
        return found if detail else [entry["name"] for entry in found]

    def mkdir(self, path: str, **_: Any) -> None:
        """Make a directory, and those above it."""
        mode = f"{current_settings().folder_mode:o}"
        if not self._call("MKDIRS", "put", path, permission=mode).json()["boolean"]:
            raise OSError(errno.EIO, "the name node did not make the directory")

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Make a directory, and those above it."""
        if not exist_ok and self.exists(path):
            raise FileExistsError(errno.EEXIST, "it is there already", path)
        self.mkdir(path)

    def mv(self, path1: str, path2: str, **_: Any) -> None:
        """Rename to a free name: HDFS never replaces by a rename.

        Raises:
            FileExistsError: It isn't free.
        """
        if self._call("RENAME", "put", path1, destination=path2).json()["boolean"]:
            return
        if self.exists(path2):
            raise FileExistsError(errno.EEXIST, "it is there already", path2)
        raise OSError(errno.EIO, "the name node did not rename it", path1)

    def rm(self, path: str, recursive: bool = False, **_: Any) -> None:
        """Delete a file, or a directory with its content; does nothing if it is gone already."""
        self._call("DELETE", "delete", path, recursive="true" if recursive else "false")

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **_: Any) -> Any:
        return _File(self, path, mode, block_size or BLOCK_BYTES)

    def transfer(self, op: str, method: str, path: str, data: bytes | None = None, **kwargs: Any) -> bytes:
        """Send bytes to, or get them from, the data node given by the name node."""
        answer = self._call(op, method, path, redirect=False, **kwargs)
        if "Location" in answer.headers:
            options = {} if data is None else {"data": data, "headers": {"content-type": "application/octet-stream"}}
            answer = self.checked(method, answer.headers["Location"], **options)
        content: bytes = answer.content
        return content


class _File(AbstractBufferedFile):  # type: ignore[misc]
    """A file that is read, or written, block by block."""

    def _initiate_upload(self) -> None:
        self._created = False

    def _upload_chunk(self, final: bool = False) -> bool:
        data: bytes = self.buffer.getvalue()  # type: ignore[attr-defined]
        if not self._created:
            mode = f"{current_settings().file_mode:o}"
            self.fs.transfer("CREATE", "put", self.path, data, overwrite="true", createparent="false", permission=mode)
            self._created = True
        elif data:
            self.fs.transfer("APPEND", "post", self.path, data)
        return True

    def _fetch_range(self, start: int, end: int) -> bytes:
        start, end = max(start, 0), min(end, self.size)
        if start >= end:
            return b""
        data: bytes = self.fs.transfer("OPEN", "get", self.path, offset=start, length=end - start)
        if len(data) != end - start:
            raise OSError(errno.EIO, f"{len(data)} bytes came instead of {end - start}")
        return data

    def discard(self) -> None:
        """Give up writing; the caller deletes what was written."""
        self.buffer = None
        self.closed = True
