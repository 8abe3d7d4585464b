"""Epoch numbers that are never given twice within one job, whatever crashes.

Sinks may tell batches apart by number, so after a restore numbers go on above the highest ever tried. Writing each number
down would cost a disk access per epoch; a bound above it is written instead, and a restart goes on above the bound.
"""

from __future__ import annotations

from collections.abc import Callable

from pystate.common.files.job_files import JobFile
from pystate.runtime.job_folder.small_files import EpochNumbersFile

RESERVED_AT_ONCE = 1000


class EpochNumbers:
    """The durable upper bound of the epoch numbers a job has used.

    Args:
        path: The file. It is first read when it is needed: by then this driver has taken the job over from the one before.
        check_term: Raises DriverReplacedError where another driver runs the job by now.
    """

    def __init__(self, path: JobFile, check_term: Callable[[], object] = lambda: None) -> None:
        self._path = path
        self._check_term = check_term
        self._read: int | None = None

    @property
    def _bound(self) -> int:
        if self._read is None:
            written = EpochNumbersFile.read_from(self._path)
            self._read = -1 if written is None else written.reserved
        return self._read

    def resume_above(self, epoch: int) -> int:
        """Return the number that the restored `epoch` gets: at least its own, and no number above it was ever used."""
        return max(epoch, self._bound)

    def reserve(self, epoch: int) -> None:
        """Make sure, before `epoch` begins, that no later attempt uses its number again.

        Raises:
            DriverReplacedError: A bound is to be written, and the file is another driver's by now.
        """
        if epoch > self._bound:
            self._check_term()  # a lower bound must not replace that of the driver that has taken the job over
            bound = epoch + RESERVED_AT_ONCE
            EpochNumbersFile(bound).write_to(self._path)
            self._read = bound
