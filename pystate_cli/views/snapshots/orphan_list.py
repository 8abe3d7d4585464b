"""The list of orphans of `pystate savepoints gc`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystate_cli.tables.column import Column
from pystate_cli.tables.kinds import SIZE, TEXT
from pystate_cli.tables.table_spec import TableSpec

if TYPE_CHECKING:
    from pystate.ops.catalog.garbage import Orphan

ORPHANS: TableSpec[Orphan] = TableSpec(
    (
        Column(
            "kind", lambda one: one.kind.name, TEXT, "What", plain="kind", json="kind",
            shown=lambda one, _: one.kind.value, least=12,
        ),
        Column("size", lambda one: one.size, SIZE, "Size", plain="size_bytes", json="bytes"),
        Column("path", lambda one: one.uri, TEXT, "Path", plain="path", json="path"),  # a partial path would be useless
    )
)  # fmt: skip
"""JSON is an entry of `orphans`."""
