"""Deletion of savepoints, by REST and without it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from pystate.common.bounded_dict import BoundedDict
from pystate.common.errors import PystateError, SnapshotError
from pystate.common.files.home import PystateHome, new_job_id, parse_job_id
from pystate.common.text.bounded_text import bounded_text
from pystate.core.snapshot.metadata_file import read_metadata
from pystate.core.snapshot.storage.shared_state_folder import free_shared_files
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation, resolve_snapshot
from pystate.ops.jobmanager.disposal.snapshot_owners import check_unused
from pystate.ops.jobmanager.disposal.storage_threads import StorageThreads

logger = logging.getLogger(__name__)

_REMEMBERED = 1000
_THREADS = 4
_DEADLINE_SECONDS = 300.0
"""How long the deletion of a snapshot may take before its storage counts as silent."""
_ONLY_SNAPSHOTS = "only snapshots whose _metadata can be read are deleted"
_MOST_WAITING = 200
"""Disposals that have not ended; further ones are refused."""


class DisposalNotFoundError(PystateError):
    """No disposal has this trigger id."""


class TooManyDisposalsError(PystateError):
    """Too many disposals are waiting."""


def dispose(home: PystateHome, location: SnapshotLocation) -> None:
    """Delete a snapshot; for an incremental one also the shared files that no other checkpoint needs.

    Only a real snapshot is deleted: a directory, not a link to one, with only regular files, of which `_metadata` is that of
        a snapshot and can be read.

    Raises:
        SnapshotInUseError: A job needs it.
        SnapshotError: It isn't one, or can't be deleted.
    """
    with location.held() as snapshot:
        try:
            metadata = read_metadata(snapshot.read_metadata(), location.uri)
        except SnapshotError as error:
            error.hint = f"{_ONLY_SNAPSHOTS}: delete anything else by hand"
            raise
        check_unused(home, location)
        snapshot.delete()
    for left in free_shared_files(metadata, location.uri):
        logger.warning("shared files of %s stay: %s", location.uri, left)


class SavepointDisposals:
    """Deletes savepoints on separate threads, and keeps the results.

    Args:
        home: The installation whose jobs may need them.
        delete: Deletes a savepoint.
        threads: The threads to use; own ones by default.
    """

    def __init__(
        self,
        home: PystateHome,
        delete: Callable[[PystateHome, SnapshotLocation], None] = dispose,
        threads: StorageThreads | None = None,
    ) -> None:
        self._home = home
        self._delete = delete
        self._threads = threads or StorageThreads("disposal", _THREADS, _DEADLINE_SECONDS)
        self._lock = threading.Lock()
        self._waiting: set[str] = set()
        # plain data: an exception would keep its frames alive, with all their local variables
        self._results: BoundedDict[str, dict[str, Any]] = BoundedDict(_REMEMBERED)

    def trigger(self, path: str) -> str:
        """Start to delete the savepoint at a path; return the id for the result.

        Raises:
            TooManyDisposalsError: Too many are waiting.
        """
        trigger_id = new_job_id()
        with self._lock:
            if len(self._waiting) >= _MOST_WAITING:
                message = f"{_MOST_WAITING} savepoints are being deleted, or wait for it."
                raise TooManyDisposalsError(message, hint="try again in a moment")
            self._waiting.add(trigger_id)
        future = self._threads.submit(partial(self._run, path), "The deletion of a savepoint")
        future.add_done_callback(partial(self._note, trigger_id))
        return trigger_id

    def result(self, trigger_id: str) -> dict[str, Any]:
        """Return `{"status": ...}` and, if it failed, `failure`.

        Raises:
            UsageError: The id is malformed.
            DisposalNotFoundError: There is no disposal with this id.
        """
        parsed = parse_job_id(trigger_id)
        self._threads.look()
        with self._lock:
            if parsed in self._waiting:
                return {"status": "IN_PROGRESS"}
            result = self._results.get(parsed)
        if result is None:
            message = f"There is no disposal of a savepoint with trigger id {parsed}."
            raise DisposalNotFoundError(message)
        return result

    def _run(self, path: str) -> None:
        location = resolve_snapshot(path)
        self._delete(self._home, location)
        logger.info("savepoint %s is deleted", location.uri)

    def _note(self, trigger_id: str, done: Future[None]) -> None:
        result: dict[str, Any] = {"status": "COMPLETED"}
        error = done.exception()
        if error is not None:
            result["failure"] = _failure(error)
        with self._lock:
            self._waiting.discard(trigger_id)
            self._results.put(trigger_id, result)


def _failure(error: BaseException) -> dict[str, Any]:
    shown = error if isinstance(error, PystateError) else PystateError(f"{type(error).__name__}: {error}")
    plain = shown.to_dict()
    texts = {name: bounded_text(plain[name]) for name in ("message", "where", "hint") if plain[name]}
    return {"class": plain["class"], "where": None, "hint": None, **texts}
