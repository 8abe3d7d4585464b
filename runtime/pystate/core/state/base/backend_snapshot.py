"""Frozen views of a keyed state backend, and the header of the canonical files that they are written as."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO

from pystate.common.configuration.configuration import Configuration
from pystate.core.state.files.canonical import CanonicalHeader, StateMetaInfoSnapshot
from pystate.core.state.files.compression import snapshot_codec
from pystate.core.state.keys.key_context import InternalKeyContext
from pystate.core.state.keys.keys import KEY_ENCODING


@dataclass(frozen=True)
class KeyedStateSnapshotStats:
    """Statistics of a written snapshot: number of entries, and size of the file."""

    entries: int
    bytes: int


class KeyedStateSnapshot(ABC):
    """A frozen view of the last flushed epoch, writable from any thread. It must always be released by `release`."""

    @abstractmethod
    def write_canonical(self, sink: BinaryIO) -> KeyedStateSnapshotStats:
        """Write the view as a canonical file. The caller opens and closes the sink.

        Raises:
            SnapshotError: The snapshot was released before or meanwhile, or an entry can't be written.
        """

    @abstractmethod
    def release(self) -> None:
        """Release the view; an active writer stops with an error. Idempotent and thread-safe."""


def canonical_header(
    context: InternalKeyContext, configuration: Configuration, states: Iterable[StateMetaInfoSnapshot]
) -> CanonicalHeader:
    """Return the header of a canonical file of a backend."""
    return CanonicalHeader(
        key_type=context.key_codec.key_type,
        key_encoding=KEY_ENCODING,
        max_parallelism=context.max_parallelism,
        key_group_range=context.key_group_range,
        states=tuple(states),
        compression=snapshot_codec(configuration),
    )
