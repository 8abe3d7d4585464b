"""The writer of one subtask: elements into buckets, and buckets into a checkpoint."""

from __future__ import annotations

import hashlib
import posixpath
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pystate.common.errors import CommitError, JobGraphError
from pystate.connectors.file_system.bucket import Bucket
from pystate.connectors.file_system.bucket_assigner import BucketAssigner
from pystate.connectors.file_system.compaction import FileCompactor, FileCompactStrategy, WaitingFiles
from pystate.connectors.file_system.formats.part_writer import PartWriterFactory
from pystate.connectors.file_system.output_file_config import OutputFileConfig
from pystate.connectors.file_system.rolling_policy import RollingPolicy
from pystate.connectors.sink import CommittingSinkWriter, SinkWriter, StatefulSinkWriter, WriterInitContext
from pystate.core.file_systems.recoverable import recoverable_files
from pystate.core.file_systems.recoverable_files import Recoverable, RecoverableFile, RecoverableFiles, UncommittableError

VERSION = 1
"""The format version of committables and states."""

_GONE = "somebody has deleted it, or a job that began from a later checkpoint has used it up"

OpenFiles = Callable[[str, str], tuple[RecoverableFiles, str]]
"""Opens a place for files in progress with a tag in their names; returns its path, too."""


def now_ms() -> int:
    """Return the processing time, ms since 1970."""
    return time.time_ns() // 1_000_000


def owner_of(context: WriterInitContext) -> str:
    """Return the part of file names that identifies a job and a sink."""
    return hashlib.sha256(f"{context.get_job_id()}/{context.get_operator_uid()}".encode()).hexdigest()[:8]


class FileWriter(CommittingSinkWriter[Any, dict[str, Any]], StatefulSinkWriter[Any, dict[str, Any]]):
    """Writes elements to part files.

    The names of part files have a random part per writer and a number, so no two writers use the same name.

    Args:
        base: The base path, as a place.
        part_writer: Makes the writer of a file.
        assigner: Determines the bucket of an element.
        policy: Decides when a file is rolled.
        config: The prefix and suffix of file names.
        check_interval_ms: The interval of the processing-time checks for rolling.
        context: The context of the sink.
        compaction: When and how finished files are compacted; None for never.
        open_files: Opens the place.
        clock: The time, ms since 1970.

    Raises:
        JobGraphError: Compaction is set for a file system where files can't be read before they are visible.
    """

    def __init__(
        self,
        base: str,
        part_writer: PartWriterFactory,
        assigner: BucketAssigner,
        policy: RollingPolicy,
        config: OutputFileConfig,
        check_interval_ms: int,
        context: WriterInitContext,
        compaction: tuple[FileCompactStrategy, FileCompactor] | None = None,
        open_files: OpenFiles = recoverable_files,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._clock = clock
        self._owner, self._attempt = owner_of(context), context.get_attempt_number()
        self._tag = f"{self._owner}-{self._attempt}"
        self._open_files = open_files
        self._base = base
        self._files, self._path = open_files(base, self._tag)
        self._part_writer = part_writer
        self._bucket_of = assigner.get_bucket_id
        self._policy = policy
        self._config = config
        self._check_interval_ms = check_interval_ms
        self._next_check = 0
        self._uid = f"{self._owner}-{self._attempt}-{context.get_index_of_this_subtask()}-{secrets.token_hex(4)}"
        self._parts = 0
        self._buckets: dict[str, Bucket] = {}
        self._end_of_input = False
        self._beside: list[dict[str, Any]] = []
        self._copied: list[tuple[str, Recoverable, RecoverableFile]] = []  # of those that waited when a checkpoint was taken
        self._waiting: WaitingFiles | None = None
        if compaction is not None:
            _check_readable(self._files, base)
            self._waiting = WaitingFiles(*compaction, self._read, self._write_compacted)
        if self._attempt > 0 and context.get_index_of_this_subtask() == 0:
            self._beside.append(self._committable("sweep", {"owner": self._owner, "before": self._attempt}))

    # -- elements

    def write(self, element: Any, context: SinkWriter.Context) -> None:
        """Write an element to its bucket's file."""
        now = self._clock()
        if now >= self._next_check:
            self._check_buckets(now)
        bucket_id = self._bucket_of(element, context)
        bucket = self._buckets.get(bucket_id)
        if bucket is None:
            bucket = self._buckets[bucket_id] = Bucket(_checked(bucket_id), self._policy)
        if not bucket.write(element, now):
            bucket.begin(self._part_writer(self._new_file(bucket_id)), now)
            bucket.write_first(element, now)

    def flush(self, end_of_input: bool) -> None:
        """Remember whether the input has ended."""
        self._end_of_input = self._end_of_input or end_of_input

    def _check_buckets(self, now: int) -> None:
        for bucket in self._buckets.values():
            bucket.roll_by_the_clock(now)
        self._next_check = now + self._check_interval_ms

    def _new_file(self, bucket_id: str, before: str = "") -> RecoverableFile:
        name = f"{before}{self._config.get_part_prefix()}-{self._uid}-{self._parts}{self._config.get_part_suffix()}"
        self._parts += 1
        return self._files.open(posixpath.join(self._path, bucket_id, name))

    # -- checkpoints

    def prepare_commit(self) -> Sequence[dict[str, Any]]:
        """Return the finished files."""
        self._check_buckets(self._clock())
        must_roll = self._end_of_input or not self._files.resumable
        ended = [(bucket_id, kept) for bucket_id, kept, _ in self._copied]
        for bucket_id, bucket in list(self._buckets.items()):
            ended += [(bucket_id, kept) for kept in bucket.prepare_commit(must_roll=must_roll)]
            if not bucket.in_progress:
                del self._buckets[bucket_id]
        made = [kept for _, kept in ended]
        used_up: list[Recoverable] = []
        if self._waiting is not None:
            self._waiting.add(ended)
            made, used_up = self._waiting.at_checkpoint(end_of_input=self._end_of_input)
        beside, self._beside, self._copied = self._beside, [], []
        files = [self._committable("file", kept) for kept in made]
        return [*files, *(self._committable("left", kept) for kept in used_up), *beside]

    def snapshot_state(self, checkpoint_id: int) -> Sequence[dict[str, Any]]:
        """Return the files in progress."""
        del checkpoint_id
        kept = [bucket.snapshot() for bucket in self._buckets.values()]
        if self._waiting is not None:  # first, so that a restored writer has them before later files
            kept = [*self._waiting.snapshot(), *kept]
        return [{"version": VERSION, "base": self._base, **state} for state in kept if state is not None]

    def restore(self, states: Sequence[dict[str, Any]]) -> None:
        """Resume the files in progress of any writers.

        Raises:
            CommitError: The content of one of them is gone.
        """
        for state in states:
            bucket_id = state["bucket"]
            file, persisted = self._taken_over(state)
            if file is None:
                continue
            if state.get("ended"):  # its format may not let anything follow
                self._copied.append((bucket_id, file.close_for_commit(), file))
                continue
            bucket = self._buckets.setdefault(bucket_id, Bucket(bucket_id, self._policy))
            bucket.roll()  # several writers' files of one bucket: each is a part
            bucket.begin(self._part_writer(file), state["created"], persisted=persisted)

    def close(self) -> None:
        """Release the files in progress."""
        for bucket in self._buckets.values():
            bucket.close()
        for _, _, file in self._copied:
            file.discard()

    def _read(self, kept: Recoverable) -> Iterator[bytes]:
        try:
            found = self._files.prefix(kept)
        except UncommittableError as error:
            message = f"A part file that waits to be compacted is gone: {error.strerror}."
            raise CommitError(message, where=self._base, hint=_GONE) from error
        assert found is not None  # noqa: S101 - the writer's own, which nobody has committed
        return found

    def _write_compacted(self, bucket_id: str, data: Iterator[bytes]) -> Recoverable:
        file = self._new_file(bucket_id, "compacted-")
        try:
            for part in data:
                file.write(part)
            return file.close_for_commit()
        except BaseException:
            file.discard()
            raise

    def _committable(self, kind: str, content: dict[str, Any]) -> dict[str, Any]:
        return {"version": VERSION, "kind": kind, "base": self._base, **content}

    def _taken_over(self, state: dict[str, Any]) -> tuple[RecoverableFile | None, bool]:
        """Return the file to continue, None if its bytes are already visible; and whether the checkpoint contains it."""
        kept, stays = state["file"], state["base"] == self._base
        files = self._files if stays else self._open_files(state["base"], self._tag)[0]
        try:
            same = files.resume(kept) if stays else None
            if same is not None:
                return same, True
            prefix = files.prefix(kept)
            if prefix is None:
                return None, False
            file = self._new_file(state["bucket"])
            try:
                for data in prefix:
                    file.write(data)
            except BaseException:
                file.discard()
                raise
        except UncommittableError as error:
            message = f"A part file that the checkpoint has in progress can't be gone on with: {error.strerror}."
            raise CommitError(message, where=state["base"], hint=_GONE) from error
        if stays:  # the job that took the savepoint may still be running
            self._beside.append(self._committable("left", kept))
        return file, False


def _check_readable(files: RecoverableFiles, base: str) -> None:
    if not files.readable:
        message = "Files can't be compacted there: what isn't visible can't be read."
        raise JobGraphError(message, where=base, hint="leave enable_compact() out, or write to a local disk or HDFS")


def _checked(bucket_id: Any) -> str:
    """Return a bucket's folder after checking it.

    Raises:
        CommitError: It isn't below the base path.
    """
    if isinstance(bucket_id, str) and "\0" not in bucket_id:
        parts = bucket_id.split("/")
        if bucket_id == "" or not any(part in ("", ".", "..") for part in parts):
            return bucket_id
    message = f"A bucket is a folder below the base path, such as '2024-05-01/de', not {bucket_id!r}."
    raise CommitError(message, where="get_bucket_id")
