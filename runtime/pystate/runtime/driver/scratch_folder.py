"""The scratch folder of a driver, deleted at its end; in memory, if the machine has an in-memory filesystem."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pystate.runtime.job_folder.held_folders import HeldFolder, remove_folder, remove_left_folders
from pystate.runtime.job_folder.temporary_folders import folder_prefix

_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder below it is made with a random name and mode 0700
_LOGS = "logs-"
ANY = f"{folder_prefix('')[:-1]}*-{_LOGS}*"
"""The names of all scratch folders."""


@contextlib.contextmanager
def scratch_folder(job_id: str) -> Iterator[Path]:
    """Provide a folder for Spark's logs and an attempt's secret, which is removed at the end.

    Folders left by dead drivers are removed before, since their memory would never be freed: all of this job, and those of
    others whose drivers are gone.

    Args:
        job_id: The job.
    """
    base = _MEMORY if _MEMORY.is_dir() else Path(tempfile.gettempdir())
    prefix = f"{folder_prefix(job_id)}{_LOGS}"
    for left in base.glob(f"{prefix}*"):
        remove_folder(left)
    remove_left_folders(base, ANY)
    folder = HeldFolder(base, prefix)
    try:
        yield folder.path
    finally:
        folder.remove()
