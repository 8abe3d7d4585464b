"""`HttpSink`: posts a stream to a service, or keeps a resource for each key."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any
from urllib.parse import quote

from pystate.common.errors import ConfigurationError, RecordError
from pystate.common.overrides import override
from pystate.common.row import Row, RowKind
from pystate.common.serialization import SerializationSchema
from pystate.common.text.bounded_text import shown
from pystate.connectors.async_sink.async_sink import AsyncSink, AsyncSinkBuilder
from pystate.connectors.async_sink.async_sink_settings import AsyncSinkSettings
from pystate.connectors.async_sink.element_key import KeyPart, key_function
from pystate.connectors.async_sink.refused_elements import RefusedElements
from pystate.connectors.async_sink.request import Request, RequestClient
from pystate.connectors.client_package import client_findings
from pystate.connectors.early_check import EarlyFinding, SupportsEarlyCheck
from pystate.connectors.http.http_request_client import NEEDED, Call, HttpRequestClient, HttpService
from pystate.connectors.secret_url import SecretUrl

_NO_NAMES = (".", "..")  # also with percent signs: RFC 3986 has them removed


class HttpBodyFormat(Enum):
    """How the elements of a batch are one body."""

    JSON_ARRAY = "application/json"
    JSON_LINES = "application/x-ndjson"


class HttpSink(AsyncSink, SupportsEarlyCheck):
    """Sends batches by POST; or a PUT for each element and a DELETE for each row that goes. Made by `builder()`.

    Args:
        service: The service.
        value: Makes a body from an element.
        key: Makes the key whose order is kept; None for no order.
        resources: Whether each key is a resource.
        record_id: Makes what the service recognises an element by.
        settings: Sizes, times, retries.
        refused: What is done with elements that the service refuses.
    """

    def __init__(
        self,
        service: HttpService,
        value: Callable[[Any], Any],
        key: Callable[[Any], Any] | None,
        *,
        resources: bool,
        record_id: Callable[[Any], Any] | None,
        settings: AsyncSinkSettings,
        refused: RefusedElements,
    ) -> None:
        super().__init__(settings, refused)
        self.service = service
        self.replaces = resources
        self._value = value
        self._key = key
        self._record_id = record_id

    @staticmethod
    def builder() -> HttpSinkBuilder:
        """Return a builder."""
        return HttpSinkBuilder()

    @property
    @override
    def guarantee_reason(self) -> str:
        if self.replaces:
            return "effectively exactly-once by key: what is put again after a failure leaves each resource the same"
        if self._record_id is None:
            return "flushed at each checkpoint; what comes after it is posted again after a failure"
        if self.settings.max_batch_size > 1:
            return "what is posted again after a failure comes in other batches, with other keys of idempotency"
        return "effectively exactly-once, if the service does nothing for an Idempotency-Key that it knows"

    @override
    def early_findings(self) -> Iterator[EarlyFinding]:
        return client_findings("urllib3", NEEDED, "http", in_slots=True)

    @override
    def shown(self) -> str:
        return self.service.url.shown()

    @override
    def create_client(self) -> RequestClient:
        return HttpRequestClient(self.service, self.settings)

    @override
    def request_of(self, element: Any, timestamp: int | None) -> Request | None:
        kind = element.get_row_kind() if isinstance(element, Row) else RowKind.INSERT
        if kind is not RowKind.INSERT and not self.replaces:
            message = f"What is posted only grows, and {shown(element)} is a {kind.name}."
            raise RecordError(message, hint="set_resource_key(...) has the service replace and delete by key")
        if kind is RowKind.UPDATE_BEFORE:
            return None
        found = None if self._key is None else self._key(element)
        key = None if found is None else str(found)
        record_id = None if self._record_id is None else str(self._record_id(element))
        if not self.replaces:
            body = _as_body(self._value(element))
            return Request(key, Call("POST", "", body, record_id), len(body), body)
        if not key:
            message = f"An element has no key: {shown(element)}"
            raise RecordError(message, hint="set_resource_key(...) names the fields of the key, or makes it")
        if key in _NO_NAMES:
            message = f"No resource can be named {key!r}: in a URL that is a folder. {shown(element)}"
            raise RecordError(message, hint="set_resource_key(lambda row: ...) makes another key")
        path = "/" + quote(key, safe="")
        if kind is RowKind.DELETE:
            return Request(key, Call("DELETE", path, b"", record_id), len(path), path.encode())
        body = _as_body(self._value(element))
        return Request(key, Call("PUT", path, body, record_id), len(body), body)


class HttpSinkBuilder(AsyncSinkBuilder):
    """Makes an `HttpSink`."""

    def __init__(self) -> None:
        super().__init__()
        self._place: dict[str, str | None] = {"text": None, "variable": None, "file": None}
        self._format = HttpBodyFormat.JSON_ARRAY
        self._content_type: str | None = None
        self._value: Callable[[Any], Any] = _JsonOfElement()
        self._headers: dict[str, str] = {}
        self._header_variables: dict[str, str] = {}
        self._key: Callable[[Any], Any] | None = None
        self._resource_key: Callable[[Any], Any] | None = None
        self._record_id: Callable[[Any], Any] | None = None
        self._tls: dict[str, str] = {}
        self._failed_of: Callable[[bytes], Mapping[int, bool]] | None = None

    def set_url(self, url: str) -> HttpSinkBuilder:
        """Set the URL: `https://user:password@host/path`."""
        self._place["text"] = url
        return self

    def set_url_variable(self, name: str) -> HttpSinkBuilder:
        """Take the URL from an environment variable of the slots, so that the program doesn't contain the password."""
        self._place["variable"] = name
        return self

    def set_url_file(self, path: str) -> HttpSinkBuilder:
        """Take the URL from a file where slots run."""
        self._place["file"] = path
        return self

    def set_header(self, name: str, value: str) -> HttpSinkBuilder:
        """Set a header of each request. Its value is never shown, but is in the program."""
        self._headers[name] = value
        return self

    def set_header_variable(self, name: str, variable: str) -> HttpSinkBuilder:
        """Take the value of a header from an environment variable of the slots: `("Authorization", "API_TOKEN")`."""
        self._header_variables[name] = variable
        return self

    def set_value(self, value: SerializationSchema | Callable[[Any], Any]) -> HttpSinkBuilder:
        """Set what makes a body of an element: bytes, text, or what JSON takes. Without it, rows are JSON objects."""
        self._value = value.serialize if isinstance(value, SerializationSchema) else value
        return self

    def set_body_format(self, body_format: HttpBodyFormat) -> HttpSinkBuilder:
        """Set how the elements of a batch are one body; an array of JSON if it isn't set."""
        if not isinstance(body_format, HttpBodyFormat):
            message = f"set_body_format() takes an HttpBodyFormat, not {body_format!r}."
            raise ConfigurationError(message, hint="HttpBodyFormat.JSON_LINES is one")
        self._format = body_format
        return self

    def set_content_type(self, content_type: str) -> HttpSinkBuilder:
        """Set the content type; without it, that of the format."""
        self._content_type = content_type
        return self

    def set_key(self, *fields: KeyPart) -> HttpSinkBuilder:
        """Set the key whose elements are posted in their order: fields, or a function. Without it, batches may overtake."""
        self._key = key_function("set_key", fields)
        return self

    def set_resource_key(self, *fields: KeyPart) -> HttpSinkBuilder:
        """Have each key be a resource below the URL: elements are put there, and rows of the kind DELETE delete it."""
        self._resource_key = key_function("set_resource_key", fields)
        return self

    def set_record_id(self, record_id: Callable[[Any], Any]) -> HttpSinkBuilder:
        """Set what makes an id of an element, which no other one has: the `Idempotency-Key` is made of ids."""
        self._record_id = record_id
        return self

    def set_failed_of(self, failed_of: Callable[[bytes], Mapping[int, bool]]) -> HttpSinkBuilder:
        """Set what reads from the body of an answer which elements of the batch have failed.

        Args:
            failed_of: Returns places in the batch, from 0, and for each whether it is tried again (True) or refused.
        """
        self._failed_of = failed_of
        return self

    def set_tls(
        self, *, ca_file: str | None = None, cert_file: str | None = None, key_file: str | None = None
    ) -> HttpSinkBuilder:
        """Set PEM files of the slots: whom to trust instead of the system's authorities, and who the sink is."""
        files = {"ca_certs": ca_file, "cert_file": cert_file, "key_file": key_file}
        self._tls = {name: path for name, path in files.items() if path is not None}
        return self

    def build(self) -> HttpSink:
        """Return the sink.

        Raises:
            ConfigurationError: A setting is missing, or they don't go together.
        """
        url = SecretUrl("a service", self._place["text"], self._place["variable"], self._place["file"])
        resources = self._resource_key is not None
        if resources and (self._key is not None or self._failed_of is not None):
            message = "A resource is its own request: it has its key, and its own answer."
            raise ConfigurationError(message, hint="leave set_key(...) and set_failed_of(...) out")
        joins = _json_lines if self._format is HttpBodyFormat.JSON_LINES else _json_array
        content_type = self._content_type or ("application/json" if resources else self._format.value)
        headers, variables = self._headers, self._header_variables
        service = HttpService(url, content_type, joins, headers, variables, self._tls, self._failed_of)
        return HttpSink(
            service,
            self._value,
            self._resource_key if resources else self._key,
            resources=resources,
            record_id=self._record_id,
            settings=self._settings(),
            refused=self._refused,
        )


class _JsonOfElement:
    """Makes what JSON takes of a row."""

    def __call__(self, element: Any) -> Any:
        return element.as_dict() if isinstance(element, Row) and element.field_names() else element


def _json_array(bodies: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(bodies) + b"]"


def _json_lines(bodies: Sequence[bytes]) -> bytes:
    return b"".join(body + b"\n" for body in bodies)


def _as_body(value: Any) -> bytes:
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    try:
        text = value if isinstance(value, str) else json.dumps(value, default=_plain, allow_nan=False)
        return text.encode()
    except (TypeError, ValueError) as error:  # also of surrogates
        message = f"{shown(value)} can't be written as JSON: {error}"
        raise RecordError(message, hint="set_value(...) makes text or bytes of an element") from error


def _plain(value: Any) -> Any:
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Row):
        return value.as_dict() if value.field_names() else value.values_list()
    message = f"{type(value).__name__} is nothing that JSON has"
    raise TypeError(message)
