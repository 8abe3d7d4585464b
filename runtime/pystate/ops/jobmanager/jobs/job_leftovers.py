"""What a job leaves on this machine when its driver died and couldn't clear it away itself."""

from __future__ import annotations

import logging

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import PystateError
from pystate.common.files.home import JobDirectory
from pystate.core.snapshot.storage.local_copies import remove_local_copies
from pystate.runtime.job_folder.submission import SubmissionFile

logger = logging.getLogger(__name__)


def remove_job_copies(job_id: str, directory: JobDirectory) -> None:
    """Delete the local copies of an ended job's state on this machine. Other machines keep theirs: nobody is left there.

    Args:
        job_id: The job.
        directory: Its files, which say where its slots kept copies.
    """
    from pystate.runtime.slot.snapshots.local_backup import (
        local_roots,  # brings pyarrow along, which a start need not wait for
    )

    try:
        configuration = Configuration(SubmissionFile.read(directory).configuration)
        remove_local_copies(local_roots(configuration), job_id)
    except PystateError as error:
        logger.info("the local copies of job %s are not looked for: %s", job_id, error.message)
