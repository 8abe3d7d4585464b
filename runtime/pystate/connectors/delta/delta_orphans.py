"""Finds files of a Delta table that no version has, and that no checkpoint will commit any more."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pystate.common.time import Duration, current_time_ms
from pystate.connectors.delta.delta_client import table_uri
from pystate.connectors.delta.delta_staging import LISTS, DeltaStaging
from pystate.connectors.lakehouse.orphan_age import HOUR_MS, whole_hours
from pystate.connectors.lakehouse.table_writer import FILES_OF_OURS

_NAME = re.compile(rf"^{FILES_OF_OURS}|(^|/)part-\d{{5}}-[0-9a-f-]{{36}}-c\d{{3}}[\w.]*\.parquet$")
"""Of what is staged, and of what writers of Delta name data files; deltalake rewrites with such names."""


def find_orphans(uri: str, older_than: Duration, storage_options: Mapping[str, str] | None = None) -> list[str]:
    """Return the paths, below the table, of data files that are in no version of it, and of lists of staged files.

    A job that was killed leaves them, and so does a commit of rows that replace others where another writer was first. Only
    files with a name that writers of Delta give are among them. Files that a version has removed are left to the table's own
    `vacuum`, since older versions have them. Savepoints that were taken with `cancel` or of a running job may still have to
    commit theirs when somebody resumes them: choose an age beyond the oldest savepoint that is to be resumed.

    Args:
        uri: The table.
        older_than: Their age; whole hours.
        storage_options: How its storage is reached.

    Raises:
        UsageError: The age is below an hour.
    """
    return _orphans(DeltaStaging(table_uri(uri), storage_options or {}), older_than)


def remove_orphans(uri: str, older_than: Duration, storage_options: Mapping[str, str] | None = None) -> list[str]:
    """Delete what `find_orphans` finds; return it."""
    table = DeltaStaging(table_uri(uri), storage_options or {})
    found = _orphans(table, older_than)
    table.folder.delete(found)
    return found


def _orphans(table: DeltaStaging, older_than: Duration) -> list[str]:
    hours = whole_hours(older_than, table.name)
    old = table.folder.older_than(current_time_ms() - hours * HOUR_MS)
    unused, removed = (
        set(table.table.vacuum(hours, dry_run=True, enforce_retention_duration=False, full=full)) for full in (True, False)
    )
    stray = unused - removed
    return sorted(path for path in old if path.startswith(f"{LISTS}/") or (path in stray and _NAME.search(path)))
