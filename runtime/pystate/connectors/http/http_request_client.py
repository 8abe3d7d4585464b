"""Sends batches by HTTP, each with a key by which the service recognises one that comes again."""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
import uuid
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import unquote

from pystate.common.errors import ConfigurationError, ExternalSystemError, PystateError
from pystate.common.overrides import override
from pystate.common.text.bounded_text import bounded_text
from pystate.connectors.async_sink.async_sink_settings import AsyncSinkSettings
from pystate.connectors.async_sink.request import Fate, NotDoneError, Outcome, Request, RequestClient
from pystate.connectors.async_sink.retry_delay import retry_delay_s
from pystate.connectors.client_package import imported
from pystate.connectors.http.answers_in_time import pool_manager
from pystate.connectors.secret_url import SecretUrl

NEEDED = "Writing to HTTP needs urllib3, which is not installed."

_LOG = logging.getLogger(__name__)
_MOST_SHOWN = 300
_MOST_SKIPPED = 64 << 10
_MOST_READ = 16 << 20
"""How long an answer may be that tells of each element; another is read so far that its connection is kept."""
_LONGEST_PAUSE_S = 300.0
_LONGEST_ID = 255
_PASSING = {408, 409, 425, 429, 500, 502, 503, 504, 507}
"""Statuses after which the same may be taken later; 409 is what a service says that still does the first one."""
_OF_ELEMENTS = {400, 412, 413, 415, 422, 431}
"""Those that are about what was sent, and not about the sender."""
_GONE = {404, 410}
_PAUSES = "the service has asked for a pause"


@dataclass(frozen=True)
class Call:
    """What an element asks for.

    Attributes:
        method: GET's siblings: POST, PUT, DELETE.
        path: What comes after the URL; nothing for elements that go together.
        body: What is sent.
        record_id: By which the service recognises the element; None for none.
    """

    method: str
    path: str
    body: bytes
    record_id: str | None = None


@dataclass(frozen=True)
class HttpService:
    """The service; pickled into the slots.

    Attributes:
        url: Where it is.
        content_type: Of a body.
        join: Makes the body of a batch.
        headers: More headers.
        header_variables: Those whose values are environment variables of the slots.
        tls: `ca_certs`, `cert_file` and `key_file` for the client.
        failed_of: Makes of an answer which elements of a batch have failed, and whether they are tried again.
    """

    url: SecretUrl
    content_type: str
    join: Callable[[Sequence[bytes]], bytes]
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    header_variables: Mapping[str, str] = field(default_factory=dict)
    tls: Mapping[str, str] = field(default_factory=dict)
    failed_of: Callable[[bytes], Mapping[int, bool]] | None = None

    def all_headers(self) -> dict[str, str]:
        """Return the headers, in a slot.

        Raises:
            ConfigurationError: A variable isn't set.
        """
        found = {"Content-Type": self.content_type, "User-Agent": "pystate", **self.headers}
        for name, variable in self.header_variables.items():
            value = os.environ.get(variable)
            if not value:
                message = f"The environment variable of the header {name} is not set."
                raise ConfigurationError(message, where=variable, hint="set it where slots run, before the job starts")
            found[name] = value.strip()
        for name, value in found.items():
            if not _is_sent_as_it_is(value):
                message = f"The value of the header {name} has characters that HTTP doesn't take."
                raise ConfigurationError(message, hint="printable ASCII, in one line; its value isn't shown here")
        return found


class HttpRequestClient(RequestClient):
    """Sends a batch as one request, and the same again until the service has answered it.

    Args:
        service: The service.
        settings: Timeout and retries.
    """

    def __init__(self, service: HttpService, settings: AsyncSinkSettings) -> None:
        urllib3 = imported("urllib3", NEEDED, "http")
        self._service = service
        self._settings = settings
        self._headers = service.all_headers()
        try:
            url = urllib3.util.parse_url(service.url.read())
        except urllib3.exceptions.LocationParseError:
            url = None
        if url is None or url.scheme not in ("http", "https") or not url.host:
            message = "The URL of the service can't be used."
            raise ConfigurationError(message, where=service.url.place, hint="https://user:password@host/path")
        if url.auth:
            self._headers["Authorization"] = "Basic " + b64encode(unquote(url.auth).encode()).decode()
        self._url = url._replace(auth=None, fragment=None)
        self._errors = urllib3.exceptions
        timeout_s = settings.request_timeout_ms / 1000
        self._closed = threading.Event()
        self._not_before = 0.0
        self._pool: Any = pool_manager(
            urllib3,
            maxsize=settings.max_in_flight_requests,
            timeout=urllib3.Timeout(total=timeout_s),
            retries=False,
            **service.tls,
        )

    @override
    def submit(self, batch: Sequence[Request]) -> Sequence[Outcome | None]:
        calls = [request.payload for request in batch]
        if calls[0].path or calls[0].method != "POST":
            return [self._one(call) for call in calls]
        return self._together(calls)

    @override
    def close(self) -> None:
        self._closed.set()
        self._pool.clear()

    def _one(self, call: Call) -> Outcome | None:
        status, words, _ = self._answered([call])
        if status < 300 or (call.method == "DELETE" and status in _GONE):
            return None
        return self._refusal(status, words)

    def _together(self, calls: Sequence[Call]) -> list[Outcome | None]:
        """Send a batch; one that is refused is sent by halves, so that only the elements that are to blame are left."""
        status, words, data = self._answered(calls)
        if status < 300:
            failed = {} if self._service.failed_of is None else self._service.failed_of(data)
            for place in failed:
                if not isinstance(place, int) or not 0 <= place < len(calls):
                    message = f"set_failed_of(...) names a place that a batch of {len(calls)} does not have: {place!r}"
                    hint = "places are whole numbers from 0 on; JSON has text for the keys of an object: int(place)"
                    raise ExternalSystemError(message, where=self._service.url.shown(), hint=hint)
            return [
                None if place not in failed else Outcome(Fate.RETRY if failed[place] else Fate.REFUSED, words)
                for place in range(len(calls))
            ]
        refusal = self._refusal(status, words)
        if len(calls) == 1:
            return [refusal]
        half = len(calls) // 2
        return [*self._together(calls[:half]), *self._together(calls[half:])]

    def _refusal(self, status: int, words: str) -> Outcome:
        if status not in _OF_ELEMENTS:
            raise self._fault(words)
        return Outcome(Fate.REFUSED, words)

    def _answered(self, calls: Sequence[Call]) -> tuple[int, str, bytes]:
        """Return the status of an answer, the status and what it says in words, and what it says.

        Raises:
            ExternalSystemError: None came, in all tries.
            NotDoneError: The sink was closed.
        """
        service, first = self._service, calls[0]
        headers = {**self._headers, "Idempotency-Key": _idempotency_key(calls)}
        body = first.body if first.path else service.join([call.body for call in calls])
        path = (self._url.path or "").rstrip("/") + first.path if first.path else self._url.path
        url = self._url._replace(path=path).url
        tries = 0
        while True:
            if self._closed.wait(max(0.0, self._not_before - time.monotonic())):
                raise NotDoneError(_PAUSES)
            try:
                answer = self._pool.request(
                    first.method, url, body=body, headers=headers, redirect=False, preload_content=False
                )
                words, data = f"{answer.status} {answer.reason or ''}".strip(), self._body(answer)
                if answer.status not in _PASSING:
                    said = bounded_text(" ".join(data[:_MOST_SHOWN].decode(errors="replace").split()), _MOST_SHOWN)
                    return answer.status, f"{words}: {said}" if said else words, data
                words += self._pause(answer.headers.get("Retry-After"))
            except self._errors.ReadTimeoutError:
                words = f"an answer that had no end after {self._settings.request_timeout_ms:,} ms"
            except self._errors.HTTPError as error:
                words = bounded_text(str(error), _MOST_SHOWN)
            tries += 1
            if tries > self._settings.max_retries:
                words += f", {tries} times"
                raise self._fault(words)
            _LOG.warning("%s: %d elements are sent again: %s", service.url.shown(), len(calls), words)
            if self._closed.wait(retry_delay_s(tries)):
                raise NotDoneError(words)

    def _pause(self, wanted: str | None) -> str:
        """Have all requests wait as long as the service has asked for; return the words for the log."""
        seconds = 0.0 if wanted is None else min(_seconds_of(wanted), _LONGEST_PAUSE_S)
        self._not_before = max(self._not_before, time.monotonic() + seconds)
        return f", and a pause of {seconds:.0f} s" if seconds else ""

    def _body(self, answer: Any) -> bytes:
        """Return what an answer says, or its beginning where nobody asks for more."""
        most = _MOST_SKIPPED if self._service.failed_of is None else _MOST_READ
        data = bytearray()
        while piece := answer.read1(_MOST_SKIPPED):
            data += piece
            if len(data) > most:
                answer.close()
                if self._service.failed_of is None:
                    break
                message = f"an answer of more than {most:,} bytes"
                raise self._errors.HTTPError(message)
        answer.release_conn()
        return bytes(data)

    def _fault(self, words: str) -> PystateError:
        message = f"The service does not take what is sent: {words}"
        hint = "see whether it answers, and whether the URL and the sender's rights are right"
        return ExternalSystemError(message, where=self._service.url.shown(), hint=hint)


def _seconds_of(retry_after: str) -> float:
    """Return how long a service wants to be left alone: it says seconds, or a date; 0 for anything else."""
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0


def _is_sent_as_it_is(value: str) -> bool:
    """Whether a header can have this value."""
    return value.isascii() and value.isprintable()


def _idempotency_key(calls: Sequence[Call]) -> str:
    """Return a key that the same elements have again, if they have ids; otherwise these tries alone."""
    ids = [call.record_id for call in calls]
    if None in ids:
        return str(uuid.uuid4())
    if len(ids) == 1 and _is_sent_as_it_is(first := str(ids[0])) and len(first) <= _LONGEST_ID:
        return first
    return hashlib.sha256(repr(ids).encode()).hexdigest()
