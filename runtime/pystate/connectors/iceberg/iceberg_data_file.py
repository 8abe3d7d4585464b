"""Files of Iceberg in plain values, as they wait in checkpoints, and back."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile as IcebergDataFile
    from pyiceberg.table import FileScanTask

_FIGURES = (
    "record_count",
    "file_size_in_bytes",
    "column_sizes",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
    "split_offsets",
)


def to_plain(file: IcebergDataFile, spec_id: int) -> dict[str, Any]:
    """Return a data file, written with this partition spec, in plain values."""
    return {
        "path": file.file_path,
        "format": file.file_format.name,
        "spec": spec_id,
        "partition": [_plain(file.partition[place]) for place in range(len(file.partition))],
        **{name: getattr(file, name) for name in _FIGURES},
    }


def to_read(file: IcebergDataFile, deletes: Iterable[IcebergDataFile] = ()) -> dict[str, Any]:
    """Return what is needed to read a file: without figures, with the files that delete rows of it."""
    return {
        "path": file.file_path,
        "format": file.file_format.name,
        "content": file.content.name,
        "spec": file.spec_id,
        "partition": [_plain(file.partition[place]) for place in range(len(file.partition))],
        "rows": file.record_count,
        "size": file.file_size_in_bytes,
        "deletes": [to_read(one) for one in sorted(deletes, key=lambda one: one.file_path)],
    }


def to_scan(plain: dict[str, Any]) -> FileScanTask:
    """Return the task of reading a file of which `to_read` returned this."""
    from pyiceberg.table import FileScanTask

    return FileScanTask(_file_to_read(plain), set(map(_file_to_read, plain["deletes"])))


def _file_to_read(plain: dict[str, Any]) -> IcebergDataFile:
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    file = DataFile.from_args(
        content=DataFileContent[plain["content"]],
        file_path=plain["path"],
        file_format=FileFormat[plain["format"]],
        partition=Record(*map(_value, plain["partition"])),
        record_count=plain["rows"],
        file_size_in_bytes=plain["size"],
    )
    file.spec_id = plain["spec"]
    return file


def from_plain(plain: dict[str, Any]) -> IcebergDataFile:
    """Return the data file of which `to_plain` returned this."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=plain["path"],
        file_format=FileFormat[plain["format"]],
        partition=Record(*map(_value, plain["partition"])),
        sort_order_id=None,
        spec_id=plain["spec"],
        equality_ids=None,
        key_metadata=None,
        **{name: plain[name] for name in _FIGURES},
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    return {"uuid": value.hex} if isinstance(value, UUID) else value


def _value(plain: Any) -> Any:
    if not isinstance(plain, dict):
        return plain
    return Decimal(plain["decimal"]) if "decimal" in plain else UUID(plain["uuid"])
