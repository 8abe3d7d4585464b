"""How a source reads a table: the columns, where it begins, whether it follows the table, what it leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from pystate.common.type_info import TypeInformation
from pystate.connectors.lakehouse.source_table import NOTHING, ChangeKind


class StartKind(Enum):
    """What a job reads first that starts without a snapshot."""

    SCAN = "the table as it is"
    EARLIEST = "the versions from the oldest one on"
    LATEST = "the versions that come"
    VERSION = "a version"
    TIMESTAMP = "a time"


@dataclass(frozen=True)
class TableSourceSettings:
    """How a table is read.

    Attributes:
        row_type: The columns to read: a named ROW.
        follows: Whether later versions are read, too; otherwise the source is bounded.
        start: What is read first. Of a followed table the versions from that version or time on; else the whole table then.
        version: The version, for `StartKind.VERSION`.
        timestamp_ms: The time, for `StartKind.TIMESTAMP`, ms since 1970.
        interval_ms: How often to look for new versions.
        skips: The versions that are left out; others that don't only add rows fail the job.
        skip_hint: The method of the builder that has versions left out.
    """

    row_type: TypeInformation | None = None
    follows: bool = False
    start: StartKind = StartKind.SCAN
    version: int = NOTHING
    timestamp_ms: int = 0
    interval_ms: int = 5000
    skips: frozenset[ChangeKind] = frozenset()
    skip_hint: Mapping[ChangeKind, str] = field(default_factory=dict)
