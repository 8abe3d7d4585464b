"""Reads the entries of a snapshot without a backend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

from pystate.api.state import StateKind
from pystate.state.base.canonical import Entry
from pystate.state.base.keys import KeyCodec
from pystate.state.base.schema import VOID_NAMESPACE, StateSchema, unpack_part
from pystate.state.base.ttl.serializer import without_time


def read_entries(schema: StateSchema, keys: KeyCodec, entries: Iterable[Entry]) -> Iterator[tuple[Any, Any]]:
    """Yield (key, what is stored for it) as user code knows them.

    That is the value of a value or reducing state, the accumulator of an aggregating state, the list of a list state; and
    for each entry of a map state, (map key, value).

    Args:
        schema: Of the state.
        keys: Of the keys.
        entries: Those of one key group, in the file's order.

    Raises:
        CorruptSnapshotError, RestoreError: An entry can't be read.
    """
    deserialize = schema.values.deserialize
    if schema.has_ttl:
        plain = deserialize
        deserialize = lambda data: plain(without_time(data))  # noqa: E731
    for data, of_key in groupby(entries, itemgetter(0)):
        key = keys.external(keys.decode(data))
        if schema.kind is StateKind.LIST:
            yield key, list(map(deserialize, chain.from_iterable(unpack_part(value) for _, _, value in of_key)))
        elif schema.user_keys is not None:
            user_keys = schema.user_keys
            for _, sub_key, value in of_key:
                user_key = user_keys.external(user_keys.decode(sub_key[len(VOID_NAMESPACE) :]))
                yield key, (user_key, deserialize(value))
        else:
            for _, _, value in of_key:
                yield key, deserialize(value)
