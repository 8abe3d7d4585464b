"""The RocksDB backend: keyed state on local disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO

from pystate.api.state import State, StateDescriptor
from pystate.common.errors import ConfigurationError, PystateError, StateError
from pystate.common.key_groups import KeyGroupRange
from pystate.state.base.backend import NO_KEY, KeyedStateBackend, canonical_header
from pystate.state.base.canonical import CanonicalHeader, Entry
from pystate.state.base.keys import KeyCodec
from pystate.state.base.registry import RegisteredState, StateRegistry
from pystate.state.base.serializers import TypeSerializer
from pystate.state.base.value_states import OverlayValueState, create_value_state
from pystate.state.rocksdb.database import Database
from pystate.state.rocksdb.options import SharedMemory, process_memory
from pystate.state.rocksdb.snapshot import RocksDBSnapshot
from pystate.state.rocksdb.table import RocksDBTable, restored_rows


class RocksDBKeyedStateBackend(KeyedStateBackend):
    """Keyed state as rows of a RocksDB database, a column family per state.

    The running epoch lives in an overlay per state and goes to RocksDB when it is flushed: at once if it is small, else in
    chunks. If a chunk fails, the backend holds half an epoch: it then refuses to flush and to take snapshots, so that the
    half never gets anywhere, and the job has to be restored.

    Args:
        memory: What block cache and write buffers may take; None shares the process's own.

    Raises:
        ConfigurationError: There is no working directory.
        StateError: The database can't be made.
    """

    __slots__ = ("_broken", "_closed", "_database", "_registered", "_value_states")

    def __init__(
        self,
        *,
        key_codec: KeyCodec,
        key_group_range: KeyGroupRange,
        max_parallelism: int,
        working_directory: str | None = None,
        memory: SharedMemory | None = None,
    ) -> None:
        super().__init__(
            key_codec=key_codec,
            key_group_range=key_group_range,
            max_parallelism=max_parallelism,
            working_directory=working_directory,
        )
        if working_directory is None:
            message = "The rocksdb state backend needs a working directory."
            raise ConfigurationError(message, hint="give create_state_backend a folder on a local disk")
        self._registered: StateRegistry[RocksDBTable] = StateRegistry(self._create_table)
        self._value_states: list[tuple[OverlayValueState, RocksDBTable]] = []
        self._broken: PystateError | None = None
        self._closed = False
        self._database = Database(working_directory, memory or process_memory())

    def _create_table(self, name: str, serializer: TypeSerializer) -> RocksDBTable:
        return RocksDBTable(name, self._database, self.key_codec, serializer)

    def _create_state(self, descriptor: StateDescriptor) -> State:
        self._check_usable()
        registered = self._registered.declare(descriptor)
        state = create_value_state(descriptor.name, self, registered.serializer, registered.store)
        self._value_states.append((state, registered.store))
        return state

    def _check_usable(self) -> None:
        if self._closed:
            message = "The state backend is closed."
            raise StateError(message)
        if self._broken is not None:
            message = f"The state backend holds half an epoch, since its flush failed: {self._broken.message}"
            raise StateError(message, where=self._broken.where, hint=self._broken.hint) from self._broken

    def flush_epoch(self) -> None:
        """End the epoch; what it wrote goes to RocksDB."""
        self._check_usable()
        prepared = [(state, table, state.prepare_flush()) for state, table in self._value_states]
        for _, table, changes in prepared:
            table.check(changes, self.key_codec)
        try:
            for state, _, changes in prepared:
                state.apply_flush(changes)
            self._database.end_write()
        except BaseException as error:
            self._broken = error if isinstance(error, PystateError) else StateError(repr(error))
            self._database.discard_write()
            raise
        for state, _, _ in prepared:
            state.drop_epoch()
        self.active_key = NO_KEY

    def rollback_epoch(self) -> None:
        """Drop the overlay."""
        for state, _ in self._value_states:
            state.drop_epoch()
        self.active_key = NO_KEY

    def snapshot(self) -> RocksDBSnapshot:
        """Freeze the column families; the running epoch isn't in them yet."""
        self._check_usable()
        rows = {registered.name: self._database.freeze(registered.store.family) for registered in self._registered}
        self._database.retain()
        return RocksDBSnapshot(canonical_header(self, self._registered.meta_infos()), self._database, rows)

    def restore(self, sources: Iterable[BinaryIO]) -> None:
        """Fill the empty backend from canonical files.

        Entries are written as any others. SST files of sorted entries, ingested, took a third longer for 1 to 4 million
        entries: RocksDB builds the files of a write on its own threads, those of an SstFileWriter on ours.
        """
        self._check_usable()
        self._registered.check_empty()
        try:
            self._registered.restore(self, sources, self._take)
            self._database.end_write()
        except BaseException:
            self._registered.clear()
            self._database.discard_write()
            self._database.drop_families()
            raise

    def _take(
        self, header: CanonicalHeader, state: RegisteredState[RocksDBTable], key_group: int, entries: Iterator[Entry]
    ) -> None:
        if header.key_type != self.key_codec.key_type:
            entries = self._decoded(entries)
        self._database.write(state.store.family, restored_rows(key_group, entries))

    def _decoded(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        """Check that each key is one of the operator's type; its bytes are then the same."""
        decode = self.key_codec.decode
        for entry in entries:
            decode(entry[0])
            yield entry

    def state_names(self) -> list[str]:
        """Return the names of all states."""
        return self._registered.names()

    def entry_count(self) -> int:
        """Return the number of flushed entries. Reads the keys of all of them."""
        self._check_usable()
        return sum(self._database.count(registered.store.family) for registered in self._registered)

    def close(self) -> None:
        """Close RocksDB and remove its folder, once the open snapshots are released."""
        if self._closed:
            return
        self._closed = True
        self.active_key = NO_KEY
        for registered in self._registered:
            registered.store.detach()
        self._states.clear()
        self._descriptors.clear()
        self._value_states.clear()
        self._registered.clear()
        self._database.release()
