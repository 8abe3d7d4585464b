"""Reads the state of a checkpoint or savepoint without a job, without Spark, and without holding it in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pystate.common.type_info import TypeInformation
from pystate.core.api.state import StateKind
from pystate.core.snapshot.handles.incremental_handle import AnyKeyedStateHandle
from pystate.core.snapshot.operator_state import OperatorState
from pystate.core.snapshot.reading.keyed_files import described_states, key_type_of, open_keyed_state
from pystate.core.snapshot.reading.opened_snapshot import OpenedSnapshot
from pystate.core.snapshot.reading.operator_state_reader import SnapshotOperatorState
from pystate.core.snapshot.reading.state_rows import PartDecoders, StateRow
from pystate.core.state.base.state_schema import common_schema
from pystate.core.state.files.canonical import CanonicalReader, StateMetaInfoSnapshot
from pystate.core.state.keys.keys import KeyCodec


@dataclass(frozen=True)
class KeyedStateDescription:
    """The description of a keyed state of an operator.

    Attributes:
        parts: Its descriptions in the files: one, or several if subtasks had declared it differently.
        key_type: The declared type of the keys; None if it isn't declared.
    """

    parts: tuple[StateMetaInfoSnapshot, ...]
    key_type: TypeInformation | None

    @property
    def info(self) -> StateMetaInfoSnapshot:
        """Its description in the snapshot: of several schemas, the one to which the others migrate, else the first."""
        return (common_schema(self.parts) if len(self.parts) > 1 else None) or self.parts[0]

    @property
    def name(self) -> str:
        """The state's name."""
        return self.parts[0].name

    @property
    def kind(self) -> str:
        """The state's kind, a `StateKind` value."""
        return self.parts[0].kind


@dataclass(frozen=True)
class KeyedStateSummary(KeyedStateDescription):
    """The description and counts of a keyed state of an operator.

    Attributes:
        entries: The number of values, map entries or parts of lists.
        bytes: The size of its blocks in canonical files.
    """

    entries: int
    bytes: int


@dataclass(frozen=True)
class KeyFilter:
    """The selection of keys to read.

    Attributes:
        by_group: The bytes of the wanted keys by key group; None for all keys of a group.
    """

    by_group: dict[int, frozenset[bytes] | None]

    @staticmethod
    def of(keys: Iterable[Any], key_type: TypeInformation | None, max_parallelism: int) -> KeyFilter:
        """Return the filter for some keys.

        Raises:
            StateError: A key isn't of the type.
        """
        codec = KeyCodec(key_type)
        groups: dict[int, set[bytes]] = {}
        for key in keys:
            internal = codec.internal(key)
            groups.setdefault(codec.key_group(internal, max_parallelism), set()).add(codec.encode(internal))
        return KeyFilter({group: frozenset(found) for group, found in groups.items()})


def rows_of(
    reader: CanonicalReader, name: str, decoders: PartDecoders, groups: Iterable[int], wanted: KeyFilter | None = None
) -> Iterator[StateRow]:
    """Iterate over the rows of some key groups of a file, without reading blocks of others.

    Raises:
        CorruptSnapshotError, RestoreError: An entry can't be read.
    """
    parts = [(part, decoders.of(part)) for part in reader.parts(name)]
    for group in groups:
        for part, decoder in parts:
            entries: Iterable[tuple[bytes, bytes, bytes]] = reader.entries(part, group)
            keys = None if wanted is None else wanted.by_group.get(group, frozenset())
            if keys is not None:
                entries = (entry for entry in entries if entry[0] in keys)
            yield from decoder.rows(group, entries)


class SnapshotReader(OpenedSnapshot):
    """Reads the keyed state of a checkpoint or savepoint.

    Nothing is unpickled: a value of type PICKLED_BYTE_ARRAY is returned as pickle bytes.

    Args:
        path: See `OpenedSnapshot`.

    Attributes:
        operator_state: The reader of operator state.

    Raises:
        SnapshotError: See `OpenedSnapshot`.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.operator_state = SnapshotOperatorState(self)

    def keyed_states(self, uid: str) -> list[KeyedStateSummary]:
        """Return the keyed states of an operator, with counts.

        Of canonical files only the indexes are read; native files are downloaded and converted.

        Raises:
            SnapshotError: There is no such operator, or a file is damaged.
        """
        operator = self.operator(uid)
        entries: dict[str, int] = {}
        sizes: dict[str, int] = {}
        for handle in _keyed_handles(operator):
            with open_keyed_state(self.location, operator, handle, partly=True) as reader:
                for info in reader.header.states:
                    entries[info.name] = entries.get(info.name, 0) + reader.entry_count(info)
                    sizes[info.name] = sizes.get(info.name, 0) + sum(reader.key_group_bytes(info).values())
        return [
            KeyedStateSummary(state.parts, state.key_type, entries[state.name], sizes[state.name])
            for state in self.described_states(uid)
        ]

    def described_states(self, uid: str) -> list[KeyedStateDescription]:
        """Return the descriptions of the keyed states of an operator, from headers only, without reading entries.

        Raises:
            SnapshotError: There is no such operator, or a file is damaged.
        """
        operator = self.operator(uid)
        found: dict[str, tuple[StateMetaInfoSnapshot, ...]] = {}
        for handle in _keyed_handles(operator):
            for info in described_states(self.location, operator, handle):
                known = found.get(info.name, ())
                found[info.name] = known if info.schema in known else (*known, info.schema)
        key_type = key_type_of(operator) if found else None
        return [KeyedStateDescription(parts, key_type) for parts in found.values()]

    def keyed_state(self, uid: str, name: str) -> KeyedStateDescription:
        """Return the description of a keyed state of an operator, from headers only.

        Raises:
            SnapshotError: There is no such operator or state, or a file is damaged.
        """
        states = self.described_states(uid)
        for state in states:
            if state.name == name:
                return state
        raise self.unknown(uid, "keyed state", name, [state.name for state in states])

    def keyed_rows(
        self,
        uid: str,
        name: str,
        *,
        keys: Collection[Any] | None = None,
        key_group: int | None = None,
        key_type: TypeInformation | None = None,
        type_info: TypeInformation | None = None,
        user_key_type: TypeInformation | None = None,
    ) -> Iterator[StateRow]:
        """Iterate over the values, list elements or map entries of a keyed state, one key group after another.

        Args:
            uid: The operator.
            name: The state.
            keys: The keys to read; only the blocks of their key groups are read.
            key_group: The key group to read, where no keys are given.
            key_type: The type to read keys as; None for the written type.
            type_info: The type to read values as; None for the written type.
            user_key_type: The type to read map keys as; None for the written type.

        Raises:
            SnapshotError: There is no such operator or state, a file is damaged, or it can't be read with these types.
            StateError: A wanted key isn't of the keys' type.
        """
        operator = self.operator(uid)
        state = self.keyed_state(uid, name)
        decoders = PartDecoders(
            state.parts, state.key_type, read_key_type=key_type, type_info=type_info, read_user_key_type=user_key_type
        )
        wanted = None if key_group is None else KeyFilter({key_group: None})
        if keys is not None:
            wanted = KeyFilter.of(keys, decoders.common.key_type, operator.max_parallelism)
        return self._keyed_rows(operator, name, decoders, wanted)

    def _keyed_rows(
        self, operator: OperatorState, name: str, decoders: PartDecoders, wanted: KeyFilter | None
    ) -> Iterator[StateRow]:
        for reader, groups in self.keyed_readers(operator, wanted):
            yield from rows_of(reader, name, decoders, groups, wanted)

    def keyed_readers(
        self, operator: OperatorState, wanted: KeyFilter | None
    ) -> Iterator[tuple[CanonicalReader, Iterable[int]]]:
        """Open the keyed state of each subtask that may have the wanted keys; yield its reader and the groups to read."""
        for handle in _keyed_handles(operator):
            if wanted is not None and not any(group in handle.key_group_range for group in wanted.by_group):
                continue
            with open_keyed_state(self.location, operator, handle, partly=wanted is not None) as reader:
                yield reader, reader.key_groups() if wanted is None else sorted(wanted.by_group)

    def keyed_entries(self, uid: str, state_name: str) -> Iterator[tuple[Any, Any]]:
        """Yield (key, stored content), one key group after another within each subtask.

        The content is a value, an accumulator, a whole list or the time of a timer; a map state yields (key, (map key,
        value)) for each of its entries. If a state has namespaces, the key is (key, namespace).

        Raises:
            SnapshotError: There is no such operator or state, or a file is damaged.
        """
        state = self.keyed_state(uid, state_name)
        has_namespaces = state.info.namespace is not None
        for of_key in rows_by_key(self.keyed_rows(uid, state_name), apart=state.kind != StateKind.LIST.value):
            first = of_key[0]
            address = (first.key, first.namespace) if has_namespaces else first.key
            if state.kind == StateKind.LIST.value:
                yield address, [row.value for row in of_key]
            else:
                yield address, (first.sub_key, first.value) if state.kind == StateKind.MAP.value else first.value


def rows_by_key(rows: Iterable[StateRow], *, apart: bool = False) -> Iterator[list[StateRow]]:
    """Group the rows by key and namespace."""
    of_key: list[StateRow] = []
    for row in rows:
        last = of_key[0] if of_key else row
        if of_key and (apart or row.key_bytes != last.key_bytes or row.namespace_bytes != last.namespace_bytes):
            yield of_key
            of_key = []
        of_key.append(row)
    if of_key:
        yield of_key


def _keyed_handles(operator: OperatorState) -> Iterator[AnyKeyedStateHandle]:
    for _, state in sorted(operator.subtasks.items()):
        yield from state.keyed_state
