"""The writer of sinks to services: Flink's AsyncSinkWriter, which keeps the order of each key as well."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from pystate.common.errors import ExternalSystemError, RecordError
from pystate.common.overrides import override
from pystate.connectors.async_sink.async_sink_settings import AsyncSinkSettings
from pystate.connectors.async_sink.refused_elements import DeadLetters
from pystate.connectors.async_sink.request import Fate, NotDoneError, Outcome, Request, RequestClient
from pystate.connectors.async_sink.request_buffer import RequestBuffer
from pystate.connectors.sink import SinkWriter
from pystate.core.records.codec import shown

if TYPE_CHECKING:
    from pystate.core.metrics.metric import MetricGroup

_LOG = logging.getLogger(__name__)
_CLOSE_TIMEOUT_S = 10.0


class AsyncSinkWriter(SinkWriter[Any]):
    """Sends requests in batches, by threads: what was written before a checkpoint is done when it is flushed.

    Args:
        client: Sends a batch.
        request_of: Makes the request of an element with its timestamp; None for an element that asks for nothing.
        buffer: Decides what is sent.
        settings: Sizes, times, retries.
        target: The name of the service, without secrets.
        dead_letters: Takes what is refused; None to fail.
        metrics: Of the sink.
    """

    def __init__(
        self,
        client: RequestClient,
        request_of: Callable[[Any, int | None], Request | None],
        buffer: RequestBuffer,
        settings: AsyncSinkSettings,
        target: str,
        dead_letters: DeadLetters | None,
        metrics: MetricGroup,
    ) -> None:
        self._client = client
        self._request_of = request_of
        self._buffer = buffer
        self._settings = settings
        self._target = target
        self._dead_letters = dead_letters
        self._sent, self._retried = metrics.counter("numRecordsSend"), metrics.counter("numRecordsSendRetries")
        self._bytes_sent = metrics.counter("numBytesSend")
        lock = threading.Lock()
        self._settled = threading.Condition(lock)  # the task's thread waits for it
        self._changed = threading.Condition(lock)  # the timer thread does
        self._batches = 0
        self._flushing = False
        self._closed = False
        self._error: BaseException | None = None
        self._refused: list[tuple[Request, str]] = []
        self._context: SinkWriter.Context | None = None
        self._pool = ThreadPoolExecutor(settings.max_in_flight_requests, thread_name_prefix="sink-request")
        self._timer = threading.Thread(target=self._send_overdue, name="sink-timer", daemon=True)
        self._timer.start()

    @override
    def write(self, element: Any, context: SinkWriter.Context) -> None:
        self._context = context
        timestamp = context.timestamp()
        try:
            request = self._request_of(element, timestamp)
            if request is not None and request.size > self._settings.max_record_size_in_bytes:
                most = self._settings.max_record_size_in_bytes
                message = f"An element makes {request.size:,} bytes, and {most:,} are allowed: {shown(element)}"
                raise RecordError(message, hint="set_max_record_size_in_bytes(...) allows more")
        except RecordError as error:
            if self._dead_letters is None:
                raise
            self._dead_letters.take(repr(element).encode(), None, timestamp, error.message, context)
            return
        if request is None:
            return
        request.timestamp = timestamp
        with self._settled:
            self._raise_error()
            while self._buffer.is_full:
                self._send_what_is_due()
                if self._buffer.is_full:
                    self._settled.wait()
                self._raise_error()
            self._buffer.add(request, time.monotonic())
            if self._buffer.has_batch:
                self._send_what_is_due()
            if len(self._buffer) == 1:
                self._changed.notify()
        if self._refused:
            self._bury()

    @override
    def flush(self, end_of_input: bool) -> None:
        with self._settled:
            self._flushing = True
            try:
                while self._error is None and (len(self._buffer) or self._batches):
                    self._send_what_is_due()
                    self._changed.notify()  # the timer thread sends what waits for a retry
                    self._settled.wait()
                self._raise_error()
            finally:
                self._flushing = False
        self._bury()
        if self._dead_letters is not None:
            self._dead_letters.flush(end_of_input)

    @override
    def close(self) -> None:
        with self._settled:
            self._closed = True
            self._changed.notify()
        self._pool.shutdown(wait=False, cancel_futures=True)
        try:
            self._client.close()
        finally:
            if self._dead_letters is not None:
                self._dead_letters.close()
        self._timer.join(_CLOSE_TIMEOUT_S)

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _bury(self) -> None:
        """Hand over what was refused: dead letters are written by the task's thread."""
        with self._settled:
            refused, self._refused = self._refused, []
        for request, why in refused:
            assert self._dead_letters is not None  # noqa: S101 - else it was an error
            assert self._context is not None  # noqa: S101 - something was written
            self._dead_letters.take(request.body, request.key, request.timestamp, why, self._context)

    def _send_what_is_due(self, *, overdue: bool = False) -> None:
        """Start batches. The lock is held."""
        while not self._closed and self._error is None and self._batches < self._settings.max_in_flight_requests:
            partial = overdue or self._flushing or self._buffer.is_full
            batch = self._buffer.take(time.monotonic(), partial=partial)
            if not batch:
                return
            overdue = False  # that thread looks again
            self._batches += 1
            self._pool.submit(self._send, batch)

    def _send_overdue(self) -> None:
        with self._changed:
            while not self._closed:
                due = self._buffer.next_due(time.monotonic())
                free = self._error is None and self._batches < self._settings.max_in_flight_requests
                if due is not None and due <= 0 and free:
                    self._send_what_is_due(overdue=True)
                    continue
                self._changed.wait(None if due is None or due <= 0 else due)

    def _send(self, batch: list[Request]) -> None:
        error: BaseException | None = None
        outcomes: Sequence[Outcome | None] = ()
        try:
            outcomes = self._client.submit(batch)
        except NotDoneError as lost:
            outcomes = [Outcome(Fate.RETRY, str(lost))] * len(batch)
        except BaseException as unknown:  # noqa: BLE001 - the task's thread raises it
            error = unknown
        with self._settled:
            self._batches -= 1
            if error is None:
                self._settle(batch, outcomes)
            elif self._error is None:
                self._error = error
            if self._buffer.has_batch or self._flushing:
                self._send_what_is_due()
            self._settled.notify_all()
            self._changed.notify()

    def _settle(self, batch: list[Request], outcomes: Sequence[Outcome | None]) -> None:
        settled = self._buffer.settle(batch, outcomes, time.monotonic())
        self._sent.inc(len(settled.done))
        self._bytes_sent.inc(sum(request.size for request in settled.done))
        self._retried.inc(settled.retried)
        if settled.given_up is not None:
            request, why = settled.given_up
            message = f"{self._target} did not take a request that was tried {request.tries} times: {why}"
            hint = "see whether it answers; set_max_retries(...) says how often a request is tried again"
            self._error = self._error or ExternalSystemError(message, where=_place(request), hint=hint)
        elif settled.retried and not self._closed:
            why = next(outcome.why for outcome in outcomes if outcome is not None and outcome.fate is Fate.RETRY)
            _LOG.warning("%s: %d of %d requests are tried again: %s", self._target, settled.retried, len(batch), why)
        if settled.refused and self._dead_letters is None:
            request, why = settled.refused[0]
            message = f"{self._target} refuses {shown(request.body)}: {why}"
            hint = "mend the elements before the sink; set_refused_elements(...) leaves them out, or keeps them elsewhere"
            self._error = self._error or RecordError(message, where=_place(request), hint=hint)
        else:
            self._refused += settled.refused


def _place(request: Request) -> str | None:
    return None if request.key is None else f"key {shown(request.key)}"
