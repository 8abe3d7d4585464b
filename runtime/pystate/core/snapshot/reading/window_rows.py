"""Reads the contents of merging windows, by merged window.

The contents of a merged window are stored under one of the original windows, which another state records: a map from the
windows of a key to those that store their contents. See `docs/snapshot-format.md`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from pystate.core.snapshot.reading.keyed_files import open_keyed_state
from pystate.core.snapshot.reading.snapshot_reader import KeyFilter, SnapshotReader, rows_of
from pystate.core.snapshot.reading.state_rows import PartDecoders, StateRow
from pystate.core.snapshot.reading.window_states import MERGING_WINDOW_SET, WINDOW_CONTENTS


def merged_rows(snapshot: SnapshotReader, uid: str, keys: Collection[Any] | None = None) -> Iterator[StateRow]:
    """Iterate over the contents of an operator's windows, each in the namespace of its window.

    The window mapping of one key group is held in memory.

    Args:
        snapshot: The snapshot.
        uid: The operator with merging windows.
        keys: The keys to read.

    Raises:
        SnapshotError: There are none, or a file is damaged.
    """
    operator = snapshot.operator(uid)
    states = [snapshot.keyed_state(uid, name) for name in (WINDOW_CONTENTS, MERGING_WINDOW_SET)]
    contents, pairs = (PartDecoders(state.parts, state.key_type) for state in states)
    wanted = None if keys is None else KeyFilter.of(keys, contents.common.key_type, operator.max_parallelism)
    for _, subtask in sorted(operator.subtasks.items()):
        for handle in subtask.keyed_state:
            if wanted is not None and not any(group in handle.key_group_range for group in wanted.by_group):
                continue
            with open_keyed_state(snapshot.location, operator, handle, partly=wanted is not None) as reader:
                for group in reader.key_groups() if wanted is None else sorted(wanted.by_group):
                    found = rows_of(reader, MERGING_WINDOW_SET, pairs, [group], wanted)
                    windows = {(pair.key_bytes, pair.value): pair.sub_key for pair in found}
                    for row in rows_of(reader, WINDOW_CONTENTS, contents, [group], wanted):
                        yield row._replace(namespace=windows.get((row.key_bytes, row.namespace), row.namespace))
