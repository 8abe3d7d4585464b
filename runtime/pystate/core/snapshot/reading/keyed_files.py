"""Opens files of keyed state of any format as canonical files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from pystate.common.errors import CorruptSnapshotError, RestoreError
from pystate.common.type_info import TypeInformation
from pystate.core.snapshot.handles.handles import FileStateHandle, StateHandle
from pystate.core.snapshot.handles.incremental_handle import AnyKeyedStateHandle, IncrementalKeyedStateHandle
from pystate.core.snapshot.native_state import download
from pystate.core.snapshot.operator_state import OperatorState
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.base.backend_snapshot import NativeSource, unreadable_native
from pystate.core.state.base.loader import create_state_backend, name_of
from pystate.core.state.files.canonical import CanonicalReader, StateMetaInfoSnapshot
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.rocksdb.native_snapshot import ROCKSDB_FORMAT, NativeMeta

_CANONICAL = "canonical"
_NATIVE_BACKEND = "rocksdb"
_TRANSFER_THREADS = 4


def key_type_of(operator: OperatorState) -> TypeInformation | None:
    """Return the declared type of an operator's keys; None if it isn't declared.

    Raises:
        CorruptSnapshotError: It is described wrongly.
    """
    try:
        return None if operator.key_type is None else TypeInformation.from_plain(operator.key_type)
    except ValueError as error:
        message = f"The description of the key type of operator {operator.uid!r} is damaged: {error}"
        raise CorruptSnapshotError(message) from error


def place_of(location: SnapshotLocation, handle: StateHandle) -> str:
    """Return the location of a piece of state for errors."""
    if not isinstance(handle, FileStateHandle):
        return f"{location.uri}/_metadata"
    return handle.path if handle.is_absolute else f"{location.uri}/{handle.path}"


def described_states(
    location: SnapshotLocation, operator: OperatorState, handle: AnyKeyedStateHandle
) -> tuple[StateMetaInfoSnapshot, ...]:
    """Return the descriptions of the keyed states of one subtask, without reading entries or converting files.

    Raises:
        CorruptSnapshotError: It is missing, damaged, or inconsistent with the metadata.
        RestoreError: Its format can't be read.
        SnapshotError: It can't be read.
    """
    if isinstance(handle, IncrementalKeyedStateHandle):
        if handle.format != ROCKSDB_FORMAT:
            raise unreadable_native([handle.format], _NATIVE_BACKEND)
        with location.open(handle.meta) as file:
            return NativeMeta.read(file, place_of(location, handle.meta)).header.states
    with open_keyed_state(location, operator, handle, partly=True) as reader:
        return reader.header.states


@contextmanager
def open_keyed_state(
    location: SnapshotLocation, operator: OperatorState, handle: AnyKeyedStateHandle, *, partly: bool = False
) -> Iterator[CanonicalReader]:
    """Open keyed state of one subtask, see `open_keyed_file`."""
    with open_keyed_file(location, operator, handle, partly=partly) as (reader, _):
        yield reader


@contextmanager
def open_keyed_file(
    location: SnapshotLocation, operator: OperatorState, handle: AnyKeyedStateHandle, *, partly: bool = False
) -> Iterator[tuple[CanonicalReader, BinaryIO]]:
    """Open keyed state of one subtask, and the canonical file itself.

    Native files are downloaded to a temporary folder and converted to a canonical file there.

    Args:
        location: The snapshot's directory.
        operator: The operator.
        handle: The handle of the state.
        partly: Whether only some key groups will be read: then only the checksums of those parts are verified.

    Raises:
        CorruptSnapshotError: It is missing, damaged, or inconsistent with the metadata.
        RestoreError: Its format can't be read.
        SnapshotError: It can't be read.
    """
    if isinstance(handle, IncrementalKeyedStateHandle):
        with _converted(location, operator, handle) as file:
            yield CanonicalReader(file, where=location.uri), file
        return
    if handle.format != _CANONICAL:
        message = f"Keyed state of operator {operator.uid!r} has the format {handle.format!r}, which can't be read."
        raise RestoreError(message, where=location.uri)
    where = place_of(location, handle.handle)
    with location.open_unchecked(handle.handle) if partly else location.open(handle.handle) as file:
        reader = CanonicalReader(file, where=where)
        header = reader.header
        if header.key_group_range != handle.key_group_range or header.max_parallelism != operator.max_parallelism:
            message = (
                f"A file of the snapshot is another than the metadata says: it has key groups {header.key_group_range} of "
                f"{header.max_parallelism}, not {handle.key_group_range} of {operator.max_parallelism}."
            )
            raise CorruptSnapshotError(message, where=where, hint="restore from another checkpoint or savepoint")
        yield reader, file


@contextmanager
def _converted(
    location: SnapshotLocation, operator: OperatorState, handle: IncrementalKeyedStateHandle
) -> Iterator[BinaryIO]:
    with tempfile.TemporaryDirectory(prefix="pystate-read-") as folder:
        backend = create_state_backend(
            _NATIVE_BACKEND,
            key_codec=KeyCodec(key_type_of(operator)),
            key_group_range=handle.key_group_range,
            max_parallelism=operator.max_parallelism,
            working_directory=folder,
        )
        try:
            if handle.format != backend.native_format:
                raise unreadable_native([handle.format], name_of(backend))
            files = tempfile.mkdtemp(dir=folder)
            download(handle, location, files, _TRANSFER_THREADS)
            with location.open(handle.meta) as meta:
                backend.restore_native([NativeSource(files, meta, location.uri, handle.key_group_range)])
            snapshot = backend.snapshot()
            try:
                with tempfile.TemporaryFile(dir=folder) as sink:
                    snapshot.write_canonical(sink)
                    yield sink
            finally:
                snapshot.release()
        finally:
            backend.close()
