"""Hard links to the files of a database, created while the records after the barrier are processed.

RocksDB first writes its buffers to a file, which takes time proportional to their size, and syncs it. Records are processed
meanwhile, as the running epoch is in memory. Its writes at the end wait for the links, so that these reflect the moment of
the barrier.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Mapping

from pystate.common.errors import PystateError, SnapshotError, StateError


class LinkedFiles:
    """A folder with the files of a database that is being created. Thread-safe.

    Args:
        directory: The folder; it doesn't exist yet.
        link: Creates it.
        done: Called at the end in any case.
    """

    def __init__(self, directory: str, link: Callable[[str], None], done: Callable[[], None]) -> None:
        self._directory = directory
        self._link = link
        self._done = done
        self._files: dict[str, str] = {}
        self._error: PystateError | None = None
        self._made = self._released = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="rocksdb-links", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._link(self._directory)
            self._files = {name: os.path.join(self._directory, name) for name in sorted(os.listdir(self._directory))}
        except BaseException as error:  # raised to callers that request the files
            self._error = error if isinstance(error, PystateError) else StateError(repr(error), where=self._directory)
        finally:
            with self._lock:
                self._made = True
                unwanted = self._released or self._error is not None
            if unwanted:
                shutil.rmtree(self._directory, ignore_errors=True)
            self._done()

    @property
    def are_made(self) -> bool:
        """Whether the links are complete."""
        return not self._thread.is_alive()

    def wait(self) -> None:
        """Wait until the links are created, or have failed."""
        self._thread.join()

    def files(self) -> Mapping[str, str]:
        """Wait for the files, and return name -> path.

        Raises:
            StateError: They can't be made.
            SnapshotError: They were released first.
        """
        self.wait()
        if self._error is not None:
            raise self._error
        with self._lock:
            if self._released:
                message = "The snapshot was released before it was written."
                raise SnapshotError(message, where=self._directory)
        return self._files

    def release(self) -> None:
        """Remove the folder, now or as soon as it is complete; doesn't wait. Idempotent."""
        with self._lock:
            self._released = True
            made = self._made
        if made:
            shutil.rmtree(self._directory, ignore_errors=True)
