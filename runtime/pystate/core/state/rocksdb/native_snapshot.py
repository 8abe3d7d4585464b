"""A native snapshot of the RocksDB backend: a RocksDB checkpoint of hard links, and a file that describes it.

The SST files never change, so that a later snapshot only has to upload new ones. The meta file is a block file
without blocks: its header holds the header of a canonical file, and per state the column family.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from pystate.common.errors import CorruptSnapshotError
from pystate.core.state.base.backend_snapshot import NativeSnapshot
from pystate.core.state.files.block_file import BlockFileFormat, BlockReader, BlockWriter
from pystate.core.state.files.canonical import CanonicalHeader
from pystate.core.state.rocksdb.linked_files import LinkedFiles

ROCKSDB_FORMAT = "rocksdb"
"""The format name of these files in handles."""

META_FORMAT = BlockFileFormat(b"PYSTROCK", 2, "the description of a RocksDB snapshot", plain_version=2)

_SST = ".sst"
_MAX_NUMBER = (1 << 64) - 1


@dataclass(frozen=True)
class NativeState:
    """The description of a state in the database.

    Attributes:
        family: The name of its column family.
        next_number: The next number of parts of its lists; 0 for other kinds.
    """

    family: str
    next_number: int = 0


@dataclass(frozen=True)
class NativeMeta:
    """The content of the meta file.

    Attributes:
        header: The header with keys and states, as in a canonical file.
        backend_id: The backend instance that took the snapshot.
        states: The states of the header, by key.
    """

    header: CanonicalHeader
    backend_id: str
    states: dict[str, NativeState]

    def write(self, sink: BinaryIO) -> None:
        """Write the file."""
        states = {name: [state.family, state.next_number] for name, state in self.states.items()}
        plain = {**self.header.to_plain(), "backend_id": self.backend_id, "families": states}
        BlockWriter(sink, META_FORMAT, plain).finish()

    @staticmethod
    def read(file: BinaryIO, where: str) -> NativeMeta:
        """Read the file.

        Raises:
            CorruptSnapshotError: It is damaged.
            RestoreError: A newer version wrote it.
        """
        reader = BlockReader(file, META_FORMAT, where)
        if reader.blocks:
            reader.damaged("it has blocks")
        try:
            return NativeMeta._from_plain(reader.header)
        except (ValueError, TypeError, LookupError) as error:
            return reader.damaged(f"its header says {error}")

    @staticmethod
    def _from_plain(plain: dict[str, Any]) -> NativeMeta:
        header = CanonicalHeader.from_plain(plain)
        backend_id, families = plain["backend_id"], plain["families"]
        states = {name: NativeState(*described) for name, described in families.items()}
        for state in states.values():
            number = state.next_number
            if not isinstance(state.family, str) or type(number) is not int or not 0 <= number <= _MAX_NUMBER:
                message = f"a state is {state}"
                raise ValueError(message)
        if not isinstance(backend_id, str) or states.keys() != {info.key for info in header.states}:
            message = "the states are not those of the column families"
            raise ValueError(message)
        if len({state.family for state in states.values()}) != len(states):
            message = "two states have one column family"
            raise ValueError(message)
        return NativeMeta(header, backend_id, states)


class RocksDBNativeSnapshot(NativeSnapshot):
    """A RocksDB checkpoint in its own folder.

    Args:
        linked: The folder; removed at `release`.
        meta: The content of the meta file.
    """

    def __init__(self, linked: LinkedFiles, meta: NativeMeta) -> None:
        self.format = ROCKSDB_FORMAT
        self.backend_id = meta.backend_id
        self._linked = linked
        self._meta = meta

    @property
    def shared_files(self) -> Mapping[str, str]:
        """Return the SST files."""
        return {name: path for name, path in self._linked.files().items() if name.endswith(_SST)}

    @property
    def private_files(self) -> Mapping[str, str]:
        """Return the list of SST files, and RocksDB's options."""
        return {name: path for name, path in self._linked.files().items() if not name.endswith(_SST)}

    def write_meta(self, sink: BinaryIO) -> None:
        """Write the meta file."""
        self._meta.write(sink)

    def release(self) -> None:
        """Remove the folder."""
        self._linked.release()


def check_families(meta: NativeMeta, found: set[str], where: str) -> None:
    """Reject a database whose column families don't match the states.

    Raises:
        CorruptSnapshotError: They don't match.
    """
    expected = {state.family for state in meta.states.values()}
    if found != expected:
        message = f"The snapshot's database has column families {sorted(found)}; its description names {sorted(expected)}."
        raise CorruptSnapshotError(message, where=where, hint="restore from another checkpoint or savepoint")
