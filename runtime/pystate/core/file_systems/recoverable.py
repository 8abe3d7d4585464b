"""Opens a location for recoverable files, on any kind of storage."""

from __future__ import annotations

from fsspec.implementations.local import LocalFileSystem

from pystate.common.configuration.groups.file_system_options import LEAST_PART_SIZE
from pystate.core.file_systems.file_info import scheme_of
from pystate.core.file_systems.multipart_files import MultipartFiles
from pystate.core.file_systems.places import parse_location
from pystate.core.file_systems.recoverable_files import RecoverableFiles
from pystate.core.file_systems.renamed_files import LocalFiles, RenamedFiles


def recoverable_files(uri: str, tag: str) -> tuple[RecoverableFiles, str]:
    """Return the recoverable files below a location, and its path on its filesystem.

    Args:
        uri: See `parse_location`.
        tag: Part of the names of files in progress, if they have names.

    Raises:
        SnapshotError: It isn't a valid location.
    """
    fs, path, _ = parse_location(uri)
    if isinstance(fs, LocalFileSystem):
        return LocalFiles(fs, path, tag), path
    if scheme_of(fs) == "s3":
        return MultipartFiles(fs, LEAST_PART_SIZE), path
    return RenamedFiles(fs, path, tag), path
