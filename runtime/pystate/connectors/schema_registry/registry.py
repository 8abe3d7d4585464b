"""The client of a schema registry, and what its failures mean."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from pystate.common.errors import ExternalSystemError, JobGraphError, PystateError, RecordError
from pystate.connectors.client_package import imported

_OF_JAVA = "schema.registry."
"""The prefix of the registry's properties among those of Java's clients."""
_WITHOUT_EFFECT = {"basic.auth.credentials.source": "USER_INFO", "auto.register.schemas": None}
_STORES = ("ssl.truststore.", "ssl.keystore.")
_NUMBERS = {"cache.capacity", "cache.latest.ttl.sec", "max.retries", "retries.wait.ms", "retries.max.wait.ms", "timeout"}
_UNKNOWN = 40403
"""The registry's own code for a schema that it doesn't know; 404 alone may be of a proxy."""
_BY_NUMBER, _BY_GUID = 0, 1
"""The first bytes of messages: a number of four bytes comes after it, or a UUID."""
_NUMBER_BYTES, _GUID_BYTES = 5, 17
_NUMBERS_END = 1 << 31
"""A registry counts schemas by Java's int; asked for more, it answers as for a wrong path."""
_GIVE_SCHEMAS, _GIVE_SUBJECTS = ("get_schema", "get_schema_by_guid", "get_version"), ("get_associations_by_resource_name",)
"""The methods of the client that deserializers call."""
_HTTP = ("httpx2", "httpx")
"""The packages that the client asks the registry by."""


def registry_module(name: str = "") -> Any:
    """Return a module of the client.

    Args:
        name: Of the module below `confluent_kafka.schema_registry`; that itself if it is empty.

    Raises:
        JobGraphError: It isn't installed.
    """
    message = "A schema registry needs packages that aren't installed: those of confluent-kafka's client of it."
    return imported(f"confluent_kafka.schema_registry{name and '.' + name}", message, "schema-registry")


class SchemaRegistry:
    """Where a schema registry is, and how one logs in there; it is pickled with the schemas that need it.

    Args:
        url: Its URL, or several with commas between them.
        properties: Properties of the client of confluent-kafka, also with Java's prefix `schema.registry.`.

    Raises:
        JobGraphError: A property is wrong, or the client isn't installed.
    """

    def __init__(self, url: str, properties: Mapping[str, Any] | None = None) -> None:
        if not isinstance(url, str) or not url:
            message = f"A schema registry has a URL, not {url!r}."
            raise JobGraphError(message, hint="such as http://registry:8081")
        self.url = url
        self._settings = {"url": url, **_settings(properties or {})}
        self._client: Any = None
        self.client()

    def client(self) -> Any:
        """Return the client, which has a cache of the schemas that it was told.

        Raises:
            JobGraphError: A property is wrong, or the client isn't installed.
        """
        if self._client is None:
            module = registry_module()
            try:
                self._client = _checking_client(module.SchemaRegistryClient, self.url)(dict(self._settings))
            except (ValueError, TypeError, OSError) as error:  # OSError: of files with certificates
                message = f"The settings of the schema registry are wrong: {error}."
                raise JobGraphError(message, where=self.url) from error
        return self._client

    def asking(self, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a function that tells failures of the registry from those of messages.

        Args:
            call: A serializer or deserializer of one message.

        Raises:
            ExternalSystemError: The registry doesn't answer, or refuses.
            RecordError: It doesn't know the schema that a message names.
        """
        module = registry_module("error")

        def ask(message: Any) -> Any:
            try:
                return call(message)
            except PystateError:
                raise
            except module.SchemaRegistryError as error:
                if error.error_code == _UNKNOWN and isinstance(message, bytes):
                    raise self._unknown(message) from error
                text = f"The schema registry refuses: {error}."
                raise ExternalSystemError(text, where=self.url, hint=_hint(error.http_status_code)) from error
            except Exception as error:  # of HTTP, too, whose package the client chooses
                if not isinstance(error, (OSError, module.OAuthTokenError, *_http_errors())):
                    raise
                text = f"The schema registry doesn't answer: {error or type(error).__name__}."
                raise ExternalSystemError(text, where=self.url, hint=f"curl {self.url.split(',')[0]}/subjects") from error

        return ask

    def reading(self, call: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        """Return a function like `asking`, for a deserializer; it refuses what no serializer of a registry has written.

        Args:
            call: The deserializer of one message.

        Raises:
            ExternalSystemError: The registry doesn't answer, or refuses.
            RecordError: It doesn't know the schema that a message names.
            ValueError: A message names none.
        """
        ask = self.asking(call)

        def read(message: bytes) -> Any:
            by = message[0] if message else None
            if by not in (_BY_NUMBER, _BY_GUID) or len(message) < frame_bytes(message):
                problem = "it doesn't begin with the zero and the number of a schema that a registry's serializers write"
                raise ValueError(problem)
            if by == _BY_NUMBER and _number(message) >= _NUMBERS_END:
                raise self._unknown(message)
            return ask(message)

        return read

    def _unknown(self, message: bytes) -> RecordError:
        by_number = message[0] == _BY_NUMBER
        path = f"ids/{_number(message)}" if by_number else f"guids/{uuid.UUID(bytes=message[1:_GUID_BYTES])}"
        text = f"The schema registry {self.url} doesn't know the schema that a message names: {path.partition('/')[2]}."
        hint = f"curl {self.url.split(',')[0]}/schemas/{path}; look whether the messages are of another registry"
        return RecordError(text, hint=hint)

    def __getstate__(self) -> dict[str, Any]:
        """Return the pickled state."""
        return {**self.__dict__, "_client": None}


def frame_bytes(message: bytes) -> int:
    """Return how many bytes of a message that isn't empty name its schema; the rest is what was written with that."""
    return _GUID_BYTES if message[0] else _NUMBER_BYTES


def _number(message: bytes) -> int:
    return int.from_bytes(message[1:_NUMBER_BYTES], "big")


def _checking_client(base: Any, url: str) -> Any:
    """Return a class of clients that tell an answer that is no schema from a wrong message: a proxy's page, for one."""

    def checked(name: str) -> Callable[..., Any]:
        def ask(client: Any, *args: Any, **more: Any) -> Any:
            try:
                found = getattr(base, name)(client, *args, **more)
                text = getattr(found, "schema", found).schema_str if name in _GIVE_SCHEMAS else "none is asked for"
            except (ValueError, TypeError, KeyError, AttributeError) as error:  # of what isn't JSON, or no object
                raise _no_schema(url, error) from error
            if isinstance(text, str) and text:
                return found
            client.clear_caches()
            raise _no_schema(url, "it has no schema")

        return ask

    return type("CheckingClient", (base,), {name: checked(name) for name in (*_GIVE_SCHEMAS, *_GIVE_SUBJECTS)})


def _no_schema(url: str, why: object) -> ExternalSystemError:
    text = f"The schema registry answers with what a registry doesn't say: {why}."
    return ExternalSystemError(text, where=url, hint=f"curl {url.split(',')[0]}/subjects; is that a proxy's answer?")


def _settings(properties: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for given, value in properties.items():
        name = str(given).removeprefix(_OF_JAVA)
        if name in _WITHOUT_EFFECT and _WITHOUT_EFFECT[name] in (None, value):
            continue
        if name.startswith(_STORES):
            message = f"The client of the schema registry reads no key stores of Java's: {given}."
            hint = "set ssl.ca.location, ssl.certificate.location and ssl.key.location, which are files in PEM"
            raise JobGraphError(message, hint=hint)
        found[name] = float(value) if name in _NUMBERS and isinstance(value, str) else value
    return found


def _http_errors() -> tuple[type[Exception], ...]:
    found = [getattr(sys.modules.get(name), "HTTPError", None) for name in _HTTP]
    return tuple(one for one in found if one is not None)


def _hint(code: int) -> str | None:
    if code in (401, 403):
        return "set basic.auth.user.info to USER:PASSWORD, or bearer.auth.*; see docs/formats.md"
    if code == 409:  # noqa: PLR2004 - HTTP's
        return "the schema doesn't fit those before it: change it, or the compatibility of the subject"
    return None
