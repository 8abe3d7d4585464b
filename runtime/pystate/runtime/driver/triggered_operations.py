"""What became of the savepoints, checkpoints and stops that were asked for: so many of them, each of so many bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import suppress

from pystate.common.files.folders import make_private_folder
from pystate.common.files.home import JobDirectory, parse_job_id
from pystate.runtime.job_folder.late_writes import LateWrites
from pystate.runtime.job_folder.operation_file import OperationFile

MOST_RESULTS = 1000
"""Operations whose result is kept; anybody may ask for one more."""


class TriggeredOperations:
    """The operations of one job. Safe to use from many threads.

    Each has a file with its result, which outlives the driver. The results that are the oldest go for new ones.

    Args:
        directory: The job's files.
        writes: Writes the results, on a full disk later.
        most: How many results are kept.
    """

    def __init__(self, directory: JobDirectory, writes: LateWrites, most: int = MOST_RESULTS) -> None:
        self._directory = directory
        self._writes = writes
        self._most = most
        self._lock = threading.Lock()
        self._running: set[str] = set()
        # None if an earlier driver has left the file
        self._ended: OrderedDict[str, OperationFile | None] = OrderedDict()

    def start(self) -> None:
        """Make the folder of the results, and record those that an earlier driver has left there."""
        make_private_folder(self._directory.operations)
        left = sorted((path.stat().st_mtime, path.stem) for path in self._directory.operations.glob("*.json"))
        with self._lock:
            self._ended.update({trigger_id: None for _, trigger_id in left})
        self._forget()

    def begin(self, trigger_id: str) -> None:
        """Record one that has been asked for."""
        with self._lock:
            self._running.add(trigger_id)

    def end(self, trigger_id: str, result: OperationFile) -> None:
        """Keep what became of one."""
        with self._lock:
            self._ended[trigger_id] = result
            self._ended.move_to_end(trigger_id)
        self._writes.write(self._directory.operation(trigger_id), result.to_file())
        with self._lock:
            self._running.discard(trigger_id)
        self._forget()

    def result(self, trigger_id: str) -> OperationFile | None:
        """Return what became of one; None if nothing is known.

        Raises:
            DamagedFileError: The file that an earlier driver has left is damaged.
        """
        with self._lock:
            known = self._ended.get(trigger_id)  # on a full disk the file comes later
        if known is not None:
            return known
        return OperationFile.read_from(self._directory.operation(trigger_id))

    def is_running(self, trigger_id: str) -> bool:
        """Return whether one has been asked for and has not ended."""
        with self._lock:
            return trigger_id in self._running

    def _forget(self) -> None:
        while True:
            with self._lock:
                if len(self._ended) <= self._most:
                    return
                oldest, _ = self._ended.popitem(last=False)
            with suppress(OSError):
                self._directory.operation(parse_job_id(oldest)).unlink(missing_ok=True)
