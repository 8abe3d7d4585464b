"""Discovers files and assigns each to one reader, in turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from typing import Any

from pystate.common.time import current_time_ms
from pystate.connectors.file_system.file_listing import FoundFile
from pystate.connectors.file_system.file_splits import FileSourceSplit
from pystate.connectors.source import SplitEnumerator, SplitEnumeratorContext


class FileSplitEnumerator(SplitEnumerator[FileSourceSplit]):
    """The enumerator of a source of files.

    Args:
        context: Of the enumerator.
        list_files: Returns the files that exist now, except those whose names it is given.
        interval_ms: How often to look for new ones; None for once, when it starts.
        known: The files that are read or assigned.
        waiting: The unassigned files.
        clock: Returns the time, ms since 1970.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[FileSourceSplit],
        list_files: Callable[[Collection[str]], list[FoundFile]],
        interval_ms: int | None,
        known: list[str],
        waiting: list[FileSourceSplit],
        clock: Callable[[], int] = current_time_ms,
    ) -> None:
        self._context = context
        self._list = list_files
        self._interval_ms = interval_ms
        self._waiting = deque(waiting)
        self._found = dict.fromkeys([*known, *(split.file.uri for split in waiting)])
        self._asking: dict[int, None] = {}  # readers without a file, in the order in which they have asked
        self._served: set[int] = set()  # have been assigned a file since their last request
        self._has_mail = False  # one of them may not look for it soon
        self._clock = clock
        self._next = 0

    def start(self) -> None:
        """Discover the files."""
        self._look()

    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        """Assign the oldest unassigned file to the reader that has waited longest, as Flink does.

        Readers of a continuous source request splits repeatedly. If each new file went to the next request, one reader could
        get them all, and event time would wait for the others.
        """
        del requester_hostname
        if subtask_id in self._served:
            self._served.discard(subtask_id)
        else:
            self._asking.setdefault(subtask_id)
        if not self._waiting and self._interval_ms is not None and self._clock() >= self._next:
            self._look()
        while self._waiting and self._asking:
            reader = next(iter(self._asking))
            del self._asking[reader]
            split = self._waiting.popleft()
            self._context.assign_split(split, reader)
            if reader != subtask_id:
                self._served.add(reader)
                self._has_mail = True
        if self._interval_ms is None and subtask_id in self._asking:
            self._context.signal_no_more_splits(subtask_id)

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the assigned and the unassigned files."""
        del checkpoint_id
        waiting = {split.file.uri for split in self._waiting}
        return [[uri for uri in self._found if uri not in waiting], [split.to_plain() for split in self._waiting]]

    def has_news(self) -> bool:
        """Return whether an epoch is needed: there are new files, or one waits to be read.

        Thread-safe; the next request does the discovery.
        """
        if self._has_mail:
            self._has_mail = False
            return True
        news = bool(self._list(self._found))
        if news:
            self._next = 0
        return news

    def _look(self) -> None:
        for file in self._list(self._found):
            self._found[file.uri] = None
            self._waiting.append(FileSourceSplit(file))
        self._next = self._clock() + (self._interval_ms or 0)
