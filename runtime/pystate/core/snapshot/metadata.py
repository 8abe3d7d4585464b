"""The `_metadata` file: the complete description of a checkpoint or savepoint, with small state inline.

Layout, numbers big-endian: magic "PYSTMETA", version u32, body length u64, body (msgpack), crc32 u32 of everything before.
Every version keeps this frame, so that damage can be distinguished from a newer version. Unknown entries are ignored: within
a version the body may only grow.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import msgpack

from pystate.common.errors import CorruptSnapshotError, RestoreError, SnapshotError
from pystate.common.key_groups import MAX_PARALLELISM_LIMIT
from pystate.core.snapshot.handles.handles import StateHandle, handle_from_plain, handle_to_plain
from pystate.core.snapshot.handles.incremental_handle import (
    AnyKeyedStateHandle,
    IncrementalKeyedStateHandle,
    SharedFile,
    keyed_state_handle_from_plain,
)
from pystate.core.snapshot.handles.input_channel_state import InputChannelStateHandle
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.handles.operator_state_handle import OperatorStateHandle
from pystate.core.snapshot.plain import (
    as_map,
    take,
    take_enum,
    take_int,
    take_list,
    take_optional_text,
    take_text,
    take_text_if_there,
    take_text_map,
    unsound,
)

METADATA_VERSION = 2
"""The version this module writes. Version 1 is the same; its keyed state has neither namespaces nor timers, which a pystate
that writes version 1 doesn't know."""

IN_FLIGHT_METADATA_VERSION = 3
"""What it writes where data in flight is part of the checkpoint, which would be lost in a pystate that doesn't know of it;
the newest it reads."""

OLDEST_METADATA_VERSION = 1
"""The oldest version this module reads."""

_MAGIC = b"PYSTMETA"
_FLINK_MAGIC = bytes.fromhex("4960672d")
_HEAD = struct.Struct(">8sIQ")
_CRC = struct.Struct(">I")
# Msgpack allocates a list by its stated length before it reads it, nested lists too; maps grow as they are read.
_MAX_LIST = 8192
_MAX_MAP = 1 << 17
_UNREADABLE = (ValueError, TypeError, msgpack.exceptions.UnpackException)


class CheckpointType(Enum):
    """The type of a snapshot: owned by the job (deleted when subsumed) or by users (never deleted)."""

    CHECKPOINT = "CHECKPOINT"
    SAVEPOINT = "SAVEPOINT"


class SavepointFormatType(Enum):
    """The format of keyed state: canonical, readable by every backend, or native, the backend's own files."""

    CANONICAL = "CANONICAL"
    NATIVE = "NATIVE"


@dataclass(frozen=True)
class OperatorSubtaskState:
    """The state of one operator subtask in a checkpoint.

    Attributes:
        keyed_state: Handles of keyed state.
        operator_state: Handles of state that isn't keyed.
        raw_keyed_state: Handles of raw state by key group.
        raw_operator_state: Handles of raw state by partition.
        input_channel_state: In-flight data, for the operator that heads a task; None if there is none.
        packed: The bytes that it was read from, which then needn't be made and checked once more; None if it wasn't.
    """

    keyed_state: list[AnyKeyedStateHandle] = field(default_factory=list)
    operator_state: list[OperatorStateHandle] = field(default_factory=list)
    raw_keyed_state: list[KeyedStateHandle] = field(default_factory=list)
    raw_operator_state: list[OperatorStateHandle] = field(default_factory=list)
    input_channel_state: InputChannelStateHandle | None = None
    packed: bytes | None = field(default=None, init=False, repr=False, compare=False)  # a changed one has none

    @property
    def state_size(self) -> int:
        """Bytes of state."""
        return sum(handle.state_size for handle in self._keyed) + sum(handle.size for handle in self._not_keyed)

    @property
    def checkpointed_size(self) -> int:
        """The bytes that the checkpoint wrote, without files reused from earlier ones."""
        return sum(handle.checkpointed_size for handle in self._keyed) + sum(handle.size for handle in self._not_keyed)

    @property
    def has_state(self) -> bool:
        """Whether there is state to restore."""
        return bool(self._keyed or self._not_keyed)

    @property
    def _keyed(self) -> list[AnyKeyedStateHandle]:
        return [*self.keyed_state, *self.raw_keyed_state]

    @property
    def _not_keyed(self) -> list[OperatorStateHandle | InputChannelStateHandle]:
        in_flight = [] if self.input_channel_state is None else [self.input_channel_state]
        return [*self.operator_state, *self.raw_operator_state, *in_flight]

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        plain: dict[str, Any] = {
            "keyed_state": [handle.to_plain() for handle in self.keyed_state],
            "operator_state": [handle.to_plain() for handle in self.operator_state],
            "raw_keyed_state": [handle.to_plain() for handle in self.raw_keyed_state],
            "raw_operator_state": [handle.to_plain() for handle in self.raw_operator_state],
        }
        if self.input_channel_state is not None:
            plain["input_channel_state"] = self.input_channel_state.to_plain()
        return plain

    @classmethod
    def from_plain(cls, plain: object) -> OperatorSubtaskState:
        """Rebuild it.

        Raises:
            CorruptSnapshotError: It isn't one.
        """
        data = as_map(plain, "a subtask's state")
        in_flight = data.get("input_channel_state")
        return cls(
            take_list(data, "keyed_state", keyed_state_handle_from_plain),
            take_list(data, "operator_state", OperatorStateHandle.from_plain),
            take_list(data, "raw_keyed_state", KeyedStateHandle.from_plain),
            take_list(data, "raw_operator_state", OperatorStateHandle.from_plain),
            None if in_flight is None else InputChannelStateHandle.from_plain(in_flight),
        )

    @classmethod
    def from_packed(cls, packed: object) -> OperatorSubtaskState:
        """Rebuild it from the bytes of its plain data, and keep them.

        Raises:
            CorruptSnapshotError: It isn't one.
        """
        if not isinstance(packed, bytes):
            raise unsound(what="a subtask's state is no bytes")
        try:
            state = cls.from_plain(_unpack(packed))
        except _UNREADABLE as error:
            raise unsound(what=f"a subtask's state can't be read ({error})") from error
        object.__setattr__(state, "packed", packed)
        return state

    def check(self, index: object, uid: str, parallelism: int, max_parallelism: int) -> None:
        """Check that it fits its operator.

        Args:
            index: The number of the subtask.
            uid: The operator.
            parallelism: How many subtasks that has.
            max_parallelism: How many key groups that has.

        Raises:
            CorruptSnapshotError: It doesn't.
        """
        if type(index) is not int or not 0 <= index < parallelism:
            raise unsound(what=f"operator {uid!r} has a subtask {index!r} at parallelism {parallelism}")
        for handle in self._keyed:
            if handle.end_key_group >= max_parallelism:
                raise unsound(
                    what=f"operator {uid!r} has {max_parallelism} key groups and state of {handle.key_group_range}"
                )


@dataclass(frozen=True)
class TaskState:
    """The state of one subtask of a task in a checkpoint: Flink's `TaskStateSnapshot`.

    Attributes:
        operators: The state of the head operator and the chained ones, by uid.
    """

    operators: dict[str, OperatorSubtaskState] = field(default_factory=dict)

    @property
    def state_size(self) -> int:
        """Bytes of state."""
        return sum(state.state_size for state in self.operators.values())

    @property
    def checkpointed_size(self) -> int:
        """Bytes that the checkpoint wrote."""
        return sum(state.checkpointed_size for state in self.operators.values())

    def packed(self) -> dict[str, bytes]:
        """Return the bytes of each operator's state, which become a part of `_metadata` as they are."""
        return {uid: _pack(state.to_plain()) for uid, state in self.operators.items()}

    @classmethod
    def from_packed(cls, packed: object) -> TaskState:
        """Rebuild it.

        Raises:
            CorruptSnapshotError: It isn't one.
        """
        operators = as_map(packed, "a task's state")
        return cls({str(uid): OperatorSubtaskState.from_packed(state) for uid, state in operators.items()})


@dataclass(frozen=True)
class OperatorState:
    """The state of one operator.

    Attributes:
        uid: Its identity across versions of the job.
        name: The displayed name.
        parallelism: Its number of subtasks.
        max_parallelism: Its number of key groups.
        key_type: The declared type of its keys as plain data; None if it isn't declared, or the operator isn't keyed.
        key_encoding: The encoding of its keys; None if it isn't keyed.
        subtasks: State by subtask index.
    """

    uid: str
    name: str
    parallelism: int
    max_parallelism: int
    key_type: dict[str, Any] | None = None
    key_encoding: str | None = None
    subtasks: dict[int, OperatorSubtaskState] = field(default_factory=dict)

    @property
    def has_state(self) -> bool:
        """Whether any subtask has state to restore."""
        return any(state.has_state for state in self.subtasks.values())

    @property
    def has_keyed_state(self) -> bool:
        """Whether any subtask has keyed or raw keyed state."""
        return any(state.keyed_state or state.raw_keyed_state for state in self.subtasks.values())

    @property
    def state_size(self) -> int:
        """Bytes of state."""
        return sum(state.state_size for state in self.subtasks.values())

    def map_keyed_state(self, change: Callable[[AnyKeyedStateHandle], AnyKeyedStateHandle]) -> OperatorState:
        """Return it with other handles of keyed state; subtasks whose handles stay are the same objects."""
        subtasks = {}
        for index, state in self.subtasks.items():
            handles = [change(handle) for handle in state.keyed_state]
            same = all(new is old for new, old in zip(handles, state.keyed_state, strict=True))
            subtasks[index] = state if same else replace(state, keyed_state=handles)
        return replace(self, subtasks=subtasks)

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "uid": self.uid,
            "name": self.name,
            "parallelism": self.parallelism,
            "max_parallelism": self.max_parallelism,
            "key_type": self.key_type,
            "key_encoding": self.key_encoding,
            "subtasks": {index: state.to_plain() for index, state in sorted(self.subtasks.items())},
        }

    def without_packed(self) -> OperatorState:
        """Return it without the subtasks whose state is there as bytes that have been checked.

        Raises:
            CorruptSnapshotError: One of those doesn't fit the operator.
        """
        rest = {}
        for index, state in self.subtasks.items():
            if state.packed is None:
                rest[index] = state
            else:
                state.check(index, self.uid, self.parallelism, self.max_parallelism)
        return replace(self, subtasks=rest)

    @classmethod
    def from_plain(cls, plain: object) -> OperatorState:
        """Rebuild it.

        Raises:
            CorruptSnapshotError: It isn't one, or its numbers don't fit each other.
        """
        data = as_map(plain, "an operator's state")
        uid = take_text(data, "uid")
        max_parallelism = take_int(data, "max_parallelism", 1, MAX_PARALLELISM_LIMIT)
        parallelism = take_int(data, "parallelism", 1, max_parallelism)
        key_type = take(data, "key_type")
        subtasks = {}
        for index, state in as_map(take(data, "subtasks"), "subtasks").items():
            subtasks[index] = OperatorSubtaskState.from_plain(state)
            subtasks[index].check(index, uid, parallelism, max_parallelism)
        return cls(
            uid=uid,
            name=take_text(data, "name"),
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            key_type=None if key_type is None else as_map(key_type, "key_type"),
            key_encoding=take_optional_text(data, "key_encoding"),
            subtasks=subtasks,
        )


@dataclass(frozen=True)
class SourcePosition:
    """The position of the sources.

    Attributes:
        query_id: Spark's id of the query; empty if nothing was read.
        epoch: Spark's number of the last included batch, -1 for none.
        sources: Information per source: its number or uid, kind, description, the offset as Spark's JSON text.
        files: An archive of the Spark log files from which a query continues after that batch.
    """

    query_id: str
    epoch: int
    sources: list[dict[str, Any]]
    files: StateHandle

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "query_id": self.query_id,
            "epoch": self.epoch,
            "sources": [dict(source) for source in self.sources],
            "files": handle_to_plain(self.files),
        }

    @classmethod
    def from_plain(cls, plain: object) -> SourcePosition:
        """Rebuild it.

        Raises:
            CorruptSnapshotError: It isn't one.
        """
        data = as_map(plain, "the source position")
        return cls(
            query_id=take_text(data, "query_id"),
            epoch=take_int(data, "epoch", -1),
            sources=take_list(data, "sources", _source_from_plain),
            files=handle_from_plain(take(data, "files")),
        )


def _source_from_plain(plain: object) -> dict[str, Any]:
    source = as_map(plain, "a source")
    for name, value in source.items():
        if not isinstance(name, str) or not isinstance(value, (str, int, type(None))):
            raise unsound(what=f"a source has an entry {name!r} that is no text and no number")
    return source


@dataclass(frozen=True)
class CheckpointMetadata:
    """The content of `_metadata`.

    Attributes:
        checkpoint_id: Its id; checkpoints and savepoints share one sequence of ids.
        checkpoint_type: Checkpoint or savepoint.
        format: How keyed state is written.
        timestamp_ms: When it was triggered, ms since 1970.
        job_id: The job that took it.
        job_name: Its name.
        epoch: The epoch of the cut, -1 for before the first.
        parallelism: The job's default parallelism.
        max_parallelism: The job's max parallelism.
        operators: State by operator.
        source_position: The position of the sources; None if nothing has been read.
        parent: URI of the snapshot the job itself was started from, or None.
        parent_id: The short id of that snapshot, which is kept when it is moved; None if unknown.
        snapshot_id: Its own short id, see `snapshot_id_of`; None if unknown.
        message: The user's message, or None.
        code_fingerprint: SHA-256 of the job's program in hex, or None.
        configuration: The options in force.
        pystate_version: The version of pystate that wrote it.
        spark_version: The version of Spark.
    """

    checkpoint_id: int
    checkpoint_type: CheckpointType
    format: SavepointFormatType
    timestamp_ms: int
    job_id: str
    job_name: str
    epoch: int
    parallelism: int
    max_parallelism: int
    operators: list[OperatorState]
    source_position: SourcePosition | None = None
    parent: str | None = None
    parent_id: str | None = None
    snapshot_id: str | None = None
    message: str | None = None
    code_fingerprint: str | None = None
    configuration: dict[str, str] = field(default_factory=dict)
    pystate_version: str = ""
    spark_version: str = ""

    @property
    def has_data_in_flight(self) -> bool:
        """Whether it contains in-flight data, which barriers overtook."""
        states = (state for operator in self.operators for state in operator.subtasks.values())
        return any(state.input_channel_state is not None for state in states)

    @property
    def state_size(self) -> int:
        """Bytes of state, the sources' logs included."""
        logs = 0 if self.source_position is None else self.source_position.files.size
        return logs + sum(operator.state_size for operator in self.operators)

    def map_keyed_state(self, change: Callable[[AnyKeyedStateHandle], AnyKeyedStateHandle]) -> CheckpointMetadata:
        """Return the metadata with other handles of keyed state."""
        operators = [operator.map_keyed_state(change) for operator in self.operators]
        return replace(self, operators=operators)

    @property
    def shared_files(self) -> list[SharedFile]:
        """The files that may be shared with other checkpoints."""
        handles = [
            handle for operator in self.operators for state in operator.subtasks.values() for handle in state.keyed_state
        ]
        return [file for one in handles if isinstance(one, IncrementalKeyedStateHandle) for file in one.shared.values()]

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "checkpoint_id": self.checkpoint_id,
            "checkpoint_type": self.checkpoint_type.value,
            "format": self.format.value,
            "timestamp_ms": self.timestamp_ms,
            "job_id": self.job_id,
            "job_name": self.job_name,
            "epoch": self.epoch,
            "parallelism": self.parallelism,
            "max_parallelism": self.max_parallelism,
            "operators": [operator.to_plain() for operator in self.operators],
            "source_position": None if self.source_position is None else self.source_position.to_plain(),
            "parent": self.parent,
            "parent_id": self.parent_id,
            "snapshot_id": self.snapshot_id,
            "message": self.message,
            "code_fingerprint": self.code_fingerprint,
            "configuration": self.configuration,
            "pystate_version": self.pystate_version,
            "spark_version": self.spark_version,
        }

    @classmethod
    def from_plain(cls, plain: object) -> CheckpointMetadata:
        """Rebuild it.

        Raises:
            CorruptSnapshotError: It isn't one, or its numbers don't fit each other.
        """
        data = as_map(plain, "the body")
        max_parallelism = take_int(data, "max_parallelism", 1, MAX_PARALLELISM_LIMIT)
        operators = take_list(data, "operators", OperatorState.from_plain)
        uids = [operator.uid for operator in operators]
        if len(set(uids)) != len(uids):
            raise unsound(what="two operators have the same uid")
        position = take(data, "source_position")
        return cls(
            checkpoint_id=take_int(data, "checkpoint_id"),
            checkpoint_type=take_enum(data, "checkpoint_type", CheckpointType),
            format=take_enum(data, "format", SavepointFormatType),
            timestamp_ms=take_int(data, "timestamp_ms"),
            job_id=take_text(data, "job_id"),
            job_name=take_text(data, "job_name"),
            epoch=take_int(data, "epoch", -1),
            parallelism=take_int(data, "parallelism", 1, MAX_PARALLELISM_LIMIT),
            max_parallelism=max_parallelism,
            operators=operators,
            source_position=None if position is None else SourcePosition.from_plain(position),
            parent=take_optional_text(data, "parent"),
            parent_id=take_text_if_there(data, "parent_id"),
            snapshot_id=take_text_if_there(data, "snapshot_id"),
            message=take_text_if_there(data, "message"),
            code_fingerprint=take_text_if_there(data, "code_fingerprint"),
            configuration=take_text_map(data, "configuration"),
            pystate_version=take_text(data, "pystate_version"),
            spark_version=take_text(data, "spark_version"),
        )


def write_metadata(metadata: CheckpointMetadata) -> bytes:
    """Return the content of the `_metadata` file.

    Raises:
        SnapshotError: It can't be written, or could not be read back.
    """
    where = f"checkpoint {metadata.checkpoint_id}"
    try:
        body = _body(metadata)
        _check(metadata, body)
    except (CorruptSnapshotError, ValueError, TypeError, OverflowError) as error:
        reason = error.message if isinstance(error, CorruptSnapshotError) else str(error)
        message = f"The checkpoint's metadata can't be written: {reason}"
        raise SnapshotError(message, where=where) from error
    version = IN_FLIGHT_METADATA_VERSION if metadata.has_data_in_flight else METADATA_VERSION
    framed = _HEAD.pack(_MAGIC, version, len(body)) + body
    return framed + _CRC.pack(zlib.crc32(framed))


def _body(metadata: CheckpointMetadata) -> bytes:
    """Return the body; what subtasks have sent as bytes is in it as it came."""
    packer = msgpack.Packer(use_bin_type=True, unicode_errors="surrogatepass")
    plain = replace(metadata, operators=[]).to_plain()
    pieces = [packer.pack_map_header(len(plain))]
    for name, value in plain.items():
        pieces.append(packer.pack(name))
        if name == "operators":
            pieces.append(packer.pack_array_header(len(metadata.operators)))
            for operator in metadata.operators:
                pieces += _operator(operator, packer)
        else:
            pieces.append(packer.pack(value))
    return b"".join(pieces)


def _operator(operator: OperatorState, packer: msgpack.Packer) -> Iterator[bytes]:
    plain = replace(operator, subtasks={}).to_plain()
    yield packer.pack_map_header(len(plain))
    for name, value in plain.items():
        yield packer.pack(name)
        if name == "subtasks":
            yield packer.pack_map_header(len(operator.subtasks))
            for index, state in sorted(operator.subtasks.items()):
                yield packer.pack(index)
                yield state.packed or packer.pack(state.to_plain())
        else:
            yield packer.pack(value)


def _check(metadata: CheckpointMetadata, body: bytes) -> None:
    """Check that a body can be read: strictly what has been packed here, and that what subtasks sent is whole in it.

    Their states were read strictly when they came, and are half of the work of a checkpoint with thousands of them.

    Raises:
        CorruptSnapshotError, ValueError, TypeError: It can't.
    """
    rest = replace(metadata, operators=[one.without_packed() for one in metadata.operators])
    CheckpointMetadata.from_plain(_unpack(_pack(rest.to_plain())))
    reader = msgpack.Unpacker(max_buffer_size=len(body))
    reader.feed(body)
    reader.skip()
    if reader.tell() != len(body):
        raise unsound(what="its body has another length than what it consists of")


def _pack(plain: Any) -> bytes:
    # a value of the configuration, or what somebody says about a savepoint, may hold any text
    data: bytes = msgpack.packb(plain, use_bin_type=True, unicode_errors="surrogatepass")
    return data


def _unpack(body: bytes | memoryview) -> Any:
    return msgpack.unpackb(
        body,
        raw=False,
        strict_map_key=False,
        max_array_len=_MAX_LIST,
        max_map_len=_MAX_MAP,
        max_ext_len=0,
        unicode_errors="surrogatepass",
    )


def read_metadata(data: bytes, where: str) -> CheckpointMetadata:
    """Read the content of a `_metadata` file.

    Args:
        data: The whole file.
        where: What errors name as the place, such as the snapshot's URI.

    Raises:
        CorruptSnapshotError: It is damaged, or no such file.
        RestoreError: A newer version wrote it.
    """
    version, body = _open_frame(data, where)
    newest = IN_FLIGHT_METADATA_VERSION
    if not OLDEST_METADATA_VERSION <= version <= newest:
        message = f"The snapshot's metadata has version {version}; this pystate reads up to version {newest}."
        raise RestoreError(message, where=where, hint="restore with the pystate version that wrote it, or a newer one")
    try:
        return CheckpointMetadata.from_plain(_unpack(body))
    except CorruptSnapshotError as error:
        error.where = where
        raise
    except _UNREADABLE as error:
        raise _damaged(where, what=f"its body can't be read ({error})") from error


METADATA_HEAD_BYTES = _HEAD.size
"""How many bytes say how many a file has."""


def stated_size(head: bytes | bytearray) -> int | None:
    """Return the size of a metadata file from its beginning; None if it isn't a metadata file."""
    if len(head) < _HEAD.size or not head.startswith(_MAGIC):
        return None
    length: int = _HEAD.unpack_from(head)[2]
    return _HEAD.size + length + _CRC.size


def _open_frame(data: bytes, where: str) -> tuple[int, memoryview]:
    if not data.startswith(_MAGIC[: len(data)]) or not data:
        raise _foreign(data, where)
    if len(data) < _HEAD.size + _CRC.size:
        raise _damaged(where, what=f"it has only {len(data)} bytes")
    _, version, length = _HEAD.unpack_from(data)
    if length != len(data) - _HEAD.size - _CRC.size:
        missing = length + _HEAD.size + _CRC.size
        raise _damaged(where, what=f"it has {len(data)} bytes where its head says {missing}")
    view = memoryview(data)
    if zlib.crc32(view[: -_CRC.size]) != _CRC.unpack(view[-_CRC.size :])[0]:
        raise _damaged(where, what="its checksum is wrong")
    return version, view[_HEAD.size : -_CRC.size]


def _damaged(where: str, *, what: str) -> CorruptSnapshotError:
    message = f"The metadata file is damaged: {what}."
    return CorruptSnapshotError(message, where=where, hint="restore from another checkpoint or savepoint")


def _foreign(data: bytes, where: str) -> CorruptSnapshotError:
    if data.startswith(_FLINK_MAGIC):
        message = "This is a snapshot of Apache Flink; pystate can't read those."
        return CorruptSnapshotError(message, where=where, hint="give a checkpoint or savepoint that a pystate job took")
    message = (
        f"This is no metadata file of a pystate snapshot: it begins with {data[:8]!r} where {_MAGIC!r} should stand. "
        "Likely causes: (1) the path leads to another file of the snapshot, or to a file of another program, "
        "(2) the file was damaged or emptied where it is stored, "
        "(3) a copy changed it, such as a transfer in text mode or a copy that was cut off."
    )
    return CorruptSnapshotError(message, where=where, hint="give the snapshot's directory or its _metadata file")
