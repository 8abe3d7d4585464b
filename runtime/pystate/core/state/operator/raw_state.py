"""Raw state: bytes that an operator writes and reads itself, by key group or by partition.

Block files (see `state.files.block_file`). Keyed: magic "PYSTRAWK", part = key group. Per operator: magic "PYSTRAWO", part =
partition. Each stream of bytes is split into blocks. The data of an operator is collected in memory, since it is written
between two epochs, and is written to the checkpoint storage on the upload thread.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from pystate.common.errors import StateError
from pystate.common.key_groups import KeyGroupRange
from pystate.common.overrides import override
from pystate.core.api.checkpointed import RawKeyedStateOutput, RawOperatorStateOutput
from pystate.core.state.files.block_file import (
    BLOCK_BYTES,
    COMPRESSED_VERSION,
    Block,
    BlockFileFormat,
    BlockReader,
    BlockWriter,
)

RAW_KEYED_FORMAT = BlockFileFormat(b"PYSTRAWK", COMPRESSED_VERSION, "a file of raw keyed state")
RAW_OPERATOR_FORMAT = BlockFileFormat(b"PYSTRAWO", COMPRESSED_VERSION, "a file of raw operator state")


@dataclass(frozen=True)
class RawStateSnapshot:
    """The raw state of an operator for one checkpoint.

    Attributes:
        format: Keyed or per operator.
        parts: (key group or partition, its bytes), ascending.
    """

    format: BlockFileFormat
    parts: list[tuple[int, bytes]]

    def write(self, sink: BinaryIO, *, block_bytes: int = BLOCK_BYTES, compression: str | None = None) -> None:
        """Write the file. The caller opens and closes the sink."""
        header = {"parts": len(self.parts)}
        writer = BlockWriter(sink, self.format, header, block_bytes=block_bytes, compression=compression)
        for number, data in self.parts:
            chunks = [data[i : i + block_bytes] for i in range(0, len(data), block_bytes)]
            writer.write(0, number, chunks or [b""])
        writer.finish()


class _Streams:
    """Streams that are written one after another."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, bytes]] = []
        self._open: tuple[int, io.BytesIO] | None = None
        self._closed = False

    def check_open(self) -> None:
        if self._closed:
            message = "Raw state is written in snapshot_state only."
            raise StateError(message)

    def start(self, number: int) -> BinaryIO:
        self.check_open()
        self._end()
        stream = io.BytesIO()
        self._open = (number, stream)
        return stream

    def take(self) -> list[tuple[int, bytes]]:
        """Close the last stream and return the data of all streams; no more can be written."""
        self._end()
        self._closed = True
        return self._parts

    def _end(self) -> None:
        if self._open is not None:
            number, stream = self._open
            self._parts.append((number, stream.getvalue()))
            stream.close()  # later writes to it raise an error
            self._open = None


class RawKeyedStateWriter(RawKeyedStateOutput):
    """Collects the bytes of the key groups of one subtask.

    Args:
        key_groups: The key groups of the subtask.
    """

    def __init__(self, key_groups: KeyGroupRange) -> None:
        self._key_groups = key_groups
        self._streams = _Streams()
        self._last = -1

    @override
    def start_new_key_group(self, key_group: int) -> BinaryIO:
        self._streams.check_open()
        if key_group not in self._key_groups or key_group <= self._last:
            message = (
                f"Key group {key_group} can't follow {self._last}: they ascend, and this subtask owns {self._key_groups}."
            )
            if self._last < 0:
                message = f"Key group {key_group} isn't one of this subtask's, {self._key_groups}."
            raise StateError(message)
        stream = self._streams.start(key_group)
        self._last = key_group
        return stream

    def snapshot(self) -> RawStateSnapshot | None:
        """Close the output; return what was written, None if nothing."""
        parts = self._streams.take()
        return RawStateSnapshot(RAW_KEYED_FORMAT, parts) if parts else None


class RawOperatorStateWriter(RawOperatorStateOutput):
    """Collects the bytes of the partitions of one subtask."""

    def __init__(self) -> None:
        self._streams = _Streams()
        self._next = 0

    @override
    def start_new_partition(self) -> BinaryIO:
        stream = self._streams.start(self._next)
        self._next += 1
        return stream

    def snapshot(self) -> RawStateSnapshot | None:
        """Close the output; return what was written, None if nothing."""
        parts = self._streams.take()
        return RawStateSnapshot(RAW_OPERATOR_FORMAT, parts) if parts else None


def read_raw_state(
    file: BinaryIO, format: BlockFileFormat, wanted: Iterable[int], where: str | None = None
) -> Iterator[tuple[int, BinaryIO]]:
    """Iterate over (key group or partition, its bytes) of the wanted ones in a file.

    Args:
        file: Open for reading, can seek.
        format: Keyed or per operator.
        wanted: The numbers.
        where: What errors name as the place.

    Raises:
        CorruptSnapshotError: It is damaged.
    """
    reader = BlockReader(file, format, where)
    blocks: dict[int, list[Block]] = {}
    for block in reader.blocks:
        blocks.setdefault(block.part, []).append(block)
    if reader.header.get("parts") != len(blocks):
        reader.damaged("it has not as many parts as its header says")
    for number in wanted:
        if number in blocks:
            chunks = [chunk or b"" for block in blocks[number] for chunk in reader.read(block)]
            yield number, io.BytesIO(b"".join(chunks))
