"""The REST client of the job manager."""

from __future__ import annotations

import http.client
import json
import logging
from typing import TYPE_CHECKING, Any, TypeVar

import pystate
from pystate.common.errors import ControlError, PystateError, error_from_dict
from pystate.common.processes.machine_load import busy_sentence
from pystate.common.processes.processes import is_stopped
from pystate.runtime.rest.cluster_messages import StandbyConfiguration
from pystate.runtime.rest.message import RestMessage

if TYPE_CHECKING:
    import ssl

logger = logging.getLogger(__name__)

Message = TypeVar("Message", bound=RestMessage)

INSTANCE_HEADER = "pystate-instance"
CLIENT_HEADER = "pystate-client"
"""Asks for errors with their place and hint."""
VERSION = pystate.__version__
_JOBS_GO_ON = "Its jobs go on without it."
BACK_AGAIN = "pystate cluster start brings it back, and it finds its jobs again"
_WHERE_IT_IS = "pystate cluster status shows where this home's is; -m HOST:PORT names another one"


class SilentJobManagerError(ControlError):
    """The job manager doesn't answer; the request may have been processed."""


class NoJobManagerError(SilentJobManagerError):
    """No process, or another program, answers at the job manager's address."""


class RestError(PystateError):
    """An error answer of the job manager without a pystate error in it.

    Args:
        message: The message.
        status: The HTTP status code.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class RestClient:
    """A connection to one job manager, kept open between calls.

    Args:
        host: Its address.
        port: Its port.
        timeout: Seconds an answer may take.
        token: The token of its home. Sent to a server that has shown the instance's mark, else only where it is asked for:
            by routes of ours, and by what changes something.
        instance: What its answers must be marked with; None takes any.
        rest_token: The token that the options name, shown with every request in place of the home's.
        tls: How to speak TLS; None for none.
        pid: Its process, where that is one of this machine.
        prefix: The path below which a proxy serves it; empty for none.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        timeout: float,
        token: str | None = None,
        instance: str | None = None,
        rest_token: str | None = None,
        tls: ssl.SSLContext | None = None,
        pid: int | None = None,
        prefix: str = "",
    ) -> None:
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._token = token
        self._rest_token = rest_token
        self._tls = tls
        self._pid = pid
        self._prefix = prefix
        self._timeout = timeout
        self._instance = instance
        self._peer = (host, port)
        self._connection = self._new_connection()

    @property
    def url(self) -> str:
        """The URL of the job manager."""
        return f"{'http' if self._tls is None else 'https'}://{self.address}{self._prefix}"

    def another(self) -> RestClient:
        """Return a client with its own connection, for another thread."""
        host, port = self._peer
        return RestClient(
            host,
            port,
            timeout=self._timeout,
            token=self._token,
            instance=self._instance,
            rest_token=self._rest_token,
            tls=self._tls,
            pid=self._pid,
            prefix=self._prefix,
        )

    def is_there(self) -> bool:
        """Return whether the job manager answers with its mark, even with an error.

        Raises:
            ControlError: The connection is accepted, but there is no answer.
        """
        try:
            self.get("/config", StandbyConfiguration)
        except NoJobManagerError:
            return False
        except ControlError:
            raise
        except PystateError as error:
            logger.debug("%s: %s", self.address, error.message)
        return True

    def get(self, path: str, kind: type[Message]) -> Message:
        """Return the resource at a path."""
        return kind.from_plain(self._json("GET", path, None))

    def get_list(self, path: str, kind: type[Message]) -> list[Message]:
        """Return the elements of the resource at a path."""
        return [kind.from_plain(one) for one in self._json("GET", path, None)]

    def post(self, path: str, body: RestMessage, kind: type[Message]) -> Message:
        """Send a POST and return the answer."""
        return kind.from_plain(self._json("POST", path, body.to_plain()))

    def patch(self, path: str) -> None:
        """Send a PATCH without a body."""
        self._json("PATCH", path, None)

    def delete(self, path: str) -> None:
        """Send a DELETE."""
        self._json("DELETE", path, None)

    def read(self, path: str) -> tuple[bytes, bool]:
        """Return a piece of a job's output, and whether it is the last one."""
        data, headers = self._exchange("GET", path, None)
        return data, headers.get("pystate-ended") == "true"

    def _json(self, method: str, path: str, body: Any) -> Any:
        data, _ = self._exchange(method, path, body)
        return json.loads(data)

    def _exchange(self, method: str, path: str, body: Any) -> tuple[bytes, http.client.HTTPMessage]:
        headers = {"Content-Type": "application/json", CLIENT_HEADER: VERSION}
        token = self._rest_token
        if token is None and (method != "GET" or path.startswith("/pystate/") or self._instance is not None):
            token = self._token
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        data = None if body is None else json.dumps(body).encode()
        if method != "GET":
            self._connection.close()  # a kept connection may be stale, and only a GET may be repeated
        try:
            try:
                response, content = self._send(method, path, data, headers)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                if method != "GET":
                    raise
                response, content = self._send(method, path, data, headers)
        except TimeoutError as error:
            message = f"The job manager at {self.address} did not answer within {self._timeout:g} s."
            hint = f"{busy_sentence() or 'look at its log'}; client.timeout sets how long to wait"
            if self._pid is not None and is_stopped(self._pid):
                hint = f"its process {self._pid} is stopped: kill -CONT {self._pid} lets it go on"
            raise SilentJobManagerError(message, hint=hint) from error
        except (OSError, http.client.HTTPException) as error:
            message = f"No job manager answers at {self.address}: {error}"
            if self._instance is None:  # of a peer that is known only by its address
                raise NoJobManagerError(message, hint=_WHERE_IT_IS) from error
            told = f"{message}. {_JOBS_GO_ON}"
            raise NoJobManagerError(told, hint=BACK_AGAIN) from error
        if self._instance is not None and response.headers.get(INSTANCE_HEADER) != self._instance:
            message = f"Another program than this home's job manager answers at {self.address}."
            raise NoJobManagerError(message, hint=_WHERE_IT_IS)
        if response.status >= 400:
            raise _error_of(response.status, content, self.address)
        return content, response.headers

    def _send(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        try:
            self._connection.request(method, self._prefix + path, body=data, headers=headers)
            response = self._connection.getresponse()
            return response, response.read()
        except BaseException:
            # an incomplete exchange, e.g. after Ctrl-C, stays in the connection's buffer even when it is closed
            self._connection.close()
            self._connection = self._new_connection()
            raise

    def _new_connection(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(*self._peer, timeout=self._timeout)
        return http.client.HTTPSConnection(*self._peer, timeout=self._timeout, context=self._tls)


def _error_of(status: int, content: bytes, address: str) -> PystateError:
    try:
        body = json.loads(content)
        ours = body.get("pystate")
        if isinstance(ours, dict):
            return error_from_dict(ours)
        # the first line of a Java stack trace is its message
        message = str(body["errors"][0]).splitlines()[0]
    except (ValueError, RecursionError, KeyError, IndexError, AttributeError, TypeError):
        message = f"{address} answers with HTTP status {status} and no explanation; it may not be a job manager."
    return RestError(message, status)
