"""Finds the sources of a job on the micro-batch engine that stay in slots, since its snapshot has them there.

A job that ran on the real-time engine has its source positions in slot state, possibly in the middle of a file, where
Spark's file source can't continue. The same source then continues in slots, in epochs. That holds for the lifetime of the
job, even after the snapshot is deleted, so it is stored.
"""

from __future__ import annotations

from pystate.common.configuration.groups.checkpointing_options import StateRecoveryOptions
from pystate.common.errors import PystateError
from pystate.runtime.execution.job_context import JobContext
from pystate.runtime.execution.restore import load_snapshot
from pystate.runtime.job_folder.small_files import SourcesInSlotsFile


class SourcesKeptInSlots:
    """The sources of one job that stay in slots.

    Args:
        job: The job.
    """

    def __init__(self, job: JobContext) -> None:
        self._job = job

    def uids(self) -> set[str]:
        """Return the uids of the operators with state in the snapshot that the job was started from, including its sources.

        None if the snapshot is lost or damaged and nothing is stored. A job that needs it is rejected by its restore, with
        the reason; a job that doesn't has its own checkpoints, and ran before sources could stay in slots.
        """
        path = self._job.configuration.get(StateRecoveryOptions.SAVEPOINT_PATH)
        if path is None:
            return set()
        file = self._job.directory.sources_in_slots
        written = SourcesInSlotsFile.read_from(file)
        if written is None or written.path != path:
            try:
                operators = load_snapshot(path).metadata.operators
            except PystateError:
                return set()
            written = SourcesInSlotsFile(path, [operator.uid for operator in operators if operator.has_state])
            self._job.term.check()  # the directory belongs to another driver if that has taken over the job
            written.write_to(file)
        return set(written.uids)
