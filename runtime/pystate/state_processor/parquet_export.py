"""Exports a state of a snapshot to a Parquet file, without Spark."""

from __future__ import annotations

from itertools import islice

import pyarrow.parquet as pq

from pystate.core.snapshot.reading.snapshot_table import BroadcastSelection, ListSelection, Selection
from pystate.state_processor.frame_columns import (
    Column,
    batches_of,
    broadcast_columns,
    keyed_columns,
    list_columns,
    schema_of,
)


def write_parquet(selection: Selection, file: str, limit: int | None, where: str) -> int:
    """Write a row per value, list element or map entry of a state; return their number.

    Args:
        selection: The state.
        file: The local file.
        limit: The maximum number of rows; None for all.
        where: The place, for errors.

    Raises:
        SnapshotError: A file of the snapshot is damaged, or Arrow can't represent a value.
    """
    columns = _columns(selection)
    count = 0
    with pq.ParquetWriter(file, schema_of(columns)) as writer:
        for batch in batches_of(columns, islice(selection.rows, limit), where):
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def _columns(selection: Selection) -> list[Column]:
    if isinstance(selection, BroadcastSelection):
        return broadcast_columns(selection.key_type, selection.type_info)
    if isinstance(selection, ListSelection):
        return list_columns(selection.type_info)
    return keyed_columns(selection.decoder, per_entry=True)
