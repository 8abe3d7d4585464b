"""Records at which a function has failed, kept in a job's folder for the debugger.

A file is `PSFR`, the version (2 bytes, big-endian), the SHA-256 of the rest, and the rest: a msgpack map of the fields of
`FailingRecord`. The job's data is in it, so it is readable for the owner of the home only.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import asdict, dataclass, fields
from enum import Enum
from pathlib import Path

import msgpack

from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.errors import PystateError
from pystate.common.files.job_files import replace_file
from pystate.common.files.regular_files import open_regular

_MAGIC, _VERSION = b"PSFR", 1
_HEAD = len(_MAGIC) + 2 + hashlib.sha256().digest_size
_FOLDER, _SUFFIX = "failing-records", ".record"


class FailingRecordError(PystateError):
    """A kept record is damaged, or of a version that isn't known here."""


class RecordOutcome(str, Enum):
    """Whether the rows of a record at which a function has failed were kept."""

    KEPT = "kept"
    TOO_LARGE = "too-large"  # more than pystate.debug.failing-record-size, even the last batch alone
    UNREADABLE = "unreadable"  # a key, a value or a serializer of the program has failed, too


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
        state: The pickled values of the key's states at the beginning of the epoch, by name; None if not kept.
        batches: (number of the input, rows of Arrow's IPC stream): the epoch's rows of the key, the failing one among the
            last ones. Without a key all rows of the epoch.
        whole: Whether `batches` has all of them: larger epochs are cut at their beginning.
        outcome: Whether there are any; older files have only such.
        size: How many bytes the last batch takes, in which the failing record is.
        broadcast: The pickled broadcast states at the beginning of the epoch: their entries, by name; None if not kept.
        lost: Why the state of the key, or all, could not be read or pickled; empty if it could, or was too large.
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
    batches: list[tuple[int, bytes]]
    whole: bool
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
            raise FailingRecordError(message, where=where)
        if head[:4] != _MAGIC or head[6:] != hashlib.sha256(body).digest():
            message = "The kept record is damaged."
            raise FailingRecordError(message, where=where)
        plain = msgpack.unpackb(body)
        known = {field.name: plain[field.name] for field in fields(FailingRecord) if field.name in plain}
        known["batches"] = [(number, rows) for number, rows in known["batches"]]
        known["outcome"] = RecordOutcome(known.get("outcome", RecordOutcome.KEPT))
        return FailingRecord(**known)


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
