"""Restored operator state that is not declared yet.

It stays in bytes until a function declares it, and is written unchanged to the next snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from pystate.common.errors import CorruptSnapshotError, RestoreError
from pystate.common.type_info import TypeInformation
from pystate.core.api.state import ListStateDescriptor, MapStateDescriptor
from pystate.core.state.files.block_file import Item
from pystate.core.state.keys.keys import KEY_ENCODING, KeyCodec, KeyCompatibility, check_key_compatible, key_type_name
from pystate.core.state.operator.format import OperatorStateInfo
from pystate.core.state.values.serializers import (
    SchemaCompatibility,
    TypeSerializer,
    resolve_compatibility,
    serializer_from_snapshot,
)


@dataclass
class RestoredOperatorState:
    """One state from a snapshot.

    Attributes:
        info: Its description; the number of entries is the total of all files.
        entries: The byte strings of each entry.
    """

    info: OperatorStateInfo
    entries: list[tuple[Item, ...]] = field(default_factory=list)

    def add(self, info: OperatorStateInfo, entries: list[tuple[Item, ...]]) -> None:
        """Add entries of another file.

        Raises:
            CorruptSnapshotError: The file says other things of the state.
        """
        if replace(info, entries=0) != replace(self.info, entries=0):
            message = f"Operator state {info.name!r} has different types in the files of one snapshot."
            raise CorruptSnapshotError(message)
        self.entries += entries

    def frozen_info(self) -> OperatorStateInfo:
        """Return its description for a new snapshot."""
        return replace(self.info, entries=len(self.entries))

    def items(self) -> Iterator[Item]:
        """Iterate over the byte strings of all entries."""
        return chain.from_iterable(self.entries)

    def elements(self, descriptor: ListStateDescriptor, serializer: TypeSerializer) -> list[Any]:
        """Return the elements in the form of a list state.

        Raises:
            RestoreError: They were written as another type.
        """
        convert = self._converter(descriptor.name, serializer)
        return [convert(entry[0]) for entry in self.entries]

    def mapping(self, descriptor: MapStateDescriptor, keys: KeyCodec, serializer: TypeSerializer) -> dict[Hashable, Any]:
        """Return the entries in the form of a broadcast state.

        Raises:
            RestoreError: They were written as other types.
        """
        self._check_keys(descriptor)
        convert = self._converter(descriptor.name, serializer)
        found = {keys.decode(key): convert(value) for key, value in self.entries if key is not None}
        if len(found) != len(self.entries):
            message = f"Broadcast state {descriptor.name!r} has a key twice."
            raise CorruptSnapshotError(message)
        return found

    def _check_keys(self, descriptor: MapStateDescriptor) -> None:
        if self.info.key_encoding != KEY_ENCODING:
            message = (
                f"The keys of broadcast state {descriptor.name!r} are written as {self.info.key_encoding!r}; this pystate "
                f"reads {KEY_ENCODING!r}."
            )
            raise RestoreError(message, hint="restore with the pystate version that wrote the snapshot, or a newer one")
        try:
            old = None if self.info.key_type is None else TypeInformation.from_plain(self.info.key_type)
        except ValueError as error:
            message = f"The description of the key type of broadcast state {descriptor.name!r} is damaged: {error}"
            raise CorruptSnapshotError(message) from error
        if check_key_compatible(old, descriptor.key_type_info) is KeyCompatibility.INCOMPATIBLE:
            message = (
                f"The keys of broadcast state {descriptor.name!r} were written as {key_type_name(old)}; the job declares "
                f"{key_type_name(descriptor.key_type_info)}. A key type never changes."
            )
            raise RestoreError(message, hint="declare the key type it was written with, or give the new state another name")

    def _converter(self, name: str, serializer: TypeSerializer) -> Callable[[bytes | None], Any]:
        resolution = resolve_compatibility(self.info.serializer, serializer, name)
        if resolution.compatibility is SchemaCompatibility.INCOMPATIBLE:
            message = f"Operator state {name!r} was written as another type: {resolution.reason}"
            raise RestoreError(message, hint="declare the type it was written with, or give the new state another name")
        migrate = resolution.migrate
        if migrate is None and not serializer.immutable:
            return lambda data: data
        old = serializer_from_snapshot(self.info.serializer)

        def convert(data: bytes | None) -> Any:
            if data is None:
                return None
            value = old.deserialize(data)
            if migrate is not None:
                value = migrate(value)
            if value is None:
                message = f"An entry of operator state {name!r} is null."
                raise CorruptSnapshotError(message)
            return serializer.check(value) if serializer.immutable else serializer.serialize(value)

        return convert
