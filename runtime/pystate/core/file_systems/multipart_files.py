"""Recoverable files on S3: multipart uploads, whose object appears when they are completed.

Bytes that don't fill a part yet are kept in the checkpoint. The object carries a random token, by which a repeated commit
recognizes its own object.
"""

from __future__ import annotations

import contextlib
import errno
import secrets
from collections.abc import Callable, Iterator
from typing import Any

from pystate.core.file_systems.file_stores import s3_code
from pystate.core.file_systems.recoverable_files import (
    CommitOutcome,
    Recoverable,
    RecoverableFile,
    RecoverableFiles,
    UncommittableError,
)

_TOKEN = "pystate-file"  # noqa: S105 - the name of a header
_SKIPPED_PARTS = 100
"""The gap in part numbers between a resumed file and a process that may still write to it."""

_MOST_PARTS = 9_000
_GONE = ("NoSuchUpload", "NoSuchKey", "404")


class MultipartFiles(RecoverableFiles):
    """Objects below a prefix.

    Args:
        fs: The filesystem.
        part_size: The size of a part in bytes; S3 requires at least 5 MiB.
    """

    resumable = True

    def __init__(self, fs: Any, part_size: int) -> None:
        self._fs = fs
        self._part_size = part_size

    def open(self, final: str) -> RecoverableFile:
        """Begin an object; the first request to S3 is made with its first part."""
        return _Upload(self._fs, self._part_size, {"final": final, "token": secrets.token_hex(8), "size": 0})

    def prefix(self, kept: Recoverable) -> Iterator[bytes] | None:
        """Return the bytes of a persisted object of which S3 has no parts."""
        if not kept["parts"]:
            return iter([kept["tail"]])
        message = f"the upload of {kept['final']} has parts already, and can't go on elsewhere"
        raise UncommittableError(errno.EINVAL, message)

    def resume(self, kept: Recoverable) -> RecoverableFile | None:
        """Resume an upload that has parts, with part numbers that no other process uses."""
        if not kept["parts"]:
            return None
        bucket, key, _ = self._fs.split_path(kept["final"])
        try:
            self._fs.call_s3("list_parts", Bucket=bucket, Key=key, UploadId=kept["upload"], MaxParts=1)
        except OSError as error:
            if not _is_gone(error):
                raise
            message = f"the upload of {kept['final']} with its {kept['size']} bytes is over"
            raise UncommittableError(errno.ENOENT, message) from error
        return _Upload(self._fs, self._part_size, kept)

    def commit(self, kept: Recoverable) -> CommitOutcome:
        """Complete an upload."""
        bucket, key, _ = self._fs.split_path(kept["final"])
        parts = [{"PartNumber": number, "ETag": tag} for number, tag in kept["parts"]]
        try:
            self._fs.call_s3(
                "complete_multipart_upload",
                Bucket=bucket,
                Key=key,
                UploadId=kept["upload"],
                MultipartUpload={"Parts": parts},
            )
        except OSError as error:
            if not _is_gone(error):
                raise
            found = self._head(kept)
            if found == (kept["token"], kept["size"]):
                return CommitOutcome.ALREADY_COMMITTED
            what = "is not there" if found is None else "is another object"
            message = f"the upload of {kept['final']} is gone, and {kept['final']} {what}"
            raise UncommittableError(errno.ENOENT, message) from error
        return CommitOutcome.COMMITTED

    def discard(self, kept: Recoverable) -> None:
        """Do nothing: an upload without parts is in the checkpoint only."""

    def sweep(self, is_stale: Callable[[str], bool]) -> int:
        """Do nothing: the owner of an upload is unknown by now. The bucket's lifecycle rules abort the remaining ones."""
        del is_stale
        return 0

    def _head(self, kept: Recoverable) -> tuple[str | None, int] | None:
        """Return token and size of the object; None if there is none."""
        bucket, key, _ = self._fs.split_path(kept["final"])
        try:
            found = self._fs.call_s3("head_object", Bucket=bucket, Key=key)
        except OSError as error:
            if _is_gone(error):
                return None
            raise
        return found.get("Metadata", {}).get(_TOKEN), int(found["ContentLength"])


class _Upload(RecoverableFile):
    """An object that is being written.

    Args:
        fs: The filesystem.
        part_size: The bytes of a part.
        kept: Its persisted state; for a new one, `final`, `token` and `size`.
    """

    def __init__(self, fs: Any, part_size: int, kept: Recoverable) -> None:
        self._fs = fs
        self._part_size = part_size
        self._final: str = kept["final"]
        self._token: str = kept["token"]
        self._bucket, self._key, _ = fs.split_path(self._final)
        self._id: str | None = kept.get("upload")
        self._parts: list[tuple[int, str]] = [tuple(part) for part in kept.get("parts", ())]
        self._tail = bytearray(kept.get("tail", b""))
        self._size: int = kept["size"]
        self._next = 1 if not self._parts else self._parts[-1][0] + _SKIPPED_PARTS

    @property
    def full(self) -> bool:  # type: ignore[override]
        """Whether the part limit of S3 is almost reached."""
        return self._next > _MOST_PARTS

    def write(self, data: bytes) -> None:
        """Add bytes; send them once they fill a part."""
        self._tail += data
        self._size += len(data)
        if len(self._tail) >= self._part_size:
            self._send()

    def tell(self) -> int:
        """Return its size in bytes."""
        return self._size

    def persist(self) -> Recoverable:
        """Return the uploaded parts, and the bytes that were not uploaded yet."""
        return {
            "final": self._final,
            "token": self._token,
            "upload": self._id,
            "parts": list(self._parts),
            "tail": bytes(self._tail),
            "size": self._size,
        }

    def close_for_commit(self) -> Recoverable:
        """Send the last part, which may be short."""
        if self._tail or not self._parts:
            self._send()
        return self.persist()

    def close(self) -> None:
        """Do nothing: uploaded parts stay."""

    def discard(self) -> None:
        """Abort the upload."""
        if self._id is not None:
            with contextlib.suppress(OSError):
                self._fs.call_s3("abort_multipart_upload", Bucket=self._bucket, Key=self._key, UploadId=self._id)

    def _send(self) -> None:
        if self._id is None:
            begun = self._fs.call_s3(
                "create_multipart_upload", Bucket=self._bucket, Key=self._key, Metadata={_TOKEN: self._token}
            )
            self._id = begun["UploadId"]
        sent = self._fs.call_s3(
            "upload_part",
            Bucket=self._bucket,
            Key=self._key,
            UploadId=self._id,
            PartNumber=self._next,
            Body=bytes(self._tail),
        )
        self._parts.append((self._next, sent["ETag"]))
        self._next += 1
        self._tail.clear()


def _is_gone(error: OSError) -> bool:
    return isinstance(error, FileNotFoundError) or s3_code(error) in _GONE
