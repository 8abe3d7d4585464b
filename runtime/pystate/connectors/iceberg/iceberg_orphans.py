"""Finds files of an Iceberg table that no snapshot has, and that no checkpoint will commit any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow.fs as pf

from pystate.common.errors import ConfigurationError
from pystate.common.time import Duration, current_time_ms
from pystate.connectors.iceberg.iceberg_catalog import IcebergCatalog, checked_identifier
from pystate.connectors.iceberg.iceberg_staging import LISTS, IcebergStaging
from pystate.connectors.lakehouse.orphan_age import HOUR_MS, whole_hours

if TYPE_CHECKING:
    from pyiceberg.table import Table

_DATA_PATH = "write.data.path"
_METADATA_PATH = "write.metadata.path"
_METADATA_NAMES = (".metadata.json", ".metadata.json.gz", ".avro")
"""Of metadata files, and of manifests and their lists; what else is there, such as statistics, is left alone."""


def find_orphans(
    identifier: str, older_than: Duration, catalog: str = "default", properties: Mapping[str, str] | None = None
) -> list[str]:
    """Return the places of files that nobody reads: of data, of lists of staged files, and of metadata.

    A job that was killed leaves them; so do other writers: data files that are in no snapshot of the table, metadata files
    that it doesn't name, manifests and their lists that no snapshot has. Savepoints that were taken with `cancel` or of a
    running job may still have to commit theirs when somebody resumes them: choose an age beyond the oldest savepoint that
    is to be resumed.

    Args:
        identifier: Namespace and name of the table.
        older_than: Their age; whole hours.
        catalog: pyiceberg's name of the catalog.
        properties: Those of the catalog, as `IcebergSink` takes them.

    Raises:
        UsageError: The age is below an hour.
        ConfigurationError: The table's storage can't be listed.
    """
    return sorted(_orphans(_table(identifier, catalog, properties), older_than))


def remove_orphans(
    identifier: str, older_than: Duration, catalog: str = "default", properties: Mapping[str, str] | None = None
) -> list[str]:
    """Delete what `find_orphans` finds; return it."""
    table = _table(identifier, catalog, properties)
    found = sorted(_orphans(table, older_than))
    table.delete(found)
    return found


def _table(identifier: str, catalog: str, properties: Mapping[str, str] | None) -> IcebergStaging:
    return IcebergStaging(IcebergCatalog(catalog, properties or {}), checked_identifier(identifier, "IcebergSink"))


def _orphans(staging: IcebergStaging, older_than: Duration) -> list[str]:
    before_ms = current_time_ms() - whole_hours(older_than, staging.name) * HOUR_MS
    table = staging.table
    io: Any = table.io
    if not hasattr(io, "fs_by_scheme"):
        message = f"The files of the table can't be listed by {type(io).__name__}."
        hint = "set py-io-impl to pyiceberg.io.pyarrow.PyArrowFileIO, or use Spark's remove_orphan_files"
        raise ConfigurationError(message, where=staging.name, hint=hint)
    used = {_path(io, place) for place in table.inspect.all_files().column("file_path").to_pylist()}
    location = table.location().rstrip("/")
    data = table.properties.get(_DATA_PATH, f"{location}/data").rstrip("/")
    old = [*_old_files(io, data, before_ms), *_old_files(io, f"{location}/{LISTS}", before_ms)]
    metadata = table.properties.get(_METADATA_PATH, f"{location}/metadata").rstrip("/")
    old += [one for one in _old_files(io, metadata, before_ms) if one[0].endswith(_METADATA_NAMES)]
    used |= {_path(io, place) for place in _used_metadata(table)}
    return [place for place, path in old if path not in used]


def _used_metadata(table: Table) -> Iterator[str]:
    """Yield the places of the metadata that a table names."""
    of = table.metadata
    yield table.metadata_location
    yield from (entry.metadata_file for entry in of.metadata_log)
    yield from (one.manifest_list for one in of.snapshots if one.manifest_list)
    yield from table.inspect.all_manifests().column("path").to_pylist()


def _old_files(io: Any, folder: str, before_ms: int) -> Iterator[tuple[str, str]]:
    """Yield the places and the paths of the files below a folder that were written before a time."""
    scheme, host, base = io.parse_location(folder, io.properties)
    selector = pf.FileSelector(base, recursive=True, allow_not_found=True)
    for one in io.fs_by_scheme(scheme, host).get_file_info(selector):
        if one.type is pf.FileType.File and one.mtime_ns // 1_000_000 < before_ms:
            yield f"{folder}{one.path[len(base.rstrip('/')) :]}", one.path


def _path(io: Any, place: str) -> str:
    return str(io.parse_location(place, io.properties)[2])
