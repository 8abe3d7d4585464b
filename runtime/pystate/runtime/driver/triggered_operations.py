"""The results of triggered savepoints, checkpoints and stops, bounded in number and size."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pystate.common.bounded_dict import BoundedDict
from pystate.common.files.folders import make_private_folder
from pystate.common.files.home import JobDirectory, parse_job_id
from pystate.runtime.job_folder.late_writes import LateWrites
from pystate.runtime.job_folder.operation_file import OperationFile

MOST_RESULTS = 1000
"""The number of operations whose results are kept."""


class TriggeredOperations:
    """The operations of one job. Safe to use from many threads.

    Each has a file with its result, which outlives the driver. The oldest results are dropped for new ones.

    Args:
        directory: The job's files.
        writes: Writes the results, on a full disk later.
        most: How many results are kept.
    """

    def __init__(self, directory: JobDirectory, writes: LateWrites, most: int = MOST_RESULTS) -> None:
        self._directory = directory
        self._writes = writes
        self._lock = threading.Lock()
        self._running: set[str] = set()
        # results, or the files that an earlier driver has left
        self._ended: BoundedDict[str, OperationFile | Path] = BoundedDict(most)

    def start(self) -> None:
        """Create the folder of the results, and load those of an earlier driver."""
        make_private_folder(self._directory.operations)
        left = sorted(self._directory.operations.glob("*.json"), key=lambda path: path.stat().st_mtime)
        with self._lock:
            gone = [old for path in left for old in self._ended.put(path.stem, path)]
        self._remove(gone)

    def begin(self, trigger_id: str) -> None:
        """Record an operation that was triggered."""
        with self._lock:
            self._running.add(trigger_id)

    def end(self, trigger_id: str, result: OperationFile) -> None:
        """Record the result of an operation."""
        with self._lock:
            gone = self._ended.put(trigger_id, result)
        self._writes.write(self._directory.operation(trigger_id), result.to_file())
        with self._lock:
            self._running.discard(trigger_id)
        self._remove(gone)

    def result(self, trigger_id: str) -> OperationFile | None:
        """Return the result of an operation; None if unknown.

        Raises:
            DamagedFileError: The file that an earlier driver has left is damaged.
        """
        with self._lock:
            known = self._ended.get(trigger_id)  # on a full disk the file comes later
        if isinstance(known, OperationFile):
            return known
        return OperationFile.read_from(self._directory.operation(trigger_id))

    def is_running(self, trigger_id: str) -> bool:
        """Return whether an operation was triggered and has not ended."""
        with self._lock:
            return trigger_id in self._running

    def _remove(self, trigger_ids: Iterable[str]) -> None:
        for trigger_id in trigger_ids:
            with suppress(OSError):
                self._directory.operation(parse_job_id(trigger_id)).unlink(missing_ok=True)
