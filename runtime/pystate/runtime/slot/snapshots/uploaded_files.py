"""The files of one backend on the storage, which the next checkpoint can refer to."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from pystate.core.snapshot.handles.incremental_handle import SharedFile


class UploadedFiles:
    """The shared files of a backend's confirmed checkpoint. Thread-safe.

    Files of unconfirmed checkpoints don't count: the checkpoint may fail, and its files are then deleted. All completed
    checkpoints are confirmed, in order of completion: so the confirmed files are those of the checkpoint's metadata, see
    `SharedState.settled`.

    Args:
        restored: The files that the backend was restored from and may refer to, by name.
    """

    def __init__(self, restored: Mapping[str, SharedFile] | None = None) -> None:
        self._confirmed = dict(restored or {})
        self._confirmed_id = -1
        self._written: dict[int, dict[str, SharedFile]] = {}
        self._lock = threading.Lock()

    def confirmed(self) -> dict[str, SharedFile]:
        """Return the files that a new checkpoint may refer to, by name."""
        with self._lock:
            return dict(self._confirmed)

    def written(self, checkpoint_id: int, files: Mapping[str, SharedFile]) -> None:
        """Record all shared files of a checkpoint, new and old ones, before it is acknowledged."""
        with self._lock:
            if checkpoint_id > self._confirmed_id:
                self._written[checkpoint_id] = dict(files)

    def confirm(self, checkpoint_id: int) -> None:
        """Confirm a completed checkpoint; does nothing if a newer one is confirmed, or if it is unknown."""
        with self._lock:
            files = self._written.get(checkpoint_id)
            if files is None:
                return
            known, self._confirmed = self._confirmed, dict(files)
            for name, file in files.items():
                # of a file that two checkpoints at a time have written the first one's is kept, and the other one deleted
                if name in known and known[name].key == file.key:
                    self._confirmed[name] = known[name]
            self._confirmed_id = checkpoint_id
            self._written = {other: held for other, held in self._written.items() if other > checkpoint_id}

    def forget(self, checkpoint_id: int) -> None:
        """Record that a checkpoint failed."""
        with self._lock:
            self._written.pop(checkpoint_id, None)
