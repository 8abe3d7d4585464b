"""Write-ahead sinks, for systems whose transactions can't be finished by another process: records wait in the checkpoint.

The writer buffers the records between two checkpoints; the committable contains all of them, with an id of its own. The
committer writes them in one transaction, together with the id, so that a repeated commit finds that it is done. No
transaction stays open during a checkpoint, and nothing times out when a job is down for a day. The price: records are in
state until their checkpoint completes. Source: Flink's `GenericWriteAheadSink`.
"""

from __future__ import annotations

import tempfile
import uuid
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, Generic

import msgpack
import pyarrow as pa

from pystate.common.configuration.groups.sink_options import UnknownCommits
from pystate.common.errors import CorruptSnapshotError
from pystate.connectors.sink import CommitRequest, Committer, CommittingSinkWriter, SinkWriter
from pystate.core.api.type_variables import IN

__all__ = [
    "WriteAheadCommitter",
    "WriteAheadWriter",
]


_VERSION = 1
STAMPED_VERSION = 2
"""The format version of committables that say where their markers are; older versions of pystate don't write that."""
_CODEC = "lz4"
_CHUNK_RECORDS = 4096
_CHUNK_BYTES = 1 << 20
_HELD_BYTES = 8 << 20


class WriteAheadWriter(CommittingSinkWriter[IN, dict[str, Any]], Generic[IN]):
    """Buffers the records of a checkpoint: in memory up to a bound, beyond that in an unnamed file.

    Args:
        to_record: Makes a record from an element: plain values for msgpack; None skips the element.
    """

    def __init__(self, to_record: Callable[[IN, SinkWriter.Context], Any]) -> None:
        self._to_record = to_record
        self._pack: Callable[[Any], bytes] = msgpack.Packer(use_bin_type=True).pack
        self._records: list[bytes] = []
        self._size = 0
        self._count = 0
        self._chunks: list[tuple[int, int]] = []  # raw and stored length of each
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(_HELD_BYTES, prefix="write-ahead-")  # noqa: SIM115

    def write(self, element: IN, context: SinkWriter.Context) -> None:
        """Buffer an element."""
        record = self._to_record(element, context)
        if record is not None:
            self.append(record)

    def append(self, record: Any) -> None:
        """Buffer a record."""
        packed = self._pack(record)
        self._records.append(packed)
        self._size += len(packed)
        if self._size >= _CHUNK_BYTES or len(self._records) >= _CHUNK_RECORDS:
            self._end_chunk()

    def flush(self, end_of_input: bool) -> None:  # noqa: FBT001 - Flink's signature
        """Do nothing: records are written by the committer."""

    def prepare_commit(self) -> Sequence[dict[str, Any]]:
        """Return all records since the last call, with a new id; nothing if there are none."""
        self._end_chunk()
        if not self._count:
            return []
        self._file.seek(0)
        chunks = [(raw, self._file.read(stored)) for raw, stored in self._chunks]
        committable = {
            "version": _VERSION,
            "id": uuid.uuid4().hex,
            "records": self._count,
            "codec": _CODEC,
            "chunks": chunks,
        }
        self._drop()
        return [committable]

    def close(self) -> None:
        """Drop records that are in no checkpoint."""
        self._file.close()

    def _end_chunk(self) -> None:
        if not self._records:
            return
        raw = b"".join(self._records)
        stored = bytes(pa.Codec(_CODEC).compress(raw, asbytes=True))
        self._chunks.append((len(raw), len(stored)))
        self._file.write(stored)
        self._count += len(self._records)
        self._records, self._size = [], 0

    def _drop(self) -> None:
        self._chunks, self._count = [], 0
        self._file.close()
        self._file = tempfile.SpooledTemporaryFile(_HELD_BYTES, prefix="write-ahead-")  # noqa: SIM115


def records_of(committable: dict[str, Any]) -> Iterator[Any]:
    """Yield the records of a committable, in order.

    Raises:
        CorruptSnapshotError: It isn't from a `WriteAheadWriter`, or a part is missing.
    """
    if committable.get("version") not in (_VERSION, STAMPED_VERSION) or committable.get("codec") != _CODEC:
        message = "A committable of a sink that writes ahead is none that this pystate knows."
        raise CorruptSnapshotError(message, hint="go on with the pystate version that wrote it, or a newer one")
    count = 0
    for length, stored in committable["chunks"]:
        raw = pa.Codec(_CODEC).decompress(stored, decompressed_size=length, asbytes=True)
        for record in msgpack.Unpacker(_Bytes(raw), raw=False, use_list=True, strict_map_key=False, max_buffer_size=0):
            count += 1
            yield record
    if count != committable["records"]:
        message = f"A committable has {count} records, where {committable['records']} were written."
        raise CorruptSnapshotError(message)


def settle_unknown(request: CommitRequest[dict[str, Any]], error: BaseException, unknown: UnknownCommits) -> bool:
    """Settle a committable when nobody knows whether it is committed; return whether later ones wait."""
    if unknown is UnknownCommits.LEAVE_OUT:
        request.signal_failed_with_known_reason(error)
        return False
    request.signal_failed_with_unknown_reason(error)
    return True


class _Bytes:
    """The input stream of msgpack."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._place = 0

    def read(self, size: int) -> bytes:
        """Return the next bytes."""
        part = self._data[self._place : self._place + size]
        self._place += len(part)
        return bytes(part)


class WriteAheadCommitter(Committer[dict[str, Any]]):
    """Writes each committable in one transaction, together with its id."""

    def commit(self, requests: Sequence[CommitRequest[dict[str, Any]]]) -> None:
        """Commit, oldest first; if one requests a retry, all later ones wait."""
        waits = False
        for request in requests:
            if waits:
                request.retry_later()
                continue
            committable = request.get_committable()
            waits = self.write_once(str(committable["id"]), records_of(committable), request)

    @abstractmethod
    def write_once(self, commit_id: str, records: Iterator[Any], request: CommitRequest[dict[str, Any]]) -> bool:
        """Write the records and the id in one transaction, or find the id and write nothing.

        Args:
            commit_id: 32 hex digits, unique per committable.
            records: The results of `to_record`; can be iterated once.
            request: Receives the outcome (`signal_already_committed`, `retry_later`, ...).

        Returns:
            Whether a retry was requested.
        """
