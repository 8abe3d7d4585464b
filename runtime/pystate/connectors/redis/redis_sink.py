"""`RedisSink`: writes a stream to Redis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pystate.common.errors import ConfigurationError
from pystate.common.overrides import override
from pystate.common.serialization import SerializationSchema
from pystate.common.time import Duration
from pystate.connectors.async_sink.async_sink import AsyncSink, AsyncSinkBuilder
from pystate.connectors.async_sink.async_sink_settings import AsyncSinkSettings
from pystate.connectors.async_sink.element_key import KeyPart, key_function
from pystate.connectors.async_sink.refused_elements import RefusedElements
from pystate.connectors.async_sink.request import Request, RequestClient
from pystate.connectors.client_package import client_findings
from pystate.connectors.early_check import EarlyFinding, SupportsEarlyCheck
from pystate.connectors.redis.redis_connection import NEEDED, RedisConnectionOptions
from pystate.connectors.redis.redis_request import RedisRequests, RedisStructure
from pystate.connectors.redis.redis_request_client import RedisRequestClient


class RedisSink(AsyncSink, SupportsEarlyCheck):
    """Writes the latest element of each key, or appends to streams; made by `builder()`.

    Args:
        connection: How to connect.
        structure: What an element becomes.
        requests: Makes the commands.
        settings: Sizes, times, retries.
        refused: What is done with elements that Redis refuses.
    """

    def __init__(
        self,
        connection: RedisConnectionOptions,
        structure: RedisStructure,
        requests: RedisRequests,
        settings: AsyncSinkSettings,
        refused: RefusedElements,
    ) -> None:
        super().__init__(settings, refused)
        self.connection = connection
        self.structure = structure
        self.replaces = structure is not RedisStructure.STREAM
        self._requests = requests

    @staticmethod
    def builder() -> RedisSinkBuilder:
        """Return a builder."""
        return RedisSinkBuilder()

    @property
    @override
    def guarantee_reason(self) -> str:
        if self.replaces:
            return "effectively exactly-once by key: what is written again after a failure leaves each key the same"
        return "flushed at each checkpoint; entries that are added again after a failure are there twice"

    @override
    def early_findings(self) -> Iterator[EarlyFinding]:
        return client_findings("redis", NEEDED, "redis", in_slots=True)

    @override
    def shown(self) -> str:
        return self.connection.shown()

    @override
    def create_client(self) -> RequestClient:
        timeout_s = self.settings.request_timeout_ms / 1000
        client = RedisRequestClient(self.connection, timeout_s, in_transaction=self.structure is RedisStructure.HASH)
        client.check()
        return client

    @override
    def request_of(self, element: Any, timestamp: int | None) -> Request | None:
        return self._requests.request_of(element)


class RedisSinkBuilder(AsyncSinkBuilder):
    """Makes a `RedisSink`."""

    def __init__(self) -> None:
        super().__init__()
        self._place: dict[str, str] = {}
        self._client_options: Mapping[str, Any] = {}
        self._structure = RedisStructure.STRING
        self._key: Callable[[Any], Any] | None = None
        self._value: SerializationSchema | Callable[[Any], Any] | None = None
        self._time_to_live_ms: int | None = None
        self._max_length: int | None = None
        self._delete_when: Callable[[Any], bool] | None = None

    def set_url(self, url: str) -> RedisSinkBuilder:
        """Set the URL: `redis://user:password@host:6379/0`, or `rediss://...` with TLS."""
        self._place["url"] = url
        return self

    def set_url_variable(self, name: str) -> RedisSinkBuilder:
        """Take the URL from an environment variable of the slots, so that the program doesn't contain the password."""
        self._place["url_variable"] = name
        return self

    def set_url_file(self, path: str) -> RedisSinkBuilder:
        """Take the URL from a file where slots run."""
        self._place["url_file"] = path
        return self

    def set_client_options(self, options: Mapping[str, Any]) -> RedisSinkBuilder:
        """Set more arguments of `redis.Redis`: `{"ssl_ca_certs": "/etc/ca.pem"}`."""
        self._client_options = options
        return self

    def set_structure(self, structure: RedisStructure) -> RedisSinkBuilder:
        """Set what an element becomes; a string if it isn't set."""
        if not isinstance(structure, RedisStructure):
            message = f"set_structure() takes a RedisStructure, not {structure!r}."
            raise ConfigurationError(message, hint="RedisStructure.HASH is one")
        self._structure = structure
        return self

    def set_key(self, *fields: KeyPart, prefix: str = "") -> RedisSinkBuilder:
        """Set the key of an element: fields, joined by colons, or a function. Of a stream: its name.

        Args:
            fields: Names of fields, places in a tuple, or one function that makes the key.
            prefix: The text before the fields: `"user:"`.

        Raises:
            ConfigurationError: It is something else.
        """
        self._key = key_function("set_key", fields, prefix)
        return self

    def set_value(self, value: SerializationSchema | Callable[[Any], Any]) -> RedisSinkBuilder:
        """Set what makes the value of a string: a schema, or a function. Of hashes and streams, a function makes fields."""
        self._value = value
        return self

    def set_time_to_live(self, time_to_live: Duration) -> RedisSinkBuilder:
        """Set after which time without a write a key is gone."""
        self._time_to_live_ms = time_to_live.to_millis()
        return self

    def set_max_stream_length(self, entries: int) -> RedisSinkBuilder:
        """Set how many entries a stream keeps, about: Redis removes older ones in blocks."""
        self._max_length = entries
        return self

    def set_delete_when(self, condition: Callable[[Any], bool]) -> RedisSinkBuilder:
        """Set which elements delete their key, besides rows of the kind DELETE."""
        self._delete_when = condition
        return self

    def build(self) -> RedisSink:
        """Return the sink.

        Raises:
            ConfigurationError: A setting is missing, or they don't go together.
        """
        if self._key is None:
            message = "A sink of Redis needs the key of elements."
            raise ConfigurationError(message, hint='set_key("id", prefix="user:"), or set_key(lambda row: ...)')
        connection = RedisConnectionOptions(**self._place, client_options=self._client_options)
        requests = RedisRequests(
            self._structure, self._key, self._value, self._time_to_live_ms, self._max_length, self._delete_when
        )
        return RedisSink(connection, self._structure, requests, self._settings(), self._refused)
