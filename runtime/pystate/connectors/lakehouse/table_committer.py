"""Makes the data files of complete checkpoints visible, a commit each, and finds those that are done."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgpack

from pystate.common.errors import CommitError, CorruptSnapshotError
from pystate.common.overrides import override
from pystate.connectors.lakehouse.staging_table import CommitConflictError, DataFile, StagingTable
from pystate.connectors.lakehouse.table_writer import VERSION, list_names
from pystate.connectors.sink import CommitRequest, Committer

_LOG = logging.getLogger(__name__)
_TRIES = 20
"""How often a commit is tried again at once, where others were first; then the operator waits and asks again."""
_LONGEST_WAIT_S = 1.0


class TableCommitter(Committer[dict[str, Any]]):
    """Commits what `TableWriter` prepares.

    The marker of a commit is in the table's log, written by the commit itself: an owner's highest serial. Commits of an
    owner come in the order of their serials, so one that isn't above the marker was committed, or belongs to an attempt
    that has been replaced: its rows came again after the checkpoint that the later attempt began from.

    Args:
        open_table: Opens the table as it is now.
        restored: Whether there may be committables of a snapshot, whose files somebody may have deleted since.
        sleep: Waits this many seconds.
    """

    step: Callable[[str], None] = staticmethod(lambda _: None)
    """Is told each step of a commit; tests crash there."""

    def __init__(
        self, open_table: Callable[[], StagingTable], *, restored: bool, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._open_table = open_table
        self._restored = restored
        self._sleep = sleep

    @override
    def commit(self, requests: Sequence[CommitRequest[dict[str, Any]]]) -> None:
        for at, request in enumerate(requests):
            if not self._commit(request):
                for later in requests[at:]:  # in order: a later marker would say that this one is done
                    later.retry_later(CommitError("other writers were faster each time"))
                break
        self._restored = False

    def _commit(self, request: CommitRequest[dict[str, Any]]) -> bool:
        """Commit one; return whether it is settled.

        Raises:
            CommitError: Its files are gone, or it is for another table.
            CorruptSnapshotError: It isn't of this version.
        """
        one = request.get_committable()
        if one.get("version") != VERSION:
            message = f"The checkpoint has a commit of version {one.get('version')!r} to a table; {VERSION} is known here."
            raise CorruptSnapshotError(message, hint="go on with the pystate version that wrote it, or a newer one")
        owner, serial = one["owner"], one["serial"]
        self.step("begin")
        for attempt in range(_TRIES):
            table = self._open_table()
            if table.name != one["table"]:
                message = f"The snapshot has rows to commit to {one['table']}, and the sink writes to {table.name}."
                hint = "resume with the table that the job wrote to; once it was stopped, another table can take its place"
                raise CommitError(message, where=table.name, hint=hint)
            if table.committed(owner) >= serial:
                request.signal_already_committed()
                self._drop_lists(table, one)
                return True
            files = self._files_of(table, one)
            if files is None:  # another process has committed and dropped them since the table was opened
                continue
            if not files:
                self._drop_lists(table, one)
                return True
            if self._restored and (gone := table.missing(files)) is not None:
                message = f"A data file that the snapshot has to commit is gone: {gone}"
                hint = "somebody has cleaned the table's folder: resume from a newer snapshot"
                raise CommitError(message, where=table.name, hint=hint)
            self.step("look")
            try:
                table.commit(files, owner, serial)
            except CommitConflictError as error:
                _LOG.info("Another writer of %s was first: %s", table.name, error)
                self._sleep(random.uniform(0, min(_LONGEST_WAIT_S, 0.02 * 2**attempt)))  # noqa: S311 - no secret
                continue
            self.step("committed")
            self._drop_lists(table, one)
            return True
        return False

    def _files_of(self, table: StagingTable, one: dict[str, Any]) -> list[DataFile] | None:
        """Return the files to commit; None if they have been committed meanwhile.

        Raises:
            CommitError: A list of them is gone.
        """
        if "files" in one:
            return list(one["files"])
        files: list[DataFile] = []
        for name in list_names(one["owner"], one["serial"], one["parts"]):
            content = table.get(name)
            if content is None:
                if self._open_table().committed(one["owner"]) >= one["serial"]:
                    return None
                message = f"The list {name} of data files that the checkpoint has to commit is gone."
                hint = "somebody has deleted it, or the table was put back to a version before the commit"
                raise CommitError(message, where=table.name, hint=hint)
            _, part = msgpack.unpackb(content, strict_map_key=False)
            files += part
        return files

    def _drop_lists(self, table: StagingTable, one: dict[str, Any]) -> None:
        if "parts" not in one:
            return
        self.step("drop")
        try:
            table.drop(list_names(one["owner"], one["serial"], one["parts"]))
        except OSError as error:  # nobody needs them
            _LOG.warning("The lists of a commit to %s can't be deleted: %s", table.name, error)
