"""Selects the canonical files, and their entries, that a backend restores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from pystate.common.errors import CorruptSnapshotError, RestoreError
from pystate.core.api.state import StateKind
from pystate.core.state.base.state_schema import check_sub_key
from pystate.core.state.files.canonical import CanonicalHeader, CanonicalReader, Entry, StateMetaInfoSnapshot
from pystate.core.state.keys.key_context import InternalKeyContext
from pystate.core.state.keys.keys import KEY_ENCODING, KeyCodec, KeyCompatibility, check_key_compatible, key_type_name
from pystate.core.state.keys.namespaces import VOID_NAMESPACE


def check_header_fits(header: CanonicalHeader, context: InternalKeyContext) -> None:
    """Reject a canonical file that a backend can't take.

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


Block = list[bytes]
"""Some entries of one key group: the key, sub-key and value of one, those of the next, and so on."""


def restored_blocks(
    reader: CanonicalReader, context: InternalKeyContext, state: StateMetaInfoSnapshot, kind: StateKind
) -> Iterator[tuple[int, Iterator[Block]]]:
    """Iterate over the entries of a part of a state that belong to the backend: (key group, blocks).

    Key groups without any are left out. Sub-keys are such as the state's kind has.

    The first key of each key group is decoded and checked to hash to it. Where the file has keys of another type than the
    backend, all keys are decoded, which checks that each is one of the backend's type; its bytes are then the same.

    Raises:
        CorruptSnapshotError, RestoreError: See `KeyedStateBackend.restore`.
    """
    codec = context.key_codec
    decodes = reader.header.key_type != codec.key_type
    for key_group in reader.key_groups():
        if key_group not in context.key_group_range:
            continue
        blocks = (block for block in reader.blocks(state, key_group) if block)
        first = next(blocks, None)
        if first is None:
            continue
        key = codec.decode(first[0])
        if codec.key_group(key, context.max_parallelism) != key_group:
            shown = codec.external(key)
            message = f"State {state.name!r} has key {shown!r} in key group {key_group}, where it doesn't belong."
            raise CorruptSnapshotError(message)
        yield key_group, _checked(chain((first,), blocks), state, kind, codec if decodes else None)


def entries_in(blocks: Iterable[Block]) -> Iterator[Entry]:
    """Return the entries of blocks, without running Python code per entry."""
    return chain.from_iterable(zip(block[0::3], block[1::3], block[2::3], strict=True) for block in blocks)


def _checked(
    blocks: Iterable[Block], info: StateMetaInfoSnapshot, kind: StateKind, codec: KeyCodec | None
) -> Iterator[Block]:
    for block in blocks:
        if codec is not None:
            codec.decode_all(block[0::3])
        _check_sub_keys(info, kind, block)
        yield block


def _check_sub_keys(info: StateMetaInfoSnapshot, kind: StateKind, block: Block) -> None:
    if info.namespace is None and kind not in (StateKind.LIST, StateKind.TIMER):  # the usual case
        begin = VOID_NAMESPACE if kind is StateKind.MAP else b""
        if {sub_key[:1] for sub_key in block[1::3]} != {begin}:
            message = f"State {info.name!r} has an entry with a namespace, and is said to have none."
            raise CorruptSnapshotError(message)
        return
    for sub_key in block[1::3]:
        check_sub_key(info, kind, sub_key)
    if kind is StateKind.TIMER and any(block[2::3]):
        message = f"A timer of state {info.name!r} has a value."
        raise CorruptSnapshotError(message)
