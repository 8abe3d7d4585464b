"""The `_metadata` file: the complete description of a checkpoint or savepoint, with small state inline.

Layout, numbers big-endian: magic "PYSTMETA", version u32, body length u64, body (msgpack), crc32 u32 of everything before.
Every version keeps this frame, so that damage can be distinguished from a newer version. Unknown entries are ignored: within
a version the body may only grow.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace

import msgpack

from pystate.common.errors import CorruptSnapshotError, RestoreError, SnapshotError
from pystate.core.snapshot.metadata import CheckpointMetadata
from pystate.core.snapshot.operator_state import OperatorState
from pystate.core.snapshot.plain import UNREADABLE, pack_plain, unpack_plain, unsound

METADATA_VERSION = 2
"""The version this module writes. Version 1 is the same; its keyed state has neither namespaces nor timers, which a pystate
that writes version 1 doesn't know."""

IN_FLIGHT_METADATA_VERSION = 3
"""What it writes where data in flight is part of the checkpoint, which would be lost in a pystate that doesn't know of it;
the newest it reads."""

OLDEST_METADATA_VERSION = 1
"""The oldest version this module reads."""

_MAGIC = b"PYSTMETA"
_FLINK_MAGIC = bytes.fromhex("4960672d")
_HEAD = struct.Struct(">8sIQ")
_CRC = struct.Struct(">I")


def write_metadata(metadata: CheckpointMetadata) -> bytes:
    """Return the content of the `_metadata` file.

    Raises:
        SnapshotError: It can't be written, or could not be read back.
    """
    where = f"checkpoint {metadata.checkpoint_id}"
    try:
        body = _body(metadata)
        _check(metadata, body)
    except (CorruptSnapshotError, ValueError, TypeError, OverflowError) as error:
        reason = error.message if isinstance(error, CorruptSnapshotError) else str(error)
        message = f"The checkpoint's metadata can't be written: {reason}"
        raise SnapshotError(message, where=where) from error
    version = IN_FLIGHT_METADATA_VERSION if metadata.has_data_in_flight else METADATA_VERSION
    framed = _HEAD.pack(_MAGIC, version, len(body)) + body
    return framed + _CRC.pack(zlib.crc32(framed))


def _body(metadata: CheckpointMetadata) -> bytes:
    """Return the body; what subtasks have sent as bytes is in it as it came."""
    packer = msgpack.Packer(use_bin_type=True, unicode_errors="surrogatepass")
    plain = replace(metadata, operators=[]).to_plain()
    pieces = [packer.pack_map_header(len(plain))]
    for name, value in plain.items():
        pieces.append(packer.pack(name))
        if name == "operators":
            pieces.append(packer.pack_array_header(len(metadata.operators)))
            for operator in metadata.operators:
                pieces += _operator(operator, packer)
        else:
            pieces.append(packer.pack(value))
    return b"".join(pieces)


def _operator(operator: OperatorState, packer: msgpack.Packer) -> Iterator[bytes]:
    plain = replace(operator, subtasks={}).to_plain()
    yield packer.pack_map_header(len(plain))
    for name, value in plain.items():
        yield packer.pack(name)
        if name == "subtasks":
            yield packer.pack_map_header(len(operator.subtasks))
            for index, state in sorted(operator.subtasks.items()):
                yield packer.pack(index)
                yield state.packed or packer.pack(state.to_plain())
        else:
            yield packer.pack(value)


def _check(metadata: CheckpointMetadata, body: bytes) -> None:
    """Check that a body can be read: strictly what has been packed here, and that what subtasks sent is whole in it.

    Their states were read strictly when they came, and are half of the work of a checkpoint with thousands of them.

    Raises:
        CorruptSnapshotError, ValueError, TypeError: It can't.
    """
    rest = replace(metadata, operators=[one.without_packed() for one in metadata.operators])
    CheckpointMetadata.from_plain(unpack_plain(pack_plain(rest.to_plain())))
    reader = msgpack.Unpacker(max_buffer_size=len(body))
    reader.feed(body)
    reader.skip()
    if reader.tell() != len(body):
        raise unsound(what="its body has another length than what it consists of")


def read_metadata(data: bytes, where: str) -> CheckpointMetadata:
    """Read the content of a `_metadata` file.

    Args:
        data: The whole file.
        where: What errors name as the place, such as the snapshot's URI.

    Raises:
        CorruptSnapshotError: It is damaged, or no such file.
        RestoreError: A newer version wrote it.
    """
    version, body = _open_frame(data, where)
    newest = IN_FLIGHT_METADATA_VERSION
    if not OLDEST_METADATA_VERSION <= version <= newest:
        message = f"The snapshot's metadata has version {version}; this pystate reads up to version {newest}."
        raise RestoreError(message, where=where, hint="restore with the pystate version that wrote it, or a newer one")
    try:
        return CheckpointMetadata.from_plain(unpack_plain(body))
    except CorruptSnapshotError as error:
        error.where = where
        raise
    except UNREADABLE as error:
        raise _damaged(where, what=f"its body can't be read ({error})") from error


METADATA_HEAD_BYTES = _HEAD.size
"""How many bytes say how many a file has."""


def stated_size(head: bytes | bytearray) -> int | None:
    """Return the size of a metadata file from its beginning; None if it isn't a metadata file."""
    if len(head) < _HEAD.size or not head.startswith(_MAGIC):
        return None
    length: int = _HEAD.unpack_from(head)[2]
    return _HEAD.size + length + _CRC.size


def _open_frame(data: bytes, where: str) -> tuple[int, memoryview]:
    if not data.startswith(_MAGIC[: len(data)]) or not data:
        raise _foreign(data, where)
    if len(data) < _HEAD.size + _CRC.size:
        raise _damaged(where, what=f"it has only {len(data)} bytes")
    _, version, length = _HEAD.unpack_from(data)
    if length != len(data) - _HEAD.size - _CRC.size:
        missing = length + _HEAD.size + _CRC.size
        raise _damaged(where, what=f"it has {len(data)} bytes where its head says {missing}")
    view = memoryview(data)
    if zlib.crc32(view[: -_CRC.size]) != _CRC.unpack(view[-_CRC.size :])[0]:
        raise _damaged(where, what="its checksum is wrong")
    return version, view[_HEAD.size : -_CRC.size]


def _damaged(where: str, *, what: str) -> CorruptSnapshotError:
    message = f"The metadata file is damaged: {what}."
    return CorruptSnapshotError(message, where=where, hint="restore from another checkpoint or savepoint")


def _foreign(data: bytes, where: str) -> CorruptSnapshotError:
    if data.startswith(_FLINK_MAGIC):
        message = "This is a snapshot of Apache Flink; pystate can't read those."
        return CorruptSnapshotError(message, where=where, hint="give a checkpoint or savepoint that a pystate job took")
    message = (
        f"This is no metadata file of a pystate snapshot: it begins with {data[:8]!r} where {_MAGIC!r} should stand. "
        "Likely causes: (1) the path leads to another file of the snapshot, or to a file of another program, "
        "(2) the file was damaged or emptied where it is stored, "
        "(3) a copy changed it, such as a transfer in text mode or a copy that was cut off."
    )
    return CorruptSnapshotError(message, where=where, hint="give the snapshot's directory or its _metadata file")
