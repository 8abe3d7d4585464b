"""Which sources of a job on the micro-batch engine stay in slots: those that its snapshot has there.

A job that ran on the real-time engine has its sources' positions as state of slots, maybe in the middle of a file, where
Spark's source of files can't go on. The same source reads on in slots, in epochs. That is so for as long as the job lives,
also when the snapshot is gone: so it is written down.
"""

from __future__ import annotations

from pystate.common.configuration.options import StateRecoveryOptions
from pystate.common.errors import PystateError
from pystate.runtime.execution.job_context import JobContext
from pystate.runtime.execution.restore import load_snapshot
from pystate.runtime.job_folder.small_files import SourcesInSlotsFile


class SourcesKeptInSlots:
    """Those of one job.

    Args:
        job: The job.
    """

    def __init__(self, job: JobContext) -> None:
        self._job = job

    def uids(self) -> set[str]:
        """Return the uids of operators with state in the snapshot that the job was started from: its sources are among them.

        None where the snapshot is gone or damaged and nothing is written down. A job that needs it is refused by its
        restore, with the reason; one that doesn't has checkpoints of its own, and ran before anything could stay.
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
            self._job.term.check()  # the folder is another driver's where that has taken the job over
            written.write_to(file)
        return set(written.uids)
