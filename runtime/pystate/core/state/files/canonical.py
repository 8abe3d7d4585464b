"""The canonical keyed-state file: one subtask's keyed state, readable by every backend, at any parallelism.

Layout, all numbers big-endian:

    magic "PYSTKEYS", version u16: 3 (1 and 2 have no namespaces; 2 is 1 with compressed blocks)
    header   length u32, msgpack, crc32 u32 of everything before
    blocks   state u16, key group u16, entries u32, length u32, msgpack list [key, sub-key, value, key, ...], crc32 u32
    index    msgpack list [state, key group, offset, length, entries, ...], a row per block in file order
    trailer  index offset u64, index length u32, index crc32 u32, header length u32, crc32 u32, "SYEKTSYP"

A reader goes from the trailer to the index to the blocks of the key groups it needs. A key group has as many blocks as it
takes, each about `BLOCK_BYTES` of entries. Each byte is covered by a checksum or compared, so damage is always detected;
lengths are trusted only within the file's size and after their checksum.

The content of sub-keys and values depends on the kind of state, see `schema`.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, islice
from typing import Any, BinaryIO

import msgpack

from pystate.common.errors import CorruptSnapshotError, RestoreError, SnapshotError
from pystate.common.files.whole_writes import write_fully
from pystate.common.held_checksum import held_crc32
from pystate.common.key_groups import MAX_PARALLELISM_LIMIT, KeyGroupRange
from pystate.common.type_info import TypeInformation
from pystate.core.state.files.block_file import list_head_bytes, unpack_flat
from pystate.core.state.files.compression import codec_from_plain, compress, decompress
from pystate.core.state.files.interpreter_share import InterpreterShare

FORMAT_VERSION = 3
"""The format version of files that are written, and the newest that is read. Older ones have neither namespaces nor timers;
else they are the same. With a `compression` in the header the list of each block is compressed, see `compression`."""

OLDEST_VERSION = 1

BLOCK_BYTES = 256 * 1024
"""Entries are gathered up to about this size in one block."""

PIECE_BYTES = 32 * 1024
"""The bytes of a block that are gathered at a time."""

_MAGIC = b"PYSTKEYS"
_END_MAGIC = b"SYEKTSYP"
_START = struct.Struct(">8sHI")
_BLOCK = struct.Struct(">HHII")
_CRC = struct.Struct(">I")
_TRAILER = struct.Struct(">QIII")
_TRAILER_BYTES = _TRAILER.size + _CRC.size + len(_END_MAGIC)
_MAX_HEADER_BYTES = 64 * 1024 * 1024
_MAX_HEADER_LIST = 8192
_MAX_BLOCK_BYTES = (1 << 32) - 1
_FIRST_ENTRIES, _NEXT_ENTRIES, _MOST_ENTRIES = 8, 32, 256
_GROWTH = 4
_PART_OVERHEAD = 5

Entry = tuple[bytes, bytes, bytes]
"""Key, sub-key, value."""

Piece = list[bytes]
"""Some entries as a flat list: key, sub-key, value, key, ..."""


@dataclass(frozen=True)
class StateMetaInfoSnapshot:
    """The description of a state in a snapshot.

    Attributes:
        name: Its name.
        kind: Its kind, a `StateKind` value.
        serializer: The snapshot of the serializer of its values, elements or map values; empty for timers, which have none.
        user_key: `{"type": ...}` with the type of the map keys, None for untyped; None if the state isn't a map.
        ttl: Whether each value begins with the 8 bytes of a timestamp.
        namespace: The snapshot of the serializer of its namespaces; None if it is scoped by key only.
        timers: The description of timers, see `TimerSchema`; None if the state isn't one of timers.
        part: 0, unless a file has entries of one state with several schemas: then each is a part with its own number. This
            happens if some of the subtasks had redeclared the state, and others had not.
    """

    name: str
    kind: str
    serializer: dict[str, Any]
    user_key: dict[str, Any] | None = None
    ttl: bool = False
    part: int = 0
    namespace: dict[str, Any] | None = None
    timers: dict[str, Any] | None = None

    @property
    def key(self) -> str:
        """The key that identifies the state or part: its name, if it has only one part."""
        return self.name if self.part == 0 else f"\0{self.part}\0{self.name}"

    @property
    def schema(self) -> StateMetaInfoSnapshot:
        """The same, independent of the part."""
        return self if self.part == 0 else replace(self, part=0)

    def to_plain(self) -> dict[str, Any]:
        """Return it as msgpack-able data."""
        return {
            "name": self.name,
            "kind": self.kind,
            "serializer": self.serializer,
            "user_key": self.user_key,
            "ttl": self.ttl,
            **({} if self.part == 0 else {"part": self.part}),
            **({} if self.namespace is None else {"namespace": self.namespace}),
            **({} if self.timers is None else {"timers": self.timers}),
        }

    @staticmethod
    def from_plain(plain: Any) -> StateMetaInfoSnapshot:
        """Rebuild it.

        Raises:
            ValueError, TypeError, LookupError: The data is none.
        """
        info = StateMetaInfoSnapshot(**plain)
        texts = isinstance(info.name, str) and isinstance(info.kind, str)
        user_key = info.user_key is None or (isinstance(info.user_key, dict) and info.user_key.keys() == {"type"})
        flags = isinstance(info.ttl, bool) and type(info.part) is int and info.part >= 0
        more = all(one is None or isinstance(one, dict) for one in (info.namespace, info.timers))
        if not texts or not isinstance(info.serializer, dict) or not user_key or not flags or not more:
            message = "a state is not described as it should be"
            raise ValueError(message)
        return info


@dataclass(frozen=True)
class CanonicalHeader:
    """The header of a canonical file.

    Attributes:
        compression: The compression of its blocks; None for no compression.
    """

    key_type: TypeInformation | None
    key_encoding: str
    max_parallelism: int
    key_group_range: KeyGroupRange
    states: tuple[StateMetaInfoSnapshot, ...]
    compression: str | None = None

    def to_plain(self) -> dict[str, Any]:
        """Return the header as msgpack-able data."""
        return {
            "key_type": None if self.key_type is None else self.key_type.to_plain(),
            "key_encoding": self.key_encoding,
            "max_parallelism": self.max_parallelism,
            "key_groups": [self.key_group_range.start, self.key_group_range.end],
            "states": [state.to_plain() for state in self.states],
            **({} if self.compression is None else {"compression": self.compression}),
        }

    @staticmethod
    def from_plain(plain: Any) -> CanonicalHeader:
        """Rebuild a header.

        Raises:
            ValueError, TypeError, LookupError: The data isn't a valid header.
        """
        key_type = None if plain["key_type"] is None else TypeInformation.from_plain(plain["key_type"])
        start, end = plain["key_groups"]
        states = tuple(map(StateMetaInfoSnapshot.from_plain, plain["states"]))
        header = CanonicalHeader(
            key_type,
            plain["key_encoding"],
            plain["max_parallelism"],
            KeyGroupRange(start, end),
            states,
            codec_from_plain(plain.get("compression")),
        )
        if not isinstance(header.key_encoding, str):
            message = "the key encoding is no text"
            raise ValueError(message)
        if not 1 <= header.max_parallelism <= MAX_PARALLELISM_LIMIT or end >= header.max_parallelism:
            message = f"key groups {start}..{end} of {header.max_parallelism}"
            raise ValueError(message)
        if len({s.key for s in states}) != len(states):
            message = "two states of one name"
            raise ValueError(message)
        return header


class CanonicalWriter:
    """Writes a canonical file to a sink, which need not be seekable. The header is written at once.

    Args:
        sink: The sink; the caller closes it.
        header: The header.
        block_bytes: The approximate size of a block.

    Attributes:
        entries: Entries written so far.
        bytes: Bytes written so far.
        piece_size: The preferred number of entries per piece.
    """

    def __init__(self, sink: BinaryIO, header: CanonicalHeader, *, block_bytes: int = BLOCK_BYTES) -> None:
        self._sink = sink
        self._header = header
        self._block_bytes = block_bytes
        self._states = {state.key: number for number, state in enumerate(header.states)}
        self._index: list[int] = []
        self._finished = False
        self._share = InterpreterShare()
        self._packer = msgpack.Packer(use_bin_type=True)
        self.piece_size = PieceSize()
        self.entries = 0
        self.bytes = 0
        plain = msgpack.packb(header.to_plain(), use_bin_type=True)
        start = _START.pack(_MAGIC, FORMAT_VERSION, len(plain)) + plain
        self._header_bytes = len(plain)
        self._write(start + _CRC.pack(zlib.crc32(start)))

    def _write(self, data: bytes) -> None:
        write_fully(self._sink, data)
        self.bytes += len(data)

    def write(self, state_key: str, key_group: int, entries: Iterable[Entry]) -> None:
        """Write entries (key, sub-key, value) of one state and key group; may be called again for the same pair."""
        self.write_pieces(state_key, key_group, pieces_of(entries, self.piece_size))

    def write_pieces(self, state_key: str, key_group: int, pieces: Iterable[Piece]) -> None:
        """Write entries in pieces: the work per entry is done in C, and the bytes of a piece are created at once.

        Args:
            state_key: Of the state or a part of it.
            key_group: Its key group.
            pieces: The entries, some at a time, as many as `piece_size` says. They don't show in the file.
        """
        state = self._number_of(state_key, key_group)
        waiting: list[bytes] = []
        size = count = 0
        limit, pack, piece_size = self._block_bytes, self._packer.pack, self.piece_size
        piece_size.start()
        for parts in pieces:
            try:
                data = pack(parts)
            except ValueError as error:
                raise self._too_large(state, str(error)) from error
            piece_size.took(len(parts) // 3, len(data))
            self._share.after(len(data))
            if len(data) > limit:  # entries are larger than those before them were
                self._write_waiting(state, key_group, count, waiting)
                waiting, size, count = [], 0, 0
                self._write_parts(state, key_group, parts)
                continue
            waiting.append(data)
            size += len(data)
            count += len(parts) // 3
            if size >= limit:
                self._write_waiting(state, key_group, count, waiting)
                waiting, size, count = [], 0, 0
        self._write_waiting(state, key_group, count, waiting)

    def write_parts(self, state_key: str, key_group: int, parts: list[bytes]) -> None:
        """Write entries, as `write`, from a flat list of the keys, sub-keys and values of all entries."""
        self._write_parts(self._number_of(state_key, key_group), key_group, parts)

    def _number_of(self, state_key: str, key_group: int) -> int:
        if key_group not in self._header.key_group_range:
            message = f"Key group {key_group} is not in the file's range {self._header.key_group_range}."
            raise SnapshotError(message, where=state_key)
        return self._states[state_key]

    def _write_parts(self, state: int, key_group: int, parts: list[bytes]) -> None:
        ends = list(accumulate(map(_PART_OVERHEAD.__add__, map(len, parts))))
        start, before = 0, 0
        while start < len(parts):
            # a block is full after the entry that fills it
            end = (bisect_left(ends, before + self._block_bytes, start) // 3 + 1) * 3
            try:
                payload = msgpack.packb(parts[start:end], use_bin_type=True)
            except ValueError as error:
                raise self._too_large(state, str(error)) from error
            self._write_block(state, key_group, len(parts[start:end]) // 3, payload)
            start, before = end, ends[min(end, len(ends)) - 1]

    def _write_waiting(self, state: int, key_group: int, count: int, waiting: list[bytes]) -> None:
        """Write lists of so many entries in all as one list, and that as a block."""
        if len(waiting) > 1:
            items = (memoryview(data)[list_head_bytes(data) :] for data in waiting)
            waiting = [b"".join((self._packer.pack_array_header(3 * count), *items))]
        if waiting:
            self._write_block(state, key_group, count, waiting[0])

    def _write_block(self, state: int, key_group: int, count: int, entries: bytes) -> None:
        try:
            payload = compress(self._header.compression, entries)
        except ValueError as error:
            raise self._too_large(state, str(error)) from error
        if len(payload) > _MAX_BLOCK_BYTES:
            raise self._too_large(state, f"{len(payload)} bytes")
        head = _BLOCK.pack(state, key_group, count, len(payload))
        block_bytes = len(head) + len(payload) + _CRC.size
        self._index += (state, key_group, self.bytes, block_bytes, count)
        checksum = _CRC.pack(held_crc32(payload, zlib.crc32(head)))
        self._write(b"".join((head, payload, checksum)))  # at once: each write lets the interpreter go
        self.entries += count

    def _too_large(self, state: int, why: str) -> SnapshotError:
        message = f"An entry of state {self._header.states[state].name!r} is too large for a snapshot: {why}."
        return SnapshotError(message)

    def finish(self) -> None:
        """Write index and trailer, without which the file is invalid."""
        if self._finished:
            return
        self._finished = True
        index = msgpack.packb(self._index)
        trailer = _TRAILER.pack(self.bytes, len(index), zlib.crc32(index), self._header_bytes)
        self._write(index)
        self._write(trailer + _CRC.pack(zlib.crc32(trailer)) + _END_MAGIC)


def pieces_of(entries: Iterable[Entry], size: PieceSize) -> Iterator[Piece]:
    """Return entries in the form of `CanonicalWriter.write_pieces`."""
    waiting = iter(entries)
    while piece := list(islice(waiting, size.count)):
        yield list(chain.from_iterable(piece))


class PieceSize:
    """Estimates how many entries make a piece of about `PIECE_BYTES`, from previous ones.

    Attributes:
        count: The estimate.
    """

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = _FIRST_ENTRIES

    def start(self) -> None:
        """Reset for other entries, which may be larger."""
        self.count = min(self.count, _NEXT_ENTRIES)

    def took(self, entries: int, size: int) -> None:
        """Update the estimate with the entries and bytes of a piece."""
        if entries and size:
            self.count = min(entries * PIECE_BYTES // size + 1, entries * _GROWTH, _MOST_ENTRIES)


@dataclass(frozen=True)
class _Block:
    offset: int
    length: int
    entries: int


class CanonicalReader:
    """Reads a canonical file.

    Args:
        file: Open for reading, seekable; the caller closes it.
        where: Its location for errors, such as the path.

    Attributes:
        header: The file's header.

    Raises:
        CorruptSnapshotError: The file is damaged, or not a canonical file.
        RestoreError: A newer version wrote it.
    """

    def __init__(self, file: BinaryIO, *, where: str | None = None) -> None:
        self._file = file
        self._where = where if where is not None else _name_of(file)
        self._size = file.seek(0, 2)
        index_offset, index_length, index_crc, header_length = self._read_trailer()
        self.header, body_offset = self._read_header(header_length)
        self._blocks = self._read_index(index_offset, index_length, index_crc, body_offset)

    def _damaged(self, what: str) -> CorruptSnapshotError:
        message = f"The keyed-state file is damaged: {what}."
        return CorruptSnapshotError(message, where=self._where, hint="restore from another checkpoint or savepoint")

    def _read(self, offset: int, length: int) -> bytes:
        if offset < 0 or length < 0 or offset + length > self._size:
            raise self._damaged(what="it ends too early")
        self._file.seek(offset)
        pieces, missing = [], length
        while missing:
            piece = self._file.read(missing)
            if not piece:
                raise self._damaged(what="it ends too early")
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces)

    def _read_trailer(self) -> tuple[int, int, int, int]:
        if self._size < _START.size + _CRC.size + _TRAILER_BYTES:
            raise self._damaged(what=f"it has only {self._size} bytes")
        if self._read(0, len(_MAGIC)) != _MAGIC:
            raise self._damaged(what="it doesn't begin as one")
        trailer = self._read(self._size - _TRAILER_BYTES, _TRAILER_BYTES)
        fields, rest = trailer[: _TRAILER.size], trailer[_TRAILER.size :]
        if rest != _CRC.pack(zlib.crc32(fields)) + _END_MAGIC:
            raise self._damaged(what="its end is missing or changed")
        index_offset, index_length, index_crc, header_length = _TRAILER.unpack(fields)
        if index_offset + index_length + _TRAILER_BYTES != self._size:
            raise self._damaged(what="its index isn't where it should be")
        return index_offset, index_length, index_crc, header_length

    def _read_header(self, length: int) -> tuple[CanonicalHeader, int]:
        if length > _MAX_HEADER_BYTES:
            raise self._damaged(what="its header is too long")
        data = self._read(0, _START.size + length + _CRC.size)
        body, crc = data[: -_CRC.size], data[-_CRC.size :]
        _, version, stated = _START.unpack_from(body)
        if crc != _CRC.pack(zlib.crc32(body)) or stated != length:
            raise self._damaged(what="its header is changed")
        if not OLDEST_VERSION <= version <= FORMAT_VERSION:
            message = f"The keyed-state file has version {version}; this pystate reads up to version {FORMAT_VERSION}."
            raise RestoreError(
                message, where=self._where, hint="restore with the pystate version that wrote it, or a newer one"
            )
        try:
            plain = msgpack.unpackb(body[_START.size :], raw=False, max_array_len=_MAX_HEADER_LIST)
            return CanonicalHeader.from_plain(plain), len(data)
        except (ValueError, TypeError, LookupError) as error:
            what = f"its header says {error}"
            raise self._damaged(what) from error

    def _read_index(self, offset: int, length: int, crc: int, body_offset: int) -> dict[tuple[int, int], list[_Block]]:
        data = self._read(offset, length)
        if zlib.crc32(data) != crc:
            raise self._damaged(what="its index is changed")
        try:
            rows = unpack_flat(data)
        except ValueError as error:
            raise self._damaged(what="its index can't be read") from error
        if not isinstance(rows, list) or len(rows) % 5 or not all(type(number) is int for number in rows):
            raise self._damaged(what="its index is none")
        blocks: dict[tuple[int, int], list[_Block]] = {}
        position = body_offset
        for i in range(0, len(rows), 5):
            state, key_group, start, size, entries = rows[i : i + 5]
            if start != position or size < _BLOCK.size + _CRC.size or start + size > offset:
                raise self._damaged(what="its blocks have gaps")
            if not 0 <= state < len(self.header.states) or key_group not in self.header.key_group_range:
                raise self._damaged(what="its index names an unknown state or key group")
            blocks.setdefault((state, key_group), []).append(_Block(start, size, entries))
            position += size
        if position != offset:
            raise self._damaged(what="its blocks have gaps")
        return blocks

    def key_groups(self) -> Sequence[int]:
        """Return the key groups that have entries, ascending."""
        return sorted({key_group for _, key_group in self._blocks})

    def parts(self, state_name: str) -> list[StateMetaInfoSnapshot]:
        """Return the descriptions of a state: one, or one for each of its parts; none for an unknown state."""
        return [state for state in self.header.states if state.name == state_name]

    def entry_count(self, state: str | StateMetaInfoSnapshot) -> int:
        """Return the number of entries of a state, or of one part of it, from the index."""
        numbers = self._numbers(state)
        return sum(block.entries for (number, _), blocks in self._blocks.items() if number in numbers for block in blocks)

    def key_group_bytes(self, state: str | StateMetaInfoSnapshot) -> dict[int, int]:
        """Return the size of the blocks of each key group of a state, or of one part of it, from the index."""
        numbers = self._numbers(state)
        found: dict[int, int] = {}
        for (number, key_group), blocks in self._blocks.items():
            if number in numbers:
                found[key_group] = found.get(key_group, 0) + sum(block.length for block in blocks)
        return found

    def _numbers(self, wanted: str | StateMetaInfoSnapshot) -> list[int]:
        if isinstance(wanted, str):
            found = [number for number, state in enumerate(self.header.states) if state.name == wanted]
        else:
            found = [number for number, state in enumerate(self.header.states) if state == wanted]
        if not found:
            name = wanted if isinstance(wanted, str) else wanted.name
            message = f"The snapshot has no state {name!r}."
            raise SnapshotError(message, where=self._where)
        return found

    def entries(self, state: str | StateMetaInfoSnapshot, key_group: int) -> Iterator[Entry]:
        """Iterate over (key, sub-key, value) bytes of a state, or of one part of it, and key group, block by block.

        Raises:
            CorruptSnapshotError: A block is damaged.
            SnapshotError: There is no such state.
        """
        for parts in self.blocks(state, key_group):
            triples = iter(parts)
            yield from zip(triples, triples, triples, strict=True)

    def blocks(self, state: str | StateMetaInfoSnapshot, key_group: int) -> Iterator[list[bytes]]:
        """Iterate over the blocks as flat lists of the keys, sub-keys and values of the entries.

        Raises:
            CorruptSnapshotError, SnapshotError: As `entries`.
        """
        for number in self._numbers(state):
            for block in self._blocks.get((number, key_group), ()):
                yield self._read_block(number, key_group, block)

    def _read_block(self, state: int, key_group: int, block: _Block) -> list[bytes]:
        data = self._read(block.offset, block.length)
        if data[-_CRC.size :] != _CRC.pack(zlib.crc32(memoryview(data)[: -_CRC.size])):
            raise self._damaged(what=f"key group {key_group} of state {self.header.states[state].name!r} is changed")
        if _BLOCK.unpack_from(data) != (state, key_group, block.entries, block.length - _BLOCK.size - _CRC.size):
            raise self._damaged(what=f"key group {key_group} isn't where the index says")
        try:
            parts = unpack_flat(decompress(self.header.compression, memoryview(data)[_BLOCK.size : -_CRC.size]))
        except ValueError as error:
            raise self._damaged(what=f"key group {key_group} can't be read") from error
        if not isinstance(parts, list) or len(parts) != 3 * block.entries or not set(map(type, parts)) <= {bytes}:
            raise self._damaged(what=f"key group {key_group} holds no entries")
        return parts


def _name_of(file: BinaryIO) -> str | None:
    name = getattr(file, "name", None)
    return name if isinstance(name, str) else None
