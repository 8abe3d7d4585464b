"""Opens a place for recoverable files, whatever kind of storage it is on."""

from __future__ import annotations

from fsspec.implementations.local import LocalFileSystem

from pystate.common.configuration.file_system_options import LEAST_PART_SIZE
from pystate.core.file_systems.file_info import scheme_of
from pystate.core.file_systems.multipart_files import MultipartFiles
from pystate.core.file_systems.places import parse_location
from pystate.core.file_systems.recoverable_files import RecoverableFiles
from pystate.core.file_systems.renamed_files import LocalFiles, RenamedFiles


def recoverable_files(uri: str, tag: str) -> tuple[RecoverableFiles, str]:
    """Return the files below a place, and the place's path on its filesystem.

    Args:
        uri: See `parse_location`.
        tag: Stands in the names of what is in progress, where there are such names.

    Raises:
        SnapshotError: It is no place.
    """
    fs, path, _ = parse_location(uri)
    if isinstance(fs, LocalFileSystem):
        return LocalFiles(fs, path, tag), path
    if scheme_of(fs) == "s3":
        return MultipartFiles(fs, LEAST_PART_SIZE), path
    return RenamedFiles(fs, path, tag), path
