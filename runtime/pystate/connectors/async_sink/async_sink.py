"""The base of sinks to services, and of their builders."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, TypeVar

from pystate.common.overrides import override
from pystate.connectors.async_sink.async_sink_settings import AsyncSinkSettings
from pystate.connectors.async_sink.async_sink_writer import AsyncSinkWriter
from pystate.connectors.async_sink.refused_elements import DeadLetters, RefusedElements
from pystate.connectors.async_sink.request import Request, RequestClient
from pystate.connectors.async_sink.request_buffer import RequestBuffer
from pystate.connectors.sink import Sink, SinkWriter, WriterInitContext

B = TypeVar("B", bound="AsyncSinkBuilder")


class AsyncSink(Sink[Any]):
    """Sends a request for each element: at-least-once.

    Args:
        settings: Sizes, times, retries.
        refused: What is done with elements that the service refuses.

    Attributes:
        replaces: Whether a newer request of a key makes those that wait needless.
    """

    replaces = False

    def __init__(self, settings: AsyncSinkSettings, refused: RefusedElements) -> None:
        self.settings = settings
        self.refused = refused

    @abstractmethod
    def shown(self) -> str:
        """Return the name of the service, without secrets."""

    @abstractmethod
    def create_client(self) -> RequestClient:
        """Return a client, in a slot."""

    @abstractmethod
    def request_of(self, element: Any, timestamp: int | None) -> Request | None:
        """Return the request of an element with its timestamp; None if it asks for nothing.

        Raises:
            RecordError: There is none for this element.
        """

    @override
    def create_writer(self, context: WriterInitContext) -> SinkWriter[Any]:
        target = self.shown()
        dead_letters = DeadLetters(self.refused, target, context) if self.refused.skips else None
        buffer = RequestBuffer(self.settings, replaces=self.replaces)
        client = self.create_client()
        return AsyncSinkWriter(client, self.request_of, buffer, self.settings, target, dead_letters, context.metric_group())

    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"{type(self).__name__}({self.shown()})"


class AsyncSinkBuilder:
    """Sets what all of these sinks have, by the names of Flink's AsyncSinkBaseBuilder."""

    defaults: Mapping[str, int] = {}

    def __init__(self) -> None:
        self._limits: dict[str, int] = dict(self.defaults)
        self._refused = RefusedElements.fail()

    def set_max_batch_size(self: B, max_batch_size: int) -> B:
        """Set how many requests are sent together at most."""
        return self._limit("max_batch_size", max_batch_size)

    def set_max_in_flight_requests(self: B, max_in_flight_requests: int) -> B:
        """Set how many batches are under way at a time, each with a thread."""
        return self._limit("max_in_flight_requests", max_in_flight_requests)

    def set_max_buffered_requests(self: B, max_buffered_requests: int) -> B:
        """Set how many requests wait at most; the stream waits while there are as many."""
        return self._limit("max_buffered_requests", max_buffered_requests)

    def set_max_batch_size_in_bytes(self: B, max_batch_size_in_bytes: int) -> B:
        """Set the size of a batch at most."""
        return self._limit("max_batch_size_in_bytes", max_batch_size_in_bytes)

    def set_max_time_in_buffer_ms(self: B, max_time_in_buffer_ms: int) -> B:
        """Set how long a request waits for a batch to be full; a checkpoint doesn't wait."""
        return self._limit("max_time_in_buffer_ms", max_time_in_buffer_ms)

    def set_max_record_size_in_bytes(self: B, max_record_size_in_bytes: int) -> B:
        """Set the size of a request at most; a larger one is refused."""
        return self._limit("max_record_size_in_bytes", max_record_size_in_bytes)

    def set_request_timeout_ms(self: B, request_timeout_ms: int) -> B:
        """Set how long the service may take for a batch, before it is tried again."""
        return self._limit("request_timeout_ms", request_timeout_ms)

    def set_max_retries(self: B, max_retries: int) -> B:
        """Set how often a request is tried again before the job fails; it waits 0.1 s, then twice as long, up to 5 s."""
        return self._limit("max_retries", max_retries)

    def set_refused_elements(self: B, refused: RefusedElements) -> B:
        """Set what is done with elements that the service refuses for good; without, the job fails."""
        self._refused = RefusedElements.checked(refused)
        return self

    def _limit(self: B, name: str, value: int) -> B:
        self._limits[name] = value
        return self

    def _settings(self) -> AsyncSinkSettings:
        return AsyncSinkSettings(**self._limits)
