"""Renames part files to their final names once their checkpoint is complete."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any

from pystate.common.errors import CommitError, CorruptSnapshotError
from pystate.connectors.file_system.file_writer import VERSION, OpenFiles
from pystate.connectors.sink import CommitRequest, Committer
from pystate.core.file_systems.recoverable import recoverable_files
from pystate.core.file_systems.recoverable_files import CommitOutcome, RecoverableFiles, UncommittableError

_LOG = logging.getLogger(__name__)
_TAG = re.compile(r"([0-9a-f]{8})-(\d+)-[0-9a-f]{8}")


class FileCommitter(Committer[dict[str, Any]]):
    """Commits what `FileWriter` prepares: finished files, and the cleanup of files that other writers took over.

    Args:
        open_files: Opens a place.
    """

    def __init__(self, open_files: OpenFiles = recoverable_files) -> None:
        self._open_files = open_files
        self._places: dict[str, RecoverableFiles] = {}

    def commit(self, requests: Sequence[CommitRequest[dict[str, Any]]]) -> None:
        """Commit.

        Raises:
            CommitError: A file is gone, or another file has its name.
            CorruptSnapshotError: The checkpoint holds an unknown kind of committable.
        """
        for request in requests:
            one = request.get_committable()
            if one.get("version") != VERSION:
                message = f"The checkpoint has files of version {one.get('version')!r} to commit; {VERSION} is known here."
                raise CorruptSnapshotError(message)
            files = self._files(one["base"])
            if one["kind"] == "file":
                self._commit_file(files, one, request)
            elif one["kind"] == "left":
                files.discard(one)
            else:
                self._sweep(files, one)

    def _commit_file(self, files: RecoverableFiles, one: dict[str, Any], request: CommitRequest[Any]) -> None:
        try:
            outcome = files.commit(one)
        except UncommittableError as error:
            message = f"A part file can't be made visible: {error.strerror}."
            hint = "somebody has moved or deleted it; a checkpoint after its commit doesn't need it"
            raise CommitError(message, where=one["base"], hint=hint) from error
        if outcome is CommitOutcome.ALREADY_COMMITTED:
            request.signal_already_committed()

    def _sweep(self, files: RecoverableFiles, one: dict[str, Any]) -> None:
        """Delete the unfinished files of earlier attempts of the job.

        A checkpoint of this attempt is complete: all subtasks have committed or copied what earlier attempts left to them.
        """

        def is_stale(tag: str) -> bool:
            found = _TAG.fullmatch(tag)
            return found is not None and found[1] == one["owner"] and int(found[2]) < one["before"]

        try:
            count = files.sweep(is_stale)
        except OSError as error:  # nobody sees them
            _LOG.warning("Files of earlier attempts below %s can't be deleted: %s", one["base"], error)
        else:
            if count:
                _LOG.info("%d files of earlier attempts below %s are deleted.", count, one["base"])

    def _files(self, base: str) -> RecoverableFiles:
        if base not in self._places:
            self._places[base], _ = self._open_files(base, "committer")
        return self._places[base]
