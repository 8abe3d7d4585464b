"""Which canonical files, and which of their entries, a backend takes over."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from pystate.common.errors import CorruptSnapshotError, RestoreError
from pystate.state.base.canonical import CanonicalHeader, CanonicalReader, Entry, StateMetaInfoSnapshot
from pystate.state.base.key_context import InternalKeyContext
from pystate.state.base.keys import KEY_ENCODING, KeyCodec, KeyCompatibility, check_key_compatible, key_type_name


def check_header_fits(header: CanonicalHeader, context: InternalKeyContext) -> None:
    """Refuse a canonical file that a backend can't take.

    Raises:
        RestoreError: Key encoding, max parallelism or key type differ.
    """
    if header.key_encoding != KEY_ENCODING:
        message = f"The snapshot's keys are written as {header.key_encoding!r}; this pystate reads {KEY_ENCODING!r}."
        raise RestoreError(message, hint="restore with the pystate version that wrote the snapshot, or a newer one")
    if header.max_parallelism != context.max_parallelism:
        message = (
            f"The snapshot was written with max parallelism {header.max_parallelism}, the operator has "
            f"{context.max_parallelism}; it can't change."
        )
        raise RestoreError(message, hint=f"set the max parallelism to {header.max_parallelism}")
    if check_key_compatible(header.key_type, context.key_codec.key_type) is KeyCompatibility.INCOMPATIBLE:
        old, new = key_type_name(header.key_type), key_type_name(context.key_codec.key_type)
        message = f"The snapshot's keys are {old}, the operator's are {new}; the type of a key can't change."
        raise RestoreError(message, hint="give key_by the key type the state was written with")


def restored_entries(
    reader: CanonicalReader, context: InternalKeyContext, state: StateMetaInfoSnapshot
) -> Iterator[tuple[int, Iterator[Entry]]]:
    """Iterate over the entries of a part of a state that are the backend's: (key group, entries).

    Key groups without any are left out.

    The first key of each key group is decoded and checked to hash to it. Where the file has keys of another type than the
    backend, all keys are decoded, which checks that each is one of the backend's type; its bytes are then the same.

    Raises:
        CorruptSnapshotError, RestoreError: See `KeyedStateBackend.restore`.
    """
    codec = context.key_codec
    for key_group in reader.key_groups():
        if key_group not in context.key_group_range:
            continue
        entries = reader.entries(state, key_group)
        first = next(entries, None)
        if first is None:
            continue
        key = codec.decode(first[0])
        if codec.key_group(key, context.max_parallelism) != key_group:
            shown = codec.external(key)
            message = f"State {state.name!r} has key {shown!r} in key group {key_group}, where it doesn't belong."
            raise CorruptSnapshotError(message)
        if reader.header.key_type != codec.key_type:
            entries = _decoded(entries, codec)
        yield key_group, chain((first,), entries)


def _decoded(entries: Iterator[Entry], codec: KeyCodec) -> Iterator[Entry]:
    decode = codec.decode
    for entry in entries:
        decode(entry[0])
        yield entry
