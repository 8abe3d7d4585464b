"""A file of checksummed blocks, for state that is not keyed: a header, lists of byte strings in blocks, an index, a trailer.

Layout, all numbers big-endian:

    magic 8 bytes, version u16
    header   length u32, msgpack, crc32 u32 of everything before
    blocks   section u16, part u32, items u32, length u32, msgpack list of bytes (or nil), crc32 u32 of offset and block
    index    msgpack list [section, part, offset, length, items, ...], a row per block in file order
    trailer  index offset u64, index length u32, index crc32 u32, header length u32, crc32 u32, the magic backwards

A reader goes from the trailer to the index to the blocks it needs. Each byte is covered by a checksum or compared, so damage
is always detected; lengths are trusted only within the file's size and after their checksum.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, BinaryIO, NoReturn

import msgpack

from pystate.common.errors import CorruptSnapshotError, RestoreError, SnapshotError
from pystate.core.state.files.compression import codec_from_plain, compress, decompress

_SHORT, _LONG, LONGEST_LIST = 0x90, 0xDC, 0xDD


def list_head_bytes(data: bytes) -> int:
    """Return the size of the header of a msgpack list."""
    return {_LONG: 3, LONGEST_LIST: 5}.get(data[0], 1)


def unpack_flat(data: bytes | memoryview) -> list[Any]:
    """Return the items of a list of byte strings or numbers, which may come from anybody.

    Msgpack makes room for a list of the stated length before it reads it, nested lists too: a few bytes that state a
    thousand lists in each other would take gigabytes. What is read here has no lists in it.

    Raises:
        ValueError: It isn't a list, or it contains lists or maps.
    """
    view = memoryview(data)
    first = view[0] if view else -1
    if first & 0xF0 == _SHORT:
        count, start = first & 0x0F, 1
    elif first == _LONG:
        count, start = int.from_bytes(view[1:3], "big"), 3
    elif first == LONGEST_LIST:
        count, start = int.from_bytes(view[1:5], "big"), 5
    else:
        message = "no list"
        raise ValueError(message)
    unpacker = msgpack.Unpacker(max_buffer_size=0, max_array_len=0, max_map_len=0, max_ext_len=0)  # a buffer of any size
    unpacker.feed(view[start:])
    items = list(unpacker)
    if len(items) != count or unpacker.tell() != len(view) - start:
        message = f"{len(items)} whole items where {count} are stated"
        raise ValueError(message)
    return items


BLOCK_BYTES = 256 * 1024
"""Items are gathered up to about this size in one block."""

_START = struct.Struct(">8sHI")
_BLOCK = struct.Struct(">HIII")
_CRC = struct.Struct(">I")
_TRAILER = struct.Struct(">QIII")
_TRAILER_BYTES = _TRAILER.size + _CRC.size + 8
_MAX_HEADER_BYTES = 64 * 1024 * 1024
_MAX_HEADER_LIST = 8192
_MAX_BLOCK_BYTES = (1 << 32) - 1
_ITEM_OVERHEAD = 5
_COMPRESSION = "compression"  # part of the header of version 2

COMPRESSED_VERSION = 2
"""The version of files with compressed blocks, see `compression`."""

Item = bytes | None


@dataclass(frozen=True)
class BlockFileFormat:
    """The format of a kind of block file.

    Attributes:
        magic: Its first eight bytes.
        version: The newest version that is read. Files with compressed blocks are written as version 2.
        what: Its name for errors.
        plain_version: The version of files written without compression.
    """

    magic: bytes
    version: int
    what: str
    plain_version: int = 1


@dataclass(frozen=True)
class Block:
    """A row of the index: section and part of the block, its location, its number of items."""

    section: int
    part: int
    offset: int
    length: int
    items: int


class BlockWriter:
    """Writes a file to a sink, which need not be seekable. The header is written at once.

    Args:
        sink: The sink; the caller closes it.
        format: The format.
        header: The plain data of the header.
        block_bytes: The approximate size of a block.
        compression: The compression of blocks; None for no compression. The format must have a version 2.
    """

    def __init__(
        self,
        sink: BinaryIO,
        format: BlockFileFormat,
        header: dict[str, Any],
        *,
        block_bytes: int = BLOCK_BYTES,
        compression: str | None = None,
    ) -> None:
        self._sink = sink
        self._format = format
        self._block_bytes = block_bytes
        self._index: list[int] = []
        self._written = 0
        self._compression = compression
        mark = {} if compression is None else {_COMPRESSION: compression}
        plain = msgpack.packb({**header, **mark}, use_bin_type=True)
        version = format.plain_version if compression is None else COMPRESSED_VERSION
        start = _START.pack(format.magic, version, len(plain)) + plain
        self._header_bytes = len(plain)
        self._write(start + _CRC.pack(zlib.crc32(start)))

    def write(self, section: int, part: int, items: Iterable[Item], *, stride: int = 1) -> None:
        """Write items of one section and part; may be called again for the same pair.

        Args:
            section: 0..65535.
            part: A number of 32 bits.
            items: Byte strings, or None.
            stride: So many items belong together and stay in one block.

        Raises:
            SnapshotError: An item is too large.
        """
        pending: list[Item] = []
        size = 0
        for item in items:
            pending.append(item)
            size += _ITEM_OVERHEAD + (0 if item is None else len(item))
            if size >= self._block_bytes and len(pending) % stride == 0:
                self._write_block(section, part, pending)
                pending, size = [], 0
        if pending:
            self._write_block(section, part, pending)

    def finish(self) -> None:
        """Write index and trailer, without which the file is invalid."""
        index = msgpack.packb(self._index)
        trailer = _TRAILER.pack(self._written, len(index), zlib.crc32(index), self._header_bytes)
        self._write(index)
        self._write(trailer + _CRC.pack(zlib.crc32(trailer)) + self._format.magic[::-1])

    def _write_block(self, section: int, part: int, items: list[Item]) -> None:
        try:
            payload = compress(self._compression, msgpack.packb(items, use_bin_type=True))
        except ValueError as error:
            message = f"An item is too large for {self._format.what}: {error}."
            raise SnapshotError(message) from error
        if len(payload) > _MAX_BLOCK_BYTES:
            message = f"An item is too large for {self._format.what}: {len(payload)} bytes."
            raise SnapshotError(message)
        head = _BLOCK.pack(section, part, len(items), len(payload))
        block = head + payload + _CRC.pack(_block_crc(self._written, head + payload))
        self._index += (section, part, self._written, len(block), len(items))
        self._write(block)

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while len(rest):
            written = self._sink.write(rest)
            if written is None:  # a sink that doesn't count takes all
                break
            rest = rest[written:]
        self._written += len(data)


class BlockReader:
    """Reads a file.

    Args:
        file: Open for reading, seekable; the caller closes it.
        format: The expected format.
        where: Its location for errors, such as the path.

    Attributes:
        header: The plain data of the header.
        blocks: The index.

    Raises:
        CorruptSnapshotError: It is damaged, or not a file of this format.
        RestoreError: A newer version wrote it.
    """

    def __init__(self, file: BinaryIO, format: BlockFileFormat, where: str | None = None) -> None:
        self._file = file
        self._format = format
        self._where = where
        self._size = file.seek(0, 2)
        header_bytes = self._check_start()
        if self._size < _TRAILER_BYTES:
            self.damaged("it is cut off")
        tail = self._read(self._size - _TRAILER_BYTES, _TRAILER_BYTES)
        if tail[-8:] != format.magic[::-1]:
            self.damaged("its end is missing")
        if tail[_TRAILER.size : -8] != _CRC.pack(zlib.crc32(tail[: _TRAILER.size])):
            self.damaged("its trailer is changed")
        index_offset, index_bytes, index_crc, stated_header_bytes = _TRAILER.unpack_from(tail)
        if stated_header_bytes != header_bytes or index_offset + index_bytes != self._size - _TRAILER_BYTES:
            self.damaged("its parts don't fit each other")
        body = _START.size + header_bytes + _CRC.size
        if body > index_offset:
            self.damaged("its parts don't fit each other")
        self.header = self._read_header(header_bytes)
        try:
            self._compression = codec_from_plain(self.header.get(_COMPRESSION))
        except ValueError as error:
            self.damaged(f"its header says {error}")
        self.blocks = self._read_index(index_offset, index_bytes, index_crc, body)

    def read(self, block: Block) -> list[Item]:
        """Return the items of a block.

        Raises:
            CorruptSnapshotError: The block is damaged.
        """
        data = self._read(block.offset, block.length)
        if data[-_CRC.size :] != _CRC.pack(_block_crc(block.offset, memoryview(data)[: -_CRC.size])):
            self.damaged(f"the block at byte {block.offset} is changed")
        expected = (block.section, block.part, block.items, block.length - _BLOCK.size - _CRC.size)
        if _BLOCK.unpack_from(data) != expected:
            self.damaged(f"the block at byte {block.offset} isn't the one of the index")
        try:
            items = unpack_flat(decompress(self._compression, memoryview(data)[_BLOCK.size : -_CRC.size]))
        except ValueError:
            self.damaged(f"the block at byte {block.offset} can't be read")
        if (
            not isinstance(items, list)
            or len(items) != block.items
            or not all(item is None or type(item) is bytes for item in items)
        ):
            self.damaged(f"the block at byte {block.offset} holds no byte strings")
        return items

    def damaged(self, why: str) -> NoReturn:
        """Raise the error for a damaged file."""
        message = f"{self._format.what[0].upper()}{self._format.what[1:]} is damaged: {why}."
        raise CorruptSnapshotError(message, where=self._where, hint="restore from another checkpoint or savepoint")

    def _check_start(self) -> int:
        start = self._read(0, min(_START.size, self._size))
        if len(start) < _START.size or not start.startswith(self._format.magic):
            self.damaged("it doesn't begin as one")
        _, version, header_bytes = _START.unpack(start)
        if version > self._format.version or version == 0:
            message = (
                f"{self._format.what[0].upper()}{self._format.what[1:]} has version {version}; this pystate reads up to "
                f"version {self._format.version}."
            )
            raise RestoreError(
                message, where=self._where, hint="restore with the pystate version that wrote it, or a newer one"
            )
        if header_bytes > min(_MAX_HEADER_BYTES, self._size):
            self.damaged("its header is cut off")
        return int(header_bytes)

    def _read_header(self, header_bytes: int) -> dict[str, Any]:
        data = self._read(0, _START.size + header_bytes + _CRC.size)
        if data[-_CRC.size :] != _CRC.pack(zlib.crc32(data[: -_CRC.size])):
            self.damaged("its header is changed")
        try:
            header = msgpack.unpackb(data[_START.size : -_CRC.size], strict_map_key=False, max_array_len=_MAX_HEADER_LIST)
        except ValueError:
            self.damaged("its header can't be read")
        if not isinstance(header, dict):
            self.damaged("its header is none")
        return header

    def _read_index(self, offset: int, length: int, crc: int, position: int) -> list[Block]:
        data = self._read(offset, length)
        if zlib.crc32(data) != crc:
            self.damaged("its index is changed")
        try:
            rows = unpack_flat(data)
        except ValueError:
            self.damaged("its index can't be read")
        if not isinstance(rows, list) or len(rows) % 5 or not all(type(number) is int and number >= 0 for number in rows):
            self.damaged("its index is none")
        blocks = [Block(*rows[i : i + 5]) for i in range(0, len(rows), 5)]
        for block in blocks:
            if block.offset != position or block.length < _BLOCK.size + _CRC.size or position + block.length > offset:
                self.damaged("its blocks have gaps")
            position += block.length
        if position != offset:
            self.damaged("its blocks have gaps")
        return blocks

    def _read(self, offset: int, length: int) -> bytes:
        self._file.seek(offset)
        data = self._file.read(length)
        if len(data) != length:
            self.damaged("it is cut off")
        return data


def _block_crc(offset: int, data: bytes | memoryview) -> int:
    """Return the checksum of a block, including the offset, so that a misplaced block is detected."""
    return zlib.crc32(data, zlib.crc32(offset.to_bytes(8, "big")))
