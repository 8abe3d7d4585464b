"""Resolves a path or a short id to one snapshot."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from pystate.common.errors import PystateError, RestoreError, UsageError
from pystate.core.snapshot.storage.snapshot_location import (
    METADATA_FILE,
    SnapshotLocation,
    is_snapshot_directory,
    parse_location,
    resolve_snapshot,
    snapshot_id_of,
)
from pystate.ops.catalog.listing import Directory, walk
from pystate.ops.catalog.snapshot_summary import SnapshotSummary, read_snapshot

_SAVEPOINT_ID = re.compile(r"[0-9a-f]{4,12}", re.IGNORECASE)
_CHECKPOINT_ID = re.compile(r"[0-9a-f]{6}-chk-\d+", re.IGNORECASE)
_LIST = "pystate savepoints list --all"
_SHOWN = 10


def may_be_id(text: str) -> bool:
    """Return whether a text may be the id of a snapshot: it has the form, and isn't a local file or folder."""
    looks_so = _SAVEPOINT_ID.fullmatch(text) or _CHECKPOINT_ID.fullmatch(text) or is_snapshot_directory(text)
    return bool(looks_so) and not os.path.exists(text)


def locate(text: str, directories: Iterable[str]) -> SnapshotLocation:
    """Return the snapshot for a path or a short id.

    Args:
        text: A directory, the `_metadata` in it, a short id, a prefix of a savepoint's id with at least 4 digits, or the
            name of a snapshot's directory.
        directories: Where to search ids; missing ones are skipped.

    Raises:
        UsageError: The id is ambiguous.
        SnapshotError: There is no such snapshot.
    """
    if not may_be_id(text):
        return resolve_snapshot(text)
    directories = [one for one in directories if _is_there(one)]
    wanted = text.lower()
    found = {location.uri: location for directory in directories for location in _named(directory, wanted)}
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        lines = [f'"{text}" may mean any of {len(found)} snapshots:', *(f"  {uri}" for uri in sorted(found)[:_SHOWN])]
        if len(found) > _SHOWN:
            lines.append(f"  and {len(found) - _SHOWN} more")
        raise UsageError("\n".join(lines), hint="give more digits of the id, or the path")
    message = f'There is no file "{text}", and no snapshot whose id begins so.'
    raise RestoreError(message, where=", ".join(directories) or None, hint=_LIST)


def _is_there(directory: str) -> bool:
    fs, path, _ = parse_location(directory)
    try:
        return bool(fs.isdir(path))
    except OSError:
        return False


def _named(directory: str, wanted: str) -> list[SnapshotLocation]:
    exact, begun = [], []
    for found in walk(directory):
        if not isinstance(found, Directory) or METADATA_FILE not in found.files:
            continue
        location = SnapshotLocation(found.uri)
        name, snapshot_id = found.name, _id_of(found, location)
        if wanted in (name, snapshot_id):
            exact.append(location)
        elif snapshot_id is not None and "-" not in snapshot_id and snapshot_id.startswith(wanted):
            begun.append(location)
    return exact or begun


def _id_of(found: Directory, location: SnapshotLocation) -> str | None:
    """Return the id from the name of the directory, or from the metadata if it was renamed."""
    job = found.uri.rsplit("/", 2)[-2]
    if is_snapshot_directory(found.name) and (found.name.startswith("savepoint-") or len(job) == 32):
        return snapshot_id_of(found.uri, job)
    try:
        return SnapshotSummary.of(read_snapshot(location), found.uri).snapshot_id
    except PystateError:
        return None
