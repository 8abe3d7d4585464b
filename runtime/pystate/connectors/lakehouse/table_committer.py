"""Makes the data files of complete checkpoints visible, a commit each, and finds those that are done."""

from __future__ import annotations

import itertools
import logging
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgpack

from pystate.common.errors import CommitError, CorruptSnapshotError
from pystate.common.overrides import override
from pystate.connectors.lakehouse.staging_table import CommitConflictError, DataFile, StagingTable, upserts_among
from pystate.connectors.lakehouse.table_writer import ATTEMPT_BITS, OVERWRITING_VERSION, VERSION, list_name
from pystate.connectors.sink import CommitRequest, JointCommitter

_LOG = logging.getLogger(__name__)
_TRIES = 20
"""How often a commit is tried again at once, where others were first; then the operator waits and asks again."""
_LONGEST_WAIT_S = 1.0
_MOST_EMPTY = 100
"""How many checkpoints without rows are done without a commit, one after the other: their lists stay until the marker is
above them, since a job that is restored from one of them looks for its lists."""


class TableCommitter(JointCommitter[dict[str, Any]]):
    """Commits what `TableWriter` prepares.

    The marker of a commit is in the table's log, written by the commit itself: an owner's highest serial. Commits of an
    owner come in the order of their serials, so one that isn't above the marker was committed, or belongs to an attempt
    that has been replaced: its rows came again after the checkpoint that the later attempt began from.

    Args:
        open_table: Opens the table as it is now.
        sleep: Waits this many seconds.
    """

    step: Callable[[str], None] = staticmethod(lambda _: None)
    """Is told each step of a commit; tests crash there."""

    def __init__(self, open_table: Callable[[], StagingTable], *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._open_table = open_table
        self._sleep = sleep
        self._empty: dict[str, list[list[str]]] = {}

    @override
    def commit(self, requests: Sequence[CommitRequest[dict[str, Any]]]) -> None:
        # of an attempt the newest includes the files of those before it that are above the marker
        last = {_attempt_of(request): request for request in requests}
        older: dict[tuple[str, int], list[str]] = {}
        for at, request in enumerate(requests):
            one, attempt = request.get_committable(), _attempt_of(request)
            if "parts" in one and last[attempt] is not request:
                older.setdefault(attempt, []).extend(_heads(one))
            elif not self._commit(request, older.get(attempt, ())):
                for later in requests[at:]:  # in order: a later marker would say that this one is done
                    later.retry_later(CommitError("other writers were faster each time"))
                break

    def _commit(self, request: CommitRequest[dict[str, Any]], older: Sequence[str]) -> bool:
        """Commit one; return whether it is settled.

        Args:
            request: What to commit.
            older: The names of lists that it makes superfluous, besides those that it reads.

        Raises:
            CommitError: Its files are gone, or it is for another table, or for columns that the table had.
            CorruptSnapshotError: It isn't of this version.
        """
        one = request.get_committable()
        if one.get("version") not in (VERSION, OVERWRITING_VERSION):
            message = f"The commit to a table is of version {one.get('version')!r}; {OVERWRITING_VERSION} is known here."
            raise CorruptSnapshotError(message, hint="go on with the pystate version that wrote it, or a newer one")
        owner, serial = one["owner"], one["serial"]
        self.step("begin")
        for attempt in range(_TRIES):
            table = self._open_table()
            if table.name != one["table"]:
                message = f"The snapshot has rows to commit to {one['table']}, and the sink writes to {table.name}."
                hint = "resume with the table that the job wrote to; once it was stopped, another table can take its place"
                raise CommitError(message, where=table.name, hint=hint)
            if table.identity != one["identity"]:
                message = f"The table {table.name} is another one than that which the rows were staged for."
                hint = "put the old one back; a sink under another uid goes on without these rows (--allowNonRestoredState)"
                raise CommitError(message, where=table.name, hint=hint)
            marker = table.committed(owner)
            if marker >= serial:
                request.signal_already_committed()
                self._drop(table, [*_heads(one), *older])
                return True
            staged = self._staged(table, marker, one)
            if staged is None:  # another process has committed and dropped them since the table was opened
                continue
            files, lists = staged
            lists += older
            empty = self._empty.setdefault(owner, [])
            if not files and len(empty) < _MOST_EMPTY:
                empty.append(lists)
                return True
            if (gone := table.missing(files)) is not None:
                message = f"A data file that the checkpoint has to commit is gone: {gone}"
                hint = "somebody has cleaned the table's folder: resume from a newer snapshot"
                raise CommitError(message, where=table.name, hint=hint)
            table.check_staged(files)
            self.step("look")
            try:
                table.commit(files, owner, serial)
            except CommitConflictError as error:
                _LOG.info("Another writer of %s was first: %s", table.name, error)
                self._sleep(random.uniform(0, min(_LONGEST_WAIT_S, 0.02 * 2**attempt)))  # noqa: S311 - no secret
                continue
            self.step("committed")
            del self._empty[owner]
            self._drop(table, list(itertools.chain(lists, *empty, upserts_among(files))))
            return True
        return False

    def _staged(self, table: StagingTable, marker: int, one: dict[str, Any]) -> tuple[list[DataFile], list[str]] | None:
        """Return the files to commit and the names of their lists; None if they have been committed meanwhile.

        Raises:
            CommitError: A list of them is gone.
        """
        if "files" in one:
            return list(one["files"]), []
        owner, parts = one["owner"], one["parts"]
        files: list[DataFile] = []
        names: list[str] = []
        for part in range(parts):
            serial, own = one["serial"], list[DataFile]()
            while serial > marker:
                name = list_name(owner, serial, part)
                content = table.get(name)
                if content is None:
                    if self._open_table().committed(owner) > marker:
                        return None
                    message = f"The list {name} of data files that the checkpoint has to commit is gone."
                    hint = "somebody has deleted it, or the table was put back to a version before the commit"
                    raise CommitError(message, where=table.name, hint=hint)
                names.append(name)
                _, serial, found = msgpack.unpackb(content, strict_map_key=False)
                own = [*found, *own]  # the oldest first: rows of the same key replace each other
            files += own
        return files, names

    def _drop(self, table: StagingTable, names: Sequence[str]) -> None:
        if not names:
            return
        self.step("drop")
        try:
            table.drop(names)
        except OSError as error:  # nobody needs them
            _LOG.warning("The lists of a commit to %s can't be deleted: %s", table.name, error)


def _attempt_of(request: CommitRequest[dict[str, Any]]) -> tuple[str, int]:
    one = request.get_committable()
    return one["owner"], one["serial"] >> ATTEMPT_BITS


def _heads(one: dict[str, Any]) -> list[str]:
    """Return the names of the lists of a committable's own checkpoint."""
    return [list_name(one["owner"], one["serial"], part) for part in range(one.get("parts", 0))]
