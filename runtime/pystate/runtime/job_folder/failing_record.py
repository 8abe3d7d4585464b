"""Records and timers at which a function has failed, kept in a job's folder for the debugger.

A file is `PSFR`, the version (2 bytes, big-endian), the SHA-256 of the rest, and the rest: a msgpack map of the fields of
`FailingRecord`. The job's data is in it, so it is readable for the owner of the home only.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path

import msgpack

from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.errors import PystateError
from pystate.common.files.job_files import replace_file
from pystate.common.files.regular_files import open_regular

_MAGIC, _VERSION = b"PSFR", 2
_HEAD = len(_MAGIC) + 2 + hashlib.sha256().digest_size
_FOLDER, _SUFFIX = "failing-records", ".record"


class FailingRecordError(PystateError):
    """A kept record is damaged, or of a version that isn't known here."""


class RecordOutcome(str, Enum):
    """Whether what a function that has failed was called with was kept."""

    KEPT = "kept"
    TOO_LARGE = "too-large"  # more than pystate.debug.failing-record-size, even the last batch alone
    UNREADABLE = "unreadable"  # a key, a value or a serializer of the program has failed, too


class StepKind(str, Enum):
    """What a subtask was given."""

    ROWS = "rows"
    WATERMARK = "watermark"
    CLOCK = "clock"


@dataclass(frozen=True)
class KeptStep:
    """Something that a subtask was given in an epoch.

    Attributes:
        kind: What it was.
        clock: The clock of the subtask, ms since 1970.
        input: The number of the input, from 0.
        rows: Rows of Arrow's IPC stream.
        time: The watermark, or the time up to which processing-time timers are due, ms since 1970.
    """

    kind: StepKind
    clock: int
    input: int = 0
    rows: bytes = b""
    time: int = 0


@dataclass(frozen=True)
class FailingRecord:
    """What a subtask had at hand when a function raised.

    Attributes:
        uid: The operator's uid.
        operator: Its name.
        subtask: The index of the subtask.
        parallelism: The number of subtasks.
        max_parallelism: The number of key groups.
        attempt: The execution attempt.
        time_ms: When it failed, ms since 1970.
        error: Class and message of the exception.
        key: The pickled key; None if none was the current one.
        state: A canonical file with the keyed state and the timers at the beginning of the epoch, windows among them: of the
            key, without one of all keys in the rows. None if not kept.
        steps: What came in the epoch: rows of the key, without a key all rows; watermarks; the clock. The failing record is
            among the last rows, the failing timer due at the last step.
        whole: Whether `steps` has all of them: larger epochs are cut at their beginning.
        watermark: Event time at the beginning of the epoch, ms since 1970.
        timer: Time domain and time of the timer that has failed; None for a record.
        outcome: Whether there are any steps.
        size: How many bytes the last rows take, in which the failing record is.
        broadcast: The pickled broadcast states at the beginning of the epoch: their entries, by name; None if not kept.
        lost: Why the keyed state, or all, could not be read; empty if it could, or was too large.
    """

    uid: str
    operator: str
    subtask: int
    parallelism: int
    max_parallelism: int
    attempt: int
    time_ms: int
    error: str
    key: bytes | None
    state: bytes | None
    steps: list[KeptStep]
    whole: bool
    watermark: int
    timer: tuple[str, int] | None = None
    outcome: RecordOutcome = RecordOutcome.KEPT
    size: int = 0
    broadcast: bytes | None = None
    lost: str = ""

    @property
    def not_kept(self) -> str:
        """The sentence that says why there are no rows."""
        if self.outcome is RecordOutcome.UNREADABLE:
            return f"what the function was called with can't be read: {self.lost}."
        limit = PystateOptions.FAILING_RECORD_SIZE.key
        return f"the rows that came with it take {self.size:,} bytes, which is more than {limit}."

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        body: bytes = msgpack.packb(asdict(self))
        return _MAGIC + _VERSION.to_bytes(2, "big") + hashlib.sha256(body).digest() + body

    @staticmethod
    def from_bytes(data: bytes, where: str) -> FailingRecord:
        """Read the content of a file.

        Raises:
            FailingRecordError: It is damaged, or of another version.
        """
        head, body = data[:_HEAD], data[_HEAD:]
        version = int.from_bytes(head[4:6], "big")
        if head[:4] == _MAGIC and version != _VERSION:
            message = f"The kept record has version {version}; this version of pystate knows {_VERSION}."
            raise FailingRecordError(message, where=where, hint="replay it with the version of pystate that has kept it")
        if head[:4] != _MAGIC or head[6:] != hashlib.sha256(body).digest():
            message = "The kept record is damaged."
            raise FailingRecordError(message, where=where)
        plain = msgpack.unpackb(body)
        steps = [KeptStep(**{**step, "kind": StepKind(step["kind"])}) for step in plain["steps"]]
        timer = None if plain["timer"] is None else tuple(plain["timer"])
        return FailingRecord(**{**plain, "steps": steps, "timer": timer, "outcome": RecordOutcome(plain["outcome"])})


def keep_failing_record(job_folder: Path, data: bytes, most: int) -> Path:
    """Keep a record in a job's folder, and forget the oldest where there are more.

    Args:
        job_folder: The job's.
        data: The content of the file.
        most: How many are kept.

    Raises:
        OSError: It can't be written.
    """
    folder = job_folder / _FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    kept = kept_failing_records(job_folder)
    path = folder / f"{max(kept, default=0) + 1}{_SUFFIX}"
    replace_file(path, data, mode=0o600)
    for number in sorted(kept)[: max(0, len(kept) + 1 - most)]:
        with contextlib.suppress(OSError):
            kept[number].unlink()
    return path


def kept_failing_records(job_folder: Path) -> dict[int, Path]:
    """Return the files of the kept records by their numbers; the latest has the highest one."""
    found = (job_folder / _FOLDER).glob(f"*{_SUFFIX}")
    return {int(path.stem): path for path in found if path.stem.isdecimal()}


def read_failing_record(path: Path) -> FailingRecord:
    """Read a kept record, whose pickles are executed by the user who replays it: another one's file is refused.

    Raises:
        FailingRecordError: It is damaged, of another version, can't be read, or somebody else could have written it.
    """
    try:
        with open_regular(str(path)) as file:
            found, data = os.fstat(file.fileno()), file.read()
    except OSError as error:
        message = f"The kept record can't be read: {error.strerror or error}."
        raise FailingRecordError(message, where=str(path)) from error
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        message = "The kept record could have been written by somebody else, and replaying it runs what is in it."
        raise FailingRecordError(message, where=str(path), hint=f"if it is yours: chown $USER, chmod 600 {path}")
    return FailingRecord.from_bytes(data, str(path))
