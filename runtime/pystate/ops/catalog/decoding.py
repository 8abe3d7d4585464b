"""Deserializes every key and value of a snapshot: finds what checksums can't, such as state under a wrong type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from pystate.common.errors import PystateError
from pystate.common.key_groups import key_group
from pystate.common.type_info import TypeInformation
from pystate.core.snapshot.handles.incremental_handle import AnyKeyedStateHandle
from pystate.core.snapshot.handles.operator_state_handle import OperatorStateHandle
from pystate.core.snapshot.operator_state import OperatorState
from pystate.core.snapshot.reading.keyed_files import key_type_of, open_keyed_state
from pystate.core.snapshot.reading.state_rows import RowDecoder, value_decoder
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.files.canonical import CanonicalReader, StateMetaInfoSnapshot
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.operator.format import OperatorStateInfo, OperatorStateReader


def keyed_problems(location: SnapshotLocation, operator: OperatorState, handle: AnyKeyedStateHandle) -> Iterator[str]:
    """Return the decoding problems in keyed state of one subtask: a sentence per state, about its first bad entry.

    Raises:
        PystateError: It can't be opened.
    """
    key_type = key_type_of(operator)
    with open_keyed_state(location, operator, handle) as reader:
        for part in reader.header.states:
            yield from _problem(partial(_decode_keyed, reader, part, key_type), f"State {part.name!r}")


def _decode_keyed(reader: CanonicalReader, part: StateMetaInfoSnapshot, key_type: TypeInformation | None) -> None:
    decoder = RowDecoder(part, key_type)
    for group in reader.key_groups():
        last = None
        for row in decoder.rows(group, reader.entries(part, group)):
            if row.key_bytes == last:
                continue
            last = row.key_bytes
            belongs = key_group(last[0], last[1:], reader.header.max_parallelism)
            if belongs != group:
                message = f"Key {row.key!r} is in key group {group}, and belongs to {belongs}."
                raise PystateError(message)


def operator_problems(location: SnapshotLocation, handle: OperatorStateHandle) -> Iterator[str]:
    """Return the decoding problems in operator state of one subtask: a sentence per state, about its first bad entry.

    Raises:
        PystateError: It can't be opened.
    """
    with location.open(handle.handle) as file:
        reader = OperatorStateReader(file, location.uri)
        for info in reader.states.values():
            yield from _problem(partial(_decode_operator, reader, info), f"Operator state {info.name!r}")


def _decode_operator(reader: OperatorStateReader, info: OperatorStateInfo) -> None:
    _, decode = value_decoder(info.serializer, None, info.name)
    keys = KeyCodec(None if info.key_type is None else TypeInformation.from_plain(info.key_type))
    for *key, value in reader.entries(info.name, 0, info.entries):
        for data in key:
            if data is not None:
                keys.decode(data)
        if value is not None:
            decode(value)


def _problem(decode: Callable[[], None], what: str) -> Iterator[str]:
    try:
        decode()
    except PystateError as error:
        yield f"{what}: {error.message}"
    except Exception as error:  # bytes of another type may raise anything
        yield f"{what} can't be decoded: {type(error).__name__}: {error}"
