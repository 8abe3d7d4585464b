"""The versions of a subtask's queryable states: the last finished epoch, and the last completed checkpoint.

The subtask's thread creates versions when an epoch ends, and frees them; readers on other threads hold one while they read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pystate.common.time import current_time_ms
from pystate.core.state.base.queryable_states import CommittedView

PINNED_SECONDS = 10.0
"""How long a version is kept for readers of a map or a list in several pages."""

MAX_PINNED = 8
"""How many versions are kept for such readers."""


@dataclass(frozen=True)
class VersionKey:
    """The key that identifies a version within the attempt.

    Attributes:
        epoch: The last epoch in it; -1 for none.
        checkpoint_id: The checkpoint; None for a live version, and for the beginning of a job.
    """

    epoch: int
    checkpoint_id: int | None


class _SharedView:
    """A view with its reference count, of versions and readers."""

    __slots__ = ("users", "view")

    def __init__(self, view: CommittedView) -> None:
        self.view = view
        self.users = 0


@dataclass
class CommittedVersion:
    """State as of the end of an epoch.

    Attributes:
        key: Its key.
        timestamp: When it was created, ms since 1970.
        view: The state.
    """

    key: VersionKey
    timestamp: int
    shared: _SharedView

    @property
    def view(self) -> CommittedView:
        """The state."""
        return self.shared.view


class CommittedStates:
    """The versions of one subtask.

    Args:
        make_view: Returns a view of what the backend has flushed so far; only called on the subtask's thread.
        clock: Returns the time, ms since 1970.
    """

    def __init__(self, make_view: Callable[[], CommittedView], clock: Callable[[], int] = current_time_ms) -> None:
        self._make_view = make_view
        self._clock = clock
        self._lock = threading.Lock()
        self._live: CommittedVersion | None = None
        self._checkpointed: CommittedVersion | None = None
        self._pending: dict[int, CommittedVersion] = {}
        self._pinned: dict[VersionKey, tuple[CommittedVersion, float]] = {}
        self._unused: list[_SharedView] = []
        self._closed = False

    def begin(self, epoch: int, checkpoint_id: int | None, timestamp: int | None = None) -> None:
        """Create the first versions: the restored state is both live and that of a checkpoint.

        Args:
            epoch: The last one in it; -1 for none.
            checkpoint_id: Which checkpoint it is; None for a start from nothing.
            timestamp: When that was triggered, ms since 1970: state doesn't get newer by being restored.
        """
        shared, since = _SharedView(self._make_view()), self._clock() if timestamp is None else timestamp
        with self._lock:
            self._live = self._hold(CommittedVersion(VersionKey(epoch, None), since, shared))
            self._checkpointed = self._hold(CommittedVersion(VersionKey(epoch, checkpoint_id), since, shared))

    def epoch_finished(self, epoch: int) -> None:
        """Create the live version from what the backend has flushed, and free unused versions."""
        shared = _SharedView(self._make_view())
        with self._lock:
            before = self._live
            self._live = self._hold(CommittedVersion(VersionKey(epoch, None), self._clock(), shared))
            if before is not None:
                self._let_go(before)
            self._expire()
            unused, self._unused = self._unused, []
        for one in unused:
            one.view.close()

    def barrier(self, checkpoint_id: int, timestamp: int) -> None:
        """Keep the live version for a checkpoint until that has ended.

        Args:
            checkpoint_id: Which.
            timestamp: When it was triggered, ms since 1970.
        """
        with self._lock:
            if self._live is not None:
                key = VersionKey(self._live.key.epoch, checkpoint_id)
                self._pending[checkpoint_id] = self._hold(CommittedVersion(key, timestamp, self._live.shared))

    def checkpoint_ended(self, checkpoint_id: int, *, completed: bool) -> None:
        """Record how a checkpoint ended; thread-safe. Versions older than a completed one are dropped."""
        with self._lock:
            ended = self._pending.pop(checkpoint_id, None)
            if ended is None:
                return
            if not completed:
                self._let_go(ended)
                return
            for older in [number for number in self._pending if number < checkpoint_id]:
                self._let_go(self._pending.pop(older))
            before = self._checkpointed
            if before is not None and before.key.checkpoint_id is not None and before.key.checkpoint_id > checkpoint_id:
                self._let_go(ended)
                return
            self._checkpointed = ended
            if before is not None:
                self._let_go(before)

    @contextmanager
    def reading(self, *, live: bool, key: VersionKey | None = None) -> Iterator[CommittedVersion | None]:
        """Hold a version while it is read, from any thread.

        Args:
            live: Whether to read the last finished epoch; else the last completed checkpoint.
            key: A certain version, in which a reader continues.

        Returns:
            The version; None if it doesn't exist any more, or yet.
        """
        with self._lock:
            found = None if self._closed else self._find(live=live, key=key)
            if found is not None:
                self._hold(found)
        try:
            yield found
        finally:
            if found is not None:
                with self._lock:
                    self._let_go(found)

    def pin(self, version: CommittedVersion) -> None:
        """Keep a version for a while, for readers that will continue in it."""
        with self._lock:
            known = self._pinned.pop(version.key, None)
            if known is None:
                self._expire()
                if len(self._pinned) >= MAX_PINNED:
                    oldest = next(iter(self._pinned))
                    self._let_go(self._pinned.pop(oldest)[0])
                self._hold(version)
            self._pinned[version.key] = version, time.monotonic() + PINNED_SECONDS

    def close(self) -> None:
        """Refuse further reads, and free unused versions; on the subtask's thread. Active readers end with the process."""
        with self._lock:
            self._closed = True
            held = [self._live, self._checkpointed, *self._pending.values(), *(one for one, _ in self._pinned.values())]
            self._live = self._checkpointed = None
            self._pending.clear()
            self._pinned.clear()
            for version in held:
                if version is not None:
                    self._let_go(version)
            unused, self._unused = self._unused, []
        for one in unused:
            one.view.close()

    def _find(self, *, live: bool, key: VersionKey | None) -> CommittedVersion | None:
        if key is None:
            return self._live if live else self._checkpointed
        known = [one for one in (self._live, self._checkpointed) if one is not None and one.key == key]
        pinned = self._pinned.get(key)
        return known[0] if known else None if pinned is None else pinned[0]

    def _hold(self, version: CommittedVersion) -> CommittedVersion:
        version.shared.users += 1
        return version

    def _let_go(self, version: CommittedVersion) -> None:
        version.shared.users -= 1
        if not version.shared.users:
            self._unused.append(version.shared)  # the subtask's thread closes it: only that may change what views share

    def _expire(self) -> None:
        now = time.monotonic()
        for key in [key for key, (_, until) in self._pinned.items() if until <= now]:
            self._let_go(self._pinned.pop(key)[0])
