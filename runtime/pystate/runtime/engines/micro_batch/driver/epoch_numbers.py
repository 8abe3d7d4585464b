"""Epoch numbers that are never used twice within one job, even after crashes.

Sinks may tell batches apart by number, so after a restore numbers continue above the highest ever used. Storing each number
would cost a disk access per epoch; instead an upper bound is stored, and a restart continues above it.
"""

from __future__ import annotations

from collections.abc import Callable

from pystate.common.files.job_files import JobFile
from pystate.runtime.job_folder.small_files import EpochNumbersFile

RESERVED_AT_ONCE = 1000


class EpochNumbers:
    """The durable upper bound of the epoch numbers a job has used.

    Args:
        path: The file. It is first read on first use: by then this driver has taken over the job from the previous one.
        check_term: Raises DriverReplacedError if another driver runs the job by now.
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
        """Return the new number of the restored `epoch`: at least its own, and not below any number ever used."""
        return max(epoch, self._bound)

    def reserve(self, epoch: int) -> None:
        """Ensure, before `epoch` begins, that no later attempt uses its number.

        Raises:
            DriverReplacedError: A bound must be written, but the file belongs to another driver by now.
        """
        if epoch > self._bound:
            self._check_term()  # a lower bound must not replace that of the driver that has taken over the job
            bound = epoch + RESERVED_AT_ONCE
            EpochNumbersFile(bound).write_to(self._path)
            self._read = bound
