"""Compression of blocks of snapshot files, each by itself, so that readers can still access single blocks.

A compressed block consists of its original length (4 bytes, big-endian) and an LZ4 frame.
"""

from __future__ import annotations

import struct

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions

LZ4 = "lz4"
"""The codec that is written, and the only one that is read."""

_LENGTH = struct.Struct(">I")
_MAX_LENGTH = (1 << 32) - 1
_MAX_RATIO = 256  # LZ4 never gets further than 255; so a length that can't be is known before memory is taken for it


def snapshot_codec(configuration: Configuration) -> str | None:
    """Return the codec for writing blocks; None for no compression."""
    return LZ4 if configuration.get(CheckpointingOptions.SNAPSHOT_COMPRESSION) else None


def compress(codec: str | None, payload: bytes) -> bytes:
    """Return a block's bytes as written; None as codec leaves them unchanged."""
    if codec is None:
        return payload
    if len(payload) > _MAX_LENGTH:
        message = f"{len(payload)} bytes are too many for one block"
        raise ValueError(message)
    import pyarrow as pa  # here: commands that look into snapshots should answer in a blink

    return _LENGTH.pack(len(payload)) + bytes(pa.Codec(codec).compress(payload, asbytes=True))


def decompress(codec: str | None, stored: bytes | memoryview) -> bytes | memoryview:
    """Return a block's bytes.

    Raises:
        ValueError: They can't be decompressed.
    """
    if codec is None:
        return stored
    import pyarrow as pa

    if len(stored) < _LENGTH.size:
        message = "a compressed block is cut off"
        raise ValueError(message)
    (length,) = _LENGTH.unpack_from(stored)
    if length > len(stored) * _MAX_RATIO:
        message = f"a compressed block of {len(stored)} bytes states a length of {length}"
        raise ValueError(message)
    try:
        # Codec.decompress() fills up what is missing with whatever is in memory
        with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(stored[_LENGTH.size :])), codec) as stream:
            payload: bytes = stream.read(length + 1)
    except (OSError, pa.ArrowException) as error:
        message = f"a compressed block can't be read: {error}"
        raise ValueError(message) from error
    if len(payload) != length:
        message = f"a compressed block has {len(payload)} bytes or more where {length} are stated"
        raise ValueError(message)
    return payload


def codec_from_plain(name: object) -> str | None:
    """Return the codec that a header names; None if there is none.

    Raises:
        ValueError: There is none of that name.
    """
    if name is None or name == LZ4:
        return None if name is None else LZ4
    message = f"a compression {name!r} that is not known"
    raise ValueError(message)
