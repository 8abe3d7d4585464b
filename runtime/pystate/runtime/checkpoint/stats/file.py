"""The file with the statistics of a job's checkpoints, which outlives the driver and is continued by the next one.

JSON: a version, a checksum, and the statistics as `CheckpointStatsTracker.to_plain` gives them.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import zlib
from collections.abc import Callable
from typing import Any

from pystate.common.errors import CorruptSnapshotError, PystateError
from pystate.common.files.home import write_file_atomically
from pystate.common.files.job_files import JobFile, read_job_file
from pystate.common.files.regular_files import OddFileError
from pystate.core.snapshot.plain import as_map, take
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.checkpoint.stats.tracker import CheckpointStatsTracker

STATISTICS_VERSION = 1
"""The version that is written, and the only one that is read."""

_DRIVER_GONE = "The driver process that coordinated it is gone."
MAX_BYTES = 256 << 20
"""The largest size of the file; a thousand checkpoints of a hundred subtasks each have less than a tenth of it."""
_SMALL = 64 << 10
_BYTES_PER_SECOND = 128 << 10
_COST = 20
_RETRY_SECONDS = 1.0


def encode_statistics(plain: dict[str, Any]) -> bytes:
    """Return the bytes of the file."""
    body = _text(plain)
    return f'{{"version":{STATISTICS_VERSION},"crc32":{zlib.crc32(body.encode())},"statistics":{body}}}'.encode()


def read_statistics(
    path: JobFile, history_size: int, clock: Callable[[], int], *, driver_is_gone: bool = False
) -> CheckpointStatsTracker | None:
    """Return the statistics that a driver wrote; None if there is no file.

    Args:
        path: The file.
        history_size: The number of listed checkpoints.
        clock: Returns the current time, ms since 1970.
        driver_is_gone: Whether its pending checkpoints have failed, at its last write or soon after.

    Raises:
        CorruptSnapshotError: The file is damaged, or of another version.
    """
    try:
        # in this order: a driver that writes in between has its last word later than what was read
        last_word, data = path.stat().st_mtime_ns // 1_000_000, read_job_file(path, MAX_BYTES)
    except FileNotFoundError:
        return None
    except OddFileError as error:
        message = f"The statistics of the job's checkpoints can't be read: {error}."
        raise CorruptSnapshotError(message, where=str(path)) from error
    try:
        tracker = CheckpointStatsTracker.from_plain(_decoded(data), history_size, clock)
    except CorruptSnapshotError as error:
        message = f"The statistics of the job's checkpoints can't be read: {error.message}"
        raise CorruptSnapshotError(message, where=str(path)) from error
    if driver_is_gone:
        tracker.give_up_in_progress(CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN, _DRIVER_GONE, last_word)
    return tracker


def _decoded(data: bytes) -> Any:
    try:
        frame = as_map(json.loads(data), "the file")
    except (ValueError, RecursionError) as error:
        message = f"it is no JSON ({error})."
        raise CorruptSnapshotError(message) from error
    if take(frame, "version") != STATISTICS_VERSION:
        message = f"version {frame['version']} is not {STATISTICS_VERSION}."
        raise CorruptSnapshotError(message)
    plain = take(frame, "statistics")
    if take(frame, "crc32") != zlib.crc32(_text(plain).encode()):
        message = "the checksum is wrong."
        raise CorruptSnapshotError(message)
    return plain


def _text(plain: Any) -> str:
    return json.dumps(plain, separators=(",", ":"))


class StatisticsFile:
    """The statistics of a job and their file, which is written on its own thread, so that callers don't wait for a disk.

    A small file is written at each change. Writes of a large one, of many subtasks or thousands of checkpoints, are limited
    to a twentieth of the time and 128 KB per second; a change is then written with a later one, or with `close`.

    Args:
        path: The file.
        history_size: The number of listed checkpoints.
        clock: Returns the current time, ms since 1970.

    Attributes:
        tracker: The statistics.
    """

    def __init__(self, path: JobFile, history_size: int, clock: Callable[[], int]) -> None:
        self.tracker = CheckpointStatsTracker(history_size, clock)
        self._path = path
        self._history_size = history_size
        self._clock = clock
        self._lock = threading.Condition()
        self._changed = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self._complained = False

    def recover(self, say: Callable[[str], None]) -> CheckpointStatsTracker:
        """Load the statistics of an earlier driver of the job and return them; to be called first.

        Args:
            say: Is called with a sentence about an unreadable file: the statistics start over.
        """
        try:
            left = read_statistics(self._path, self._history_size, self._clock, driver_is_gone=True)
        except CorruptSnapshotError as error:
            say(f"WARNING: {error.message} They start over. ({error.where})")
            left = None
        if left is not None:
            self.tracker = left
        return self.tracker

    def changed(self, *, soon: bool = True) -> None:
        """Schedule a write; returns at once.

        Args:
            soon: Whether it is worth a write of its own; else it is written with the next change, or with `close`.
        """
        with self._lock:
            self._changed = True
            if not soon:
                return
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._loop, name="checkpoint-statistics", daemon=True)
                self._thread.start()
            self._lock.notify_all()

    def close(self) -> None:
        """Write what is not written yet; nothing is written afterwards."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _loop(self) -> None:
        pause_s = 0.0
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._closed, pause_s)
                self._lock.wait_for(lambda: self._closed or self._changed)
                if not self._changed:
                    return
                self._changed = False
            pause_s = self._write()

    def _write(self) -> float:
        """Write the file, and return how long to wait before the next write."""
        started = time.monotonic()
        try:
            data = encode_statistics(self.tracker.to_plain())
            write_file_atomically(self._path, data)
        except (OSError, PystateError) as error:
            # the job doesn't depend on it; the log tells readers why it isn't updated
            if not self._complained:
                print(f"WARNING: {self._path} can't be written: {error}", file=sys.stderr, flush=True)
            self._complained = True
            with self._lock:
                self._changed = self._changed or not self._closed
            return _RETRY_SECONDS
        self._complained = False
        return pause_after(time.monotonic() - started, len(data))


def pause_after(seconds: float, size: int) -> float:
    """Return how many seconds to wait after a write.

    Args:
        seconds: How long it took.
        size: Its bytes.
    """
    return 0.0 if size <= _SMALL else max(_COST * seconds, (size - _SMALL) / _BYTES_PER_SECOND)
