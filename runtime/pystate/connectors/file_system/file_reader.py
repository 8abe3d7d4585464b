"""Reads the files of one subtask, one at a time."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, BinaryIO

from pystate.common.errors import PystateError, RecordError
from pystate.common.time import current_time_ms
from pystate.connectors.bad_records import BadRecords, Refused, RefusedRecords
from pystate.connectors.file_system.file_splits import FileHead, FileSourceSplit
from pystate.connectors.file_system.files_of_epoch import FilesOfEpoch
from pystate.connectors.file_system.formats.split_format import FileRecords, SplitFormat
from pystate.connectors.poll_size import PollSize
from pystate.connectors.source import InputStatus, ReaderOutput, SourceReader, SourceReaderContext
from pystate.core.file_systems.places import parse_location

_MOST_AT_ONCE = 500
_LONGEST_SLEEP_MS = 60_000
_WATCH_REST = 10
"""The pause after a look is so many times as long as the look: very many files must not cost the slot its processor."""


class FileSourceReader(SourceReader[Any, FileSourceSplit]):
    """The reader of a source of files.

    Args:
        context: Of the reader.
        split_format: Makes elements of files.
        interval_ms: How often to request another file while there is none.
        clock: Returns the time, ms since 1970.
        most_files: See `FilesOfEpoch`.
        has_news: Whether there are new files; asked in the first subtask.
        bad_records: What is done with records that are none of the format; None fails the job.
    """

    def __init__(
        self,
        context: SourceReaderContext,
        split_format: SplitFormat,
        interval_ms: int | None,
        clock: Callable[[], int] = current_time_ms,
        most_files: int | None = None,
        has_news: Callable[[], bool] = lambda: False,
        bad_records: BadRecords | None = None,
    ) -> None:
        self._context = context
        self._bad_records = bad_records or BadRecords.fail()
        self._refused_records = RefusedRecords(self._bad_records, context)
        self._refused: list[Refused] = []
        self._format = split_format
        self._interval_ms = interval_ms
        self._clock = clock
        self._splits: deque[FileSourceSplit] = deque()
        self._file: BinaryIO | None = None
        self._records: FileRecords | None = None
        self._ask_at = 0
        self._no_more = False
        self._size = PollSize(_MOST_AT_ONCE)
        self._failed_at: str | None = None
        self._of_epoch = FilesOfEpoch(most_files)
        self._has_news = has_news
        self._watch: FileWatch | None = None
        self._is_woken = False  # new files trigger epochs, not the time

    def poll_next(self, output: ReaderOutput[Any]) -> InputStatus:
        """Emit the next elements of the first file."""
        self._of_epoch.begin(output.epoch)
        if output.epoch is not None and self._interval_ms is not None and not self._is_woken:
            self._is_woken = True
            if self._context.get_index_of_subtask() == 0:
                self._watch = FileWatch(self._interval_ms, self._has_news, self._wake)
        if not self._splits:
            if self._no_more:
                return InputStatus.END_OF_INPUT
            if self._of_epoch.has_room() and self._clock() >= self._ask_at:
                self._ask_at = self._clock() + self._pause_ms
                self._context.send_split_request()
            return InputStatus.NOTHING_AVAILABLE
        split = self._splits[0]
        try:
            if not self._of_epoch.is_counted and not self._of_epoch.admit(self._bytes_of(split)):
                return InputStatus.NOTHING_AVAILABLE
            if self._records is None:
                self._open(split)
            assert self._records is not None  # noqa: S101 - just opened
            elements = self._records.read(min(self._size.count, output.room()))
        except PystateError:
            raise
        except (OSError, EOFError, ValueError) as error:  # of file systems, and of what is compressed
            message = f"{split.file.uri} can't be read: {error}"
            raise RecordError(message, hint="a file stays as it is until it is read; remove one that is damaged") from error
        refused, self._refused = self._refused, []
        for one in refused:
            self._refused_records.take(one, output.collect_side)
        if elements is None:
            self._close_file()
            self._splits.popleft()
            self._of_epoch.file_ended()
            return InputStatus.MORE_AVAILABLE
        try:
            self._size.emit(elements, output.collect)
        except Exception:
            self._failed_at = f"element {self._size.failed_at} after byte {split.position} of {split.file.uri}"
            raise
        split.position = self._records.position
        return InputStatus.MORE_AVAILABLE

    @property
    def _pause_ms(self) -> int:
        return 1000 if self._interval_ms is None else max(1, self._interval_ms)

    def describe_position(self) -> str | None:
        """Return the file, and which of its elements can't be emitted."""
        return self._failed_at

    def available_at(self) -> int | None:
        """Return when to request another file: in the next epoch, if this one has reached its bound.

        An idle reader triggers no epochs: the first subtask's watch does, and each epoch polls all readers.
        """
        if self._splits or self._of_epoch.is_full:
            return self._clock()
        if self._interval_ms is None:
            return None
        return self._clock() + _LONGEST_SLEEP_MS if self._is_woken else self._ask_at

    def _wake(self) -> None:
        self._ask_at = 0
        self._context.notify_available()

    def snapshot_state(self, checkpoint_id: int) -> list[FileSourceSplit]:
        """Return the files that aren't fully read, with their positions."""
        del checkpoint_id
        return [FileSourceSplit(split.file, split.position, split.head) for split in self._splits]

    def add_splits(self, splits: Sequence[FileSourceSplit]) -> None:
        """Add files to read."""
        self._splits.extend(splits)
        self._ask_at = 0

    def notify_no_more_splits(self) -> None:
        """End the input after the current files."""
        self._no_more = True

    def close(self) -> None:
        """Close the file."""
        if self._watch is not None:
            self._watch.close()
        self._close_file()

    def _bytes_of(self, split: FileSourceSplit) -> int:
        if not self._of_epoch.needs_size:
            return 0
        fs, path, _ = parse_location(split.file.uri)
        return int(fs.info(path)["size"])

    def _open(self, split: FileSourceSplit) -> None:
        fs, path, _ = parse_location(split.file.uri)
        self._file = fs.open(path, "rb")
        if split.head is None or split.position == 0:
            split.head = FileHead.of(self._file)
        elif FileHead.of(self._file, split.head.length) != split.head:
            message = (
                f"{split.file.uri} is another file than the one that was read up to {split.position}: it begins otherwise."
            )
            raise RecordError(
                message, hint="put the old file back under its name; a new one is read under a name of its own"
            )
        self._records = self._format.open(self._file, split.file.uri, split.position)
        if self._bad_records.skips:
            self._records.refuse = partial(self._refuse, split.file.uri)

    def _refuse(self, uri: str, value: bytes | None, position: int, reason: str) -> None:
        self._refused.append(Refused(value, uri, position, reason))

    def _close_file(self) -> None:
        records, self._records = self._records, None
        file, self._file = self._file, None
        if records is not None:
            records.close()
        if file is not None:
            file.close()


class FileWatch:
    """A thread that checks for new files at an interval.

    Args:
        interval_ms: How often.
        has_news: Returns whether there are new files. Errors are ignored: the next epoch meets and reports them.
        wake: Triggers an epoch.
    """

    def __init__(self, interval_ms: int, has_news: Callable[[], bool], wake: Callable[[], object]) -> None:
        self._interval_s = max(1, interval_ms) / 1000
        self._has_news = has_news
        self._wake = wake
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="file-watch", daemon=True).start()

    def close(self) -> None:
        """Stop the thread."""
        self._closed.set()

    def _run(self) -> None:
        pause_s = self._interval_s
        while not self._closed.wait(pause_s):
            begun = time.monotonic()
            try:
                news = self._has_news()
            except Exception:  # file systems raise many kinds of errors
                news = True
            pause_s = max(self._interval_s, _WATCH_REST * (time.monotonic() - begun))
            if news and not self._closed.is_set():
                self._wake()
