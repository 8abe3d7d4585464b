"""The client of a schema registry, and what its failures mean."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from pystate.common.errors import ExternalSystemError, JobGraphError, PystateError, RecordError
from pystate.connectors.client_package import imported

_OF_JAVA = "schema.registry."
"""The prefix of the registry's properties among those of Java's clients."""
_WITHOUT_EFFECT = {"basic.auth.credentials.source": "USER_INFO", "auto.register.schemas": None}
_STORES = ("ssl.truststore.", "ssl.keystore.")
_NUMBERS = {"cache.capacity", "cache.latest.ttl.sec", "max.retries", "retries.wait.ms", "retries.max.wait.ms", "timeout"}
_UNKNOWN = (404, 422)
"""HTTP's codes for an id that the registry doesn't know."""
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
                self._client = module.SchemaRegistryClient(dict(self._settings))
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
                if error.http_status_code in _UNKNOWN:
                    said = str(error.error_message).rstrip(".")
                    text = f"The schema registry doesn't know the schema of a message: {said}."
                    raise RecordError(text, where=self.url) from error
                text = f"The schema registry refuses: {error}."
                raise ExternalSystemError(text, where=self.url, hint=_hint(error.http_status_code)) from error
            except Exception as error:  # of HTTP, too, whose package the client chooses
                if not isinstance(error, (OSError, module.OAuthTokenError, *_http_errors())):
                    raise
                text = f"The schema registry doesn't answer: {error or type(error).__name__}."
                raise ExternalSystemError(text, where=self.url, hint=f"curl {self.url.split(',')[0]}/subjects") from error

        return ask

    def __getstate__(self) -> dict[str, Any]:
        """Return the pickled state."""
        return {**self.__dict__, "_client": None}


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
