"""Cleans up what a job leaves on this machine if its driver died."""

from __future__ import annotations

import logging

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import PystateError
from pystate.common.files.home import JobDirectory
from pystate.core.snapshot.storage.local_copies import remove_local_copies
from pystate.runtime.job_folder.submission import SubmissionFile

logger = logging.getLogger(__name__)


def remove_job_copies(job_id: str, directory: JobDirectory) -> None:
    """Delete the local copies of an ended job's state on this machine. Those on other machines stay.

    Args:
        job_id: The job.
        directory: Its folder, which tells where its slots kept copies.
    """
    from pystate.runtime.slot.snapshots.local_backup import (
        local_roots,  # imports pyarrow, which would slow down the start
    )

    try:
        configuration = Configuration(SubmissionFile.read(directory).configuration)
        remove_local_copies(local_roots(configuration), job_id)
    except PystateError as error:
        logger.info("the local copies of job %s are not looked for: %s", job_id, error.message)
