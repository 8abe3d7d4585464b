"""The loops over the elements of a batch, each generated as one piece of code with all steps for an element.

They run once per element, so there is one loop per form of input rows, without branches in it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import pyarrow as pa

from pystate.common.user_code.inlined_code import Code, indented
from pystate.core.records.codec import KEY_GROUP_FIELD, TIMESTAMP_FIELD, RecordCodec
from pystate.core.records.key_column import KeyColumn
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.keys.key_context import InternalKeyContext
from pystate.core.state.keys.keys import KeyCodec
from pystate.runtime.slot.event_time.chain_time import ChainTime
from pystate.runtime.slot.operators.operator_output import Emit

Loop = Callable[[pa.RecordBatch], None]


class KeyedRows:
    """Reads the rows of a keyed input.

    Args:
        elements: Decodes the elements.
        key: The position of the key in the rows.
        keys: The key codec.
        backend: The state backend, which prefetches.
        check_route: Rejects rows of foreign key groups.
    """

    def __init__(
        self,
        elements: RecordCodec,
        key: KeyColumn,
        keys: KeyCodec,
        backend: KeyedStateBackend,
        check_route: Callable[[pa.Array], None],
    ) -> None:
        self._elements = elements
        self._column = key.column
        self._decode_keys = key.decoder(keys)
        self._shared = elements.plain_field(key.column) if key.is_plain else None
        self._backend = backend
        self._check_route = check_route

    def read(self, batch: pa.RecordBatch) -> tuple[Sequence[Hashable], list[int], list[Any]]:
        """Return keys, key groups and elements of a batch. A key that is a field of its element is the same object."""
        key_groups = batch.column(KEY_GROUP_FIELD)
        self._check_route(key_groups)
        groups: list[int] = key_groups.to_pylist()
        if self._shared is None:
            keys = self._decode_keys(batch.column(self._column))
            self._backend.prefetch(keys, groups)
            return keys, groups, self._elements.decode(batch)
        columns = self._elements.decode_columns(batch)
        keys = columns[self._shared]
        self._backend.prefetch(keys, groups)
        return keys, groups, self._elements.with_kinds(batch, self._elements.elements_of(columns))


def timestamps(batch: pa.RecordBatch) -> list[int | None]:
    """Return the times of a batch's elements."""
    times: list[int | None] = batch.column(TIMESTAMP_FIELD).to_pylist()
    return times


def element_loop(decode: Callable[[pa.RecordBatch], list[Any]], handle: Emit, time: ChainTime | None = None) -> Loop:
    """Return the function that processes the elements of a batch.

    Args:
        decode: Returns the elements of a batch.
        handle: Processes an element.
        time: Set to the time of each element; None if they have none.
    """
    code = Code()
    elements, head = f"{code.bind(decode, 'decode')}(batch)", "for element in {}:"
    if time is not None:
        head = f"for element, {code.bind(time, 'time')}.timestamp in {{}}:"
        elements = f"zip({elements}, {code.bind(timestamps, 'timestamps')}(batch), strict=True)"
    return code.function("batch", [head.format(elements), *indented(code.apply(handle, "element"))])


def keyed_loop(rows: KeyedRows, context: InternalKeyContext, handle: Emit, time: ChainTime | None = None) -> Loop:
    """Return the function that processes the elements of a batch, with the key of each as the current key.

    Args:
        rows: Reads the batch.
        context: Holds the current key.
        handle: Processes an element.
        time: Set to the time of each element; None if they have none.
    """
    code = Code()
    place = code.bind(context, "context")  # set as set_current_key does; calling that takes as long as reading a state
    targets, columns = f"{place}.active_key, {place}.active_key_group, element", f"*{code.bind(rows.read, 'rows')}(batch)"
    if time is not None:
        targets = f"{targets}, {code.bind(time, 'time')}.timestamp"
        columns = f"{columns}, {code.bind(timestamps, 'timestamps')}(batch)"
    head = f"for {targets} in zip({columns}, strict=True):"
    return code.function("batch", [head, *indented(code.apply(handle, "element"))])
