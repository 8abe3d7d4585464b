"""Decides which requests are sent together, and which are tried again. Without threads or clock."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from pystate.connectors.async_sink.async_sink_settings import AsyncSinkSettings
from pystate.connectors.async_sink.request import Fate, Outcome, Request
from pystate.connectors.async_sink.retry_delay import retry_delay_s


@dataclass
class Settled:
    """What became of a batch.

    Attributes:
        done: Those that the service has taken.
        refused: Those that it never takes, with the reasons.
        retried: The number of those that are tried again.
        given_up: One that was tried as often as allowed, with the reason.
    """

    done: list[Request] = field(default_factory=list)
    refused: list[tuple[Request, str]] = field(default_factory=list)
    retried: int = 0
    given_up: tuple[Request, str] | None = None


class RequestBuffer:
    """The requests that wait, and the keys of those under way: a key is in one batch at a time.

    If one of a batch is tried again, so are those of its key after it, though they were done: otherwise the older one would
    be the last. Those of other keys aren't.

    Args:
        settings: Sizes, times, retries.
        replaces: Whether a newer request of a key makes those that wait needless.
    """

    def __init__(self, settings: AsyncSinkSettings, *, replaces: bool) -> None:
        self._settings = settings
        self._replaces = replaces
        self._waiting: deque[Request] = deque()
        self._newest: dict[Hashable, Request] = {}
        self._under_way: set[Hashable] = set()
        self._bytes = 0
        self._in_vain = 0  # how many had waited when a full batch was looked for in vain

    def __len__(self) -> int:
        """Return the number of requests that wait."""
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether no more may be added for now."""
        return len(self._waiting) >= self._settings.max_buffered_requests

    @property
    def has_batch(self) -> bool:
        """Whether a full batch may wait: it isn't one if most of what waits is of keys that are under way."""
        settings, count = self._settings, len(self._waiting)
        return (
            count >= settings.max_batch_size or self._bytes >= settings.max_batch_size_in_bytes
        ) and count > self._in_vain

    def add(self, request: Request, now: float) -> None:
        """Add a request, or put it in the place of an older one of its key."""
        older = self._newest.get(request.key) if self._replaces and request.key is not None else None
        if older is not None:
            self._bytes += request.size - older.size
            older.payload, older.size, older.body = request.payload, request.size, request.body
            older.timestamp = request.timestamp
            return
        request.since = now
        self._waiting.append(request)
        self._count(request)

    def take(self, now: float, *, partial: bool) -> list[Request]:
        """Return the next batch; nothing if there is none.

        Args:
            now: The time in seconds.
            partial: Whether a batch needn't be full.
        """
        settings = self._settings
        blocked = set(self._under_way)
        batch: list[Request] = []
        passed: list[Request] = []
        size = 0
        is_full = False
        for request in self._waiting:
            if request.key is not None and request.key in blocked:
                passed.append(request)
                continue
            if request.not_before > now:
                passed.append(request)
                if request.key is not None:
                    blocked.add(request.key)
                continue
            if batch and size + request.size > settings.max_batch_size_in_bytes:
                is_full = True
                break
            batch.append(request)
            size += request.size
            if len(batch) == settings.max_batch_size:
                is_full = True
                break
        if not (is_full or partial):
            if self.has_batch:
                self._in_vain = len(self._waiting) + settings.max_batch_size
            return []
        for _ in range(len(batch) + len(passed)):
            self._waiting.popleft()
        self._waiting.extendleft(reversed(passed))
        for request in batch:
            self._bytes -= request.size
            if request.key is not None:
                self._newest.pop(request.key, None)
                self._under_way.add(request.key)
        return batch

    def settle(self, batch: Sequence[Request], outcomes: Sequence[Outcome | None], now: float) -> Settled:
        """Take what became of a batch; what is tried again waits at the front.

        Args:
            batch: As it was taken.
            outcomes: For each, how it failed.
            now: The time in seconds.
        """
        settled, again, keys = Settled(), list[Request](), set[Hashable]()
        for request, outcome in zip(batch, outcomes, strict=True):
            if outcome is not None and outcome.fate is Fate.REFUSED:
                settled.refused.append((request, outcome.why))
            elif outcome is not None:
                request.tries += 1
                if request.tries > self._settings.max_retries:
                    settled.given_up = request, outcome.why
                request.not_before = now + retry_delay_s(request.tries)
                again.append(request)
            elif request.key is not None and request.key in keys:
                again.append(request)
            else:
                settled.done.append(request)
            if again and again[-1] is request and request.key is not None:
                keys.add(request.key)
        self._under_way.difference_update(request.key for request in batch if request.key is not None)
        self._in_vain = 0
        kept = [request for request in again if not (self._replaces and request.key in self._newest)]
        settled.retried = len(kept)
        self._waiting.extendleft(reversed(kept))
        for request in kept:
            self._count(request)
        return settled

    def next_due(self, now: float) -> float | None:
        """Return in how many seconds something that waits is to be sent, in a full batch or not; None for nothing."""
        due = math.inf
        blocked = set(self._under_way)
        for request in self._waiting:
            if request.key is not None and request.key in blocked:
                continue
            if request.tries:
                due = min(due, request.not_before)
                if request.key is not None and request.not_before > now:
                    blocked.add(request.key)
                continue
            due = min(due, request.since + self._settings.max_time_in_buffer_ms / 1000)
            break  # those after it came later
        return None if due == math.inf else max(0.0, due - now)

    def _count(self, request: Request) -> None:
        self._bytes += request.size
        if self._replaces and request.key is not None:
            self._newest[request.key] = request
