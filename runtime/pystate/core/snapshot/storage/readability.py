"""Checks at a start that the files of a snapshot are readable, since a restart doesn't change owners and modes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from pystate.common.errors import RestoreError
from pystate.core.file_systems.file_info import scheme_of
from pystate.core.file_systems.places import join, parse_location
from pystate.core.snapshot.handles.handles import FileStateHandle, handle_from_plain
from pystate.core.snapshot.metadata import CheckpointMetadata
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation

_LOOK = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def check_readable(location: SnapshotLocation, metadata: CheckpointMetadata) -> None:
    """Reject a snapshot with a local file that exists but isn't readable.

    Missing or damaged files are detected when they are read. Other storages report errors themselves, which may be
    temporary.

    Raises:
        RestoreError: There is such a file.
    """
    for handle in _files(metadata.to_plain()):
        fs, path, uri = parse_location(handle.path if handle.is_absolute else join(location.uri, handle.path))
        if scheme_of(fs) != "file":
            continue
        try:
            os.close(os.open(path, _LOOK))
        except PermissionError as error:
            message = f"A file of the snapshot may not be read by the user that the job runs as: {error.strerror}."
            hint = f"give the job's user the right to read all of {location.uri}: chown -R, or chmod; then start it again"
            raise RestoreError(message, where=uri, hint=hint) from error
        except OSError:
            continue


def _files(plain: Any) -> Iterator[FileStateHandle]:
    """Yield all file handles in a snapshot's description."""
    if isinstance(plain, dict):
        if plain.keys() == {"kind", "path", "size", "crc32"}:
            handle = handle_from_plain(plain)
            if isinstance(handle, FileStateHandle):
                yield handle
            return
        plain = list(plain.values())
    if isinstance(plain, list):
        for one in plain:
            yield from _files(one)
