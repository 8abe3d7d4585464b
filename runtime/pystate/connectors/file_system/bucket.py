"""A bucket of the file sink in one subtask: its part file in progress, and the files pending for a checkpoint."""

from __future__ import annotations

from typing import Any

from pystate.connectors.file_system.formats.part_writer import PartWriter
from pystate.connectors.file_system.rolling_policy import OnCheckpointRollingPolicy, PartFileInfo, RollingPolicy
from pystate.core.file_systems.recoverable_files import Recoverable


class Bucket:
    """A folder with part files; see the module.

    Args:
        bucket_id: The folder below the base path.
        policy: Decides when a file is rolled.
    """

    def __init__(self, bucket_id: str, policy: RollingPolicy) -> None:
        self.bucket_id = bucket_id
        self._policy = policy
        self._asks = type(policy) is not OnCheckpointRollingPolicy  # which never ends a file because of an element
        self._part: PartWriter | None = None
        self._info = PartFileInfo(bucket_id, 0, 0)
        self._persisted = False
        self._pending: list[tuple[PartWriter, Recoverable, bool]] = []

    @property
    def in_progress(self) -> bool:
        """Whether there is a file in progress."""
        return self._part is not None

    def begin(self, part: PartWriter, created: int, *, persisted: bool = False) -> None:
        """Make this the file in progress.

        Args:
            part: Writes to it.
            created: When it was begun, ms since 1970.
            persisted: A checkpoint knows of it.
        """
        self._part = part
        self._persisted = persisted
        self._info = PartFileInfo(self.bucket_id, created, created)

    def write(self, element: Any, now: int) -> bool:
        """Write an element to the file in progress, if it has room.

        Args:
            element: The element.
            now: The processing time, ms since 1970.

        Returns:
            Whether it was written. If not, a new file has to be begun for it (`begin`, `write_first`): there was none, or
                the one in progress was full and was closed.
        """
        part, info = self._part, self._info
        if part is None:
            return False
        file = part.file
        if self._asks:
            info.size = file.tell()
            if self._policy.should_roll_on_event(info, element):
                self.roll()
                return False
        if file.full:
            self.roll()
            return False
        part.write(element)
        info.last_update_time = now
        return True

    def write_first(self, element: Any, now: int) -> None:
        """Write an element to a file that has just been begun."""
        assert self._part is not None  # noqa: S101 - `begin` was called
        self._part.write(element)
        self._info.last_update_time = now

    def roll(self) -> None:
        """Close the file in progress."""
        part, self._part = self._part, None
        if part is not None:
            self._pending.append((part, part.close_for_commit(), self._persisted))

    def roll_by_the_clock(self, now: int) -> None:
        """Close the file in progress if the policy rolls it at this processing time."""
        if self._part is not None:
            self._info.size = self._part.file.tell()
            if self._policy.should_roll_on_processing_time(self._info, now):
                self.roll()

    def prepare_commit(self, *, must_roll: bool) -> list[Recoverable]:
        """Return the files that become visible with the checkpoint at hand."""
        if self._part is not None:
            self._info.size = self._part.file.tell()
            if must_roll or self._policy.should_roll_on_checkpoint(self._info):
                self.roll()
        pending, self._pending = self._pending, []
        return [kept for _, kept, _ in pending]

    def snapshot(self) -> dict[str, Any] | None:
        """Return the state of the bucket; None if no file is in progress."""
        if self._part is None:
            return None
        kept = self._part.file.persist()
        self._persisted = True
        return {"bucket": self.bucket_id, "created": self._info.creation_time, "file": kept}

    def close(self) -> None:
        """Release all files; those that no checkpoint contains are deleted."""
        part, self._part = self._part, None
        pending, self._pending = self._pending, []
        open_ones = [] if part is None else [(part, self._persisted)]
        for one, persisted in [*open_ones, *((ended, known) for ended, _, known in pending)]:
            if persisted:
                one.file.close()
            else:
                one.discard()
