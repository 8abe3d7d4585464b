"""How a sink batches its requests: the settings of Flink's AsyncSinkBase."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.common.errors import ConfigurationError


@dataclass(frozen=True)
class AsyncSinkSettings:
    """The settings of Flink's AsyncSinkBaseBuilder, and how often a request is tried.

    Attributes:
        max_batch_size: The number of requests that are sent together at most.
        max_in_flight_requests: The number of batches under way at a time, each with a thread.
        max_buffered_requests: The number of requests that wait at most; the stream waits while there are as many.
        max_batch_size_in_bytes: The size of a batch at most.
        max_time_in_buffer_ms: How long a request waits for a batch to be full; a checkpoint doesn't wait.
        max_record_size_in_bytes: The size of a request at most; a larger one is refused.
        request_timeout_ms: How long the service may take for a batch.
        max_retries: How often a request is tried again before the job fails.
    """

    max_batch_size: int = 500
    max_in_flight_requests: int = 4
    max_buffered_requests: int = 10_000
    max_batch_size_in_bytes: int = 5 << 20
    max_time_in_buffer_ms: int = 5000
    max_record_size_in_bytes: int = 1 << 20
    request_timeout_ms: int = 30_000
    max_retries: int = 10

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ConfigurationError: They don't go together.
        """
        for name, value in vars(self).items():
            least = 0 if name == "max_retries" else 1
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                message = f"set_{name}() takes a whole number from {least} on, not {value!r}."
                raise ConfigurationError(message)
        for small, large in (
            ("max_batch_size", "max_buffered_requests"),
            ("max_record_size_in_bytes", "max_batch_size_in_bytes"),
        ):
            if getattr(self, small) > getattr(self, large):
                message = f"{small} is {getattr(self, small):,}, more than {large}, {getattr(self, large):,}."
                raise ConfigurationError(message, hint=f"raise {large}, or lower {small}")
