"""The operator-state file: the operator state of one operator in one subtask.

A block file (see `files.block_file`) with magic "PYSTOPER". The header lists the states: name, mode, number of entries,
serializer snapshot, and for broadcast state the type and encoding of its keys. Section i holds the entries of state i, in
order: an element of a list state is one byte string, an entry of a broadcast state is two (key; value, or nil for None). The
index has the number of entries of each block, so that a subtask only reads the blocks with its elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, BinaryIO

from pystate.core.state.files.block_file import (
    BLOCK_BYTES,
    COMPRESSED_VERSION,
    Block,
    BlockFileFormat,
    BlockReader,
    BlockWriter,
    Item,
)


class OperatorStateMode(str, Enum):
    """Flink's modes; the values are part of the snapshot format."""

    SPLIT_DISTRIBUTE = "SPLIT_DISTRIBUTE"  # each element goes to one subtask, evenly
    UNION = "UNION"  # all elements of all subtasks go to every subtask
    BROADCAST = "BROADCAST"  # each subtask gets one old subtask's copy, all of which are the same


OPERATOR_STATE_FORMAT = BlockFileFormat(b"PYSTOPER", COMPRESSED_VERSION, "an operator-state file")


@dataclass(frozen=True)
class OperatorStateInfo:
    """The description of one state in a file.

    Attributes:
        entries: The number of elements, or of map entries.
        serializer: The snapshot of the serializer of elements or map values.
        key_type: For broadcast state: the type of the map keys as plain data, None for untyped.
        key_encoding: For broadcast state: the encoding of its keys; else None.
    """

    name: str
    mode: OperatorStateMode
    entries: int
    serializer: dict[str, Any]
    key_type: dict[str, Any] | None = None
    key_encoding: str | None = None

    @property
    def stride(self) -> int:
        """The number of byte strings per entry."""
        return 2 if self.mode is OperatorStateMode.BROADCAST else 1

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "name": self.name,
            "mode": self.mode.value,
            "entries": self.entries,
            "serializer": self.serializer,
            "key_type": self.key_type,
            "key_encoding": self.key_encoding,
        }

    @staticmethod
    def from_plain(plain: Any) -> OperatorStateInfo:
        """Rebuild it.

        Raises:
            ValueError, TypeError, LookupError: The data is none.
        """
        info = OperatorStateInfo(
            plain["name"],
            OperatorStateMode(plain["mode"]),
            plain["entries"],
            plain["serializer"],
            plain["key_type"],
            plain["key_encoding"],
        )
        is_broadcast = info.mode is OperatorStateMode.BROADCAST
        if (
            not isinstance(info.name, str)
            or type(info.entries) is not int
            or info.entries < 0
            or not isinstance(info.serializer, dict)
            or not isinstance(info.key_type, (dict, type(None)))
            or isinstance(info.key_encoding, str) is not is_broadcast
        ):
            message = "a state is described by other things than it should be"
            raise ValueError(message)
        return info


def write_operator_state(
    sink: BinaryIO,
    states: Iterable[tuple[OperatorStateInfo, Iterable[Item]]],
    *,
    block_bytes: int = BLOCK_BYTES,
    compression: str | None = None,
) -> None:
    """Write a file.

    Args:
        sink: Where the bytes go; the caller closes it.
        states: Each state with the byte strings of its entries, exactly as many as its description says.
        block_bytes: About how large a block gets.
        compression: How blocks are compressed; None for not at all.
    """
    pairs = list(states)
    header = {"states": [info.to_plain() for info, _ in pairs]}
    writer = BlockWriter(sink, OPERATOR_STATE_FORMAT, header, block_bytes=block_bytes, compression=compression)
    for number, (info, items) in enumerate(pairs):
        writer.write(number, 0, items, stride=info.stride)
    writer.finish()


class OperatorStateReader:
    """Reads a file.

    Args:
        file: Open for reading, seekable; the caller closes it.
        where: Its location for errors, such as the path.

    Attributes:
        states: The descriptions of the states, by name.

    Raises:
        CorruptSnapshotError: It is damaged, or not a file of this format.
        RestoreError: A newer version wrote it.
    """

    def __init__(self, file: BinaryIO, where: str | None = None) -> None:
        self._reader = BlockReader(file, OPERATOR_STATE_FORMAT, where)
        try:
            infos = [OperatorStateInfo.from_plain(plain) for plain in self._reader.header["states"]]
        except (ValueError, TypeError, LookupError) as error:
            self._reader.damaged(f"its header says {error}")
        self.states = {info.name: info for info in infos}
        if len(self.states) != len(infos):
            self._reader.damaged("two states have one name")
        self._blocks: dict[str, list[Block]] = {info.name: [] for info in infos}
        for block in self._reader.blocks:
            if block.section >= len(infos) or block.part != 0:
                self._reader.damaged("its index names an unknown state")
            self._blocks[infos[block.section].name].append(block)
        for info in infos:
            if sum(block.items for block in self._blocks[info.name]) != info.entries * info.stride or any(
                block.items % info.stride for block in self._blocks[info.name]
            ):
                self._reader.damaged(f"state {info.name!r} has not as many entries as its header says")

    def size_of(self, name: str) -> int:
        """Return the size of the blocks of a state, from the index."""
        return sum(block.length for block in self._blocks[name])

    def entries(self, name: str, start: int, stop: int) -> Iterator[tuple[Item, ...]]:
        """Iterate over the byte strings of the entries `start..stop-1` of a state, without reading other blocks.

        Raises:
            CorruptSnapshotError: A block is damaged, or there are not so many entries.
        """
        info = self.states.get(name)
        if info is None or not 0 <= start <= stop <= info.entries:
            self._reader.damaged(f"it has no entries {start}..{stop} of a state {name!r}")
        stride, first = info.stride, 0
        for block in self._blocks[name]:
            end = first + block.items // stride
            if first < stop and start < end:
                items = self._reader.read(block)
                for entry in range(max(start, first) - first, min(stop, end) - first):
                    found = tuple(items[entry * stride : (entry + 1) * stride])
                    if found[0] is None:
                        self._reader.damaged(f"an entry of state {name!r} is empty")
                    yield found
            first = end
