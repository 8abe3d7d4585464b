"""Snapshots for tests, written with the library's own writers."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pystate.common import Types
from pystate.common.key_groups import key_group_range
from pystate.core.api.state import ListStateDescriptor, MapStateDescriptor, StateDescriptor, ValueStateDescriptor
from pystate.core.snapshot.handles.handles import FileStateHandle, StateHandle
from pystate.core.snapshot.handles.incremental_handle import IncrementalKeyedStateHandle, SharedFile
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.handles.operator_state_handle import OPERATOR_STATE, OperatorStateHandle, StateMetaInfo
from pystate.core.snapshot.metadata import CheckpointMetadata, CheckpointType, SavepointFormatType, SourcePosition
from pystate.core.snapshot.metadata_file import read_metadata, write_metadata
from pystate.core.snapshot.operator_state import OperatorState, OperatorSubtaskState
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation, snapshot_id_of
from pystate.core.state.base.state_schema import StateSchema
from pystate.core.state.files.canonical import CanonicalHeader, CanonicalWriter
from pystate.core.state.keys.keys import KEY_ENCODING, KeyCodec
from pystate.core.state.keys.namespaces import VOID_NAMESPACE
from pystate.core.state.kinds.list_parts import pack_part, part_sub_key
from pystate.core.state.operator.format import OperatorStateInfo, OperatorStateMode, write_operator_state
from pystate.core.state.rocksdb.native_snapshot import ROCKSDB_FORMAT, NativeMeta, NativeState
from pystate.core.state.values.serializers import serializer_for
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import pack_archive

V0, V1 = "83f146a87b5572d7c71730b6a8b1dbae", "6077eb43c7a5ff1950bf7e60379598c1"
MAX_PARALLELISM = 16
T0 = 1_795_176_000_000  # 2026-11-20 12:00:00 UTC

COUNT = ValueStateDescriptor("count", Types.LONG())
SEEN = MapStateDescriptor("seen", Types.STRING(), Types.LONG())
LAST = ListStateDescriptor("last", Types.STRING())
Content = Mapping[StateDescriptor, Mapping[str, Any]]
"""By state: what each key has."""

WORDS: Content = {
    COUNT: {f"key-{i}": i for i in range(40)},
    SEEN: {"key-1": {"a": 1, "b": 2}, "key-2": {"c": 3}},
    LAST: {"key-1": ["x", "y", "z"], "key-3": ["w"]},
}


@dataclass
class Recipe:
    """A savepoint to be written."""

    snapshot_id: str = "0123456789ab"
    job_id: str = V0
    job_name: str = "word count"
    checkpoint_id: int = 3
    minutes: int = 0
    parallelism: int = 2
    content: Content | None = None
    block_bytes: int = 200
    inline_threshold: int = 0
    parts: int = 2  # of each list
    message: str | None = None
    code: str | None = "c0de" * 16
    parent: str | None = None
    parent_id: str | None = None
    operator_state: bool = True
    elements: str = "ab"  # of the operator list
    uid: str = "count"

    def with_changes(self, **changes: Any) -> Recipe:
        return replace(self, **changes)


def write_savepoint(directory: Path | str, recipe: Recipe | None = None, **changes: Any) -> SnapshotLocation:
    """Write a savepoint into a directory and return where it is."""
    recipe = (recipe or Recipe()).with_changes(**changes)
    location = SnapshotLocation(f"{directory}/savepoint-{recipe.job_id[:6]}-{recipe.snapshot_id}")
    return write_snapshot(location, recipe, CheckpointType.SAVEPOINT)


def write_checkpoint(directory: Path | str, number: int, recipe: Recipe | None = None, **changes: Any) -> SnapshotLocation:
    """Write a checkpoint into a directory for checkpoints and return where it is."""
    recipe = (recipe or Recipe()).with_changes(checkpoint_id=number, **changes)
    location = SnapshotLocation(f"{directory}/{recipe.job_id}/chk-{number}")
    return write_snapshot(location, recipe, CheckpointType.CHECKPOINT)


def write_snapshot(location: SnapshotLocation, recipe: Recipe, kind: CheckpointType) -> SnapshotLocation:
    location.create()
    subtasks = {index: _subtask(location, recipe, index) for index in range(recipe.parallelism)}
    operator = OperatorState(
        recipe.uid, "Count", recipe.parallelism, MAX_PARALLELISM, Types.STRING().to_plain(), KEY_ENCODING, subtasks
    )
    metadata = CheckpointMetadata(
        checkpoint_id=recipe.checkpoint_id,
        checkpoint_type=kind,
        format=SavepointFormatType.CANONICAL,
        timestamp_ms=T0 + recipe.minutes * 60_000,
        job_id=recipe.job_id,
        job_name=recipe.job_name,
        epoch=7,
        parallelism=recipe.parallelism,
        max_parallelism=MAX_PARALLELISM,
        operators=[operator],
        source_position=source_position(location, recipe.inline_threshold),
        parent=recipe.parent,
        parent_id=recipe.parent_id,
        snapshot_id=snapshot_id_of(location.uri, recipe.job_id),
        message=recipe.message,
        code_fingerprint=recipe.code,
        configuration={"execution.checkpointing.interval": "10 s"},
        pystate_version="0.1.0",
        spark_version="4.3.0",
    )
    location.write_metadata(write_metadata(metadata))
    return location


def source_position(location: SnapshotLocation, inline_threshold: int = 0) -> SourcePosition:
    log = b'v1\n{"path":"a"}\n{"path":"b"}'
    offsets = ['{"logOffset":1}', '{"orders":{"1":7,"0":1234}}']
    files = {
        "metadata": b'{"id":"query"}',
        "offsets/7": "\n".join(["v1", "{}", *offsets]).encode(),
        "commits/7": b"v1\n{}",
        "sources/0/0": log,
        "sources/0/1": b'v1\n{"path":"c"}',
        "pystate-sources": b'[["files", 0, 0], ["kafka", 0, 1]]',
    }
    archive = pack_archive(files)
    handle = location.write_state("spark-logs", lambda file: file.write(archive), inline_threshold)
    sources = [{"index": i, "uid": uid, "offset": offsets[i]} for i, uid in enumerate(("files", "kafka"))]
    return SourcePosition("query", 7, sources, handle)


def _subtask(location: SnapshotLocation, recipe: Recipe, index: int) -> OperatorSubtaskState:
    groups = key_group_range(index, recipe.parallelism, MAX_PARALLELISM)
    content = WORDS if recipe.content is None else recipe.content
    schemas = {descriptor.name: StateSchema.of(descriptor) for descriptor in content}
    header = CanonicalHeader(
        Types.STRING(), KEY_ENCODING, MAX_PARALLELISM, groups, tuple(one.meta_info(name) for name, one in schemas.items())
    )

    def write(sink: Any) -> None:
        writer = CanonicalWriter(sink, header, block_bytes=recipe.block_bytes)
        for descriptor, by_key in content.items():
            entries: dict[int, list[tuple[bytes, bytes, bytes]]] = {}
            for key, value in by_key.items():
                codec = KeyCodec(Types.STRING())
                internal = codec.internal(key)
                group = codec.key_group(internal, MAX_PARALLELISM)
                if group in groups:
                    schema = schemas[descriptor.name]
                    entries.setdefault(group, []).extend(_entries(schema, codec.encode(internal), value, recipe.parts))
            for group in sorted(entries):
                writer.write(descriptor.name, group, entries[group])
        writer.finish()

    prefix = f"{recipe.uid}-{index}"
    keyed = KeyedStateHandle(
        groups.start, groups.end, "canonical", location.write_state(f"{prefix}-keyed", write, recipe.inline_threshold)
    )
    operator = [_operator_state(location, prefix, recipe)] if recipe.operator_state else []
    return OperatorSubtaskState([keyed], operator)


def _entries(schema: StateSchema, key: bytes, value: Any, parts: int) -> list[tuple[bytes, bytes, bytes]]:
    serialize = schema.serializer.serialize
    if schema.user_keys is not None:
        codec = schema.user_keys
        pairs = value.items()
        return [(key, VOID_NAMESPACE + codec.encode(codec.internal(name)), serialize(one)) for name, one in pairs]
    if isinstance(value, list):
        cut = [value[start : start + parts] for start in range(0, len(value), parts)]
        return [(key, part_sub_key(i), pack_part([serialize(one) for one in part])) for i, part in enumerate(cut)]
    return [(key, b"", serialize(value))]


def _operator_state(location: SnapshotLocation, prefix: str, recipe: Recipe) -> OperatorStateHandle:
    texts, longs = serializer_for(Types.STRING()), serializer_for(Types.LONG())
    codec = KeyCodec(Types.STRING())
    rules = [codec.encode(codec.internal("limit")), longs.serialize(5)]
    states = [
        (
            OperatorStateInfo("buffer", OperatorStateMode.SPLIT_DISTRIBUTE, 2, texts.snapshot()),
            [*map(texts.serialize, recipe.elements)],
        ),
        (OperatorStateInfo("offsets", OperatorStateMode.UNION, 1, longs.snapshot()), [longs.serialize(1)]),
        (
            OperatorStateInfo(
                "rules", OperatorStateMode.BROADCAST, 1, longs.snapshot(), Types.STRING().to_plain(), KEY_ENCODING
            ),
            rules,
        ),
    ]
    handle: StateHandle = location.write_state(
        f"{prefix}-operator", lambda sink: write_operator_state(sink, states), recipe.inline_threshold
    )
    described = {info.name: StateMetaInfo(info.mode, info.entries) for info, _ in states}
    return OperatorStateHandle(described, OPERATOR_STATE, handle)


def write_incremental(directory: Path | str, shared: Path, recipe: Recipe | None = None, **changes: Any) -> SnapshotLocation:
    """Write a savepoint whose first subtask has its keyed state in a backend's own files, one of which stands elsewhere."""
    location = write_savepoint(directory, recipe, **changes)
    metadata = read_metadata(location.read_metadata(), location.uri)
    folder = Path(location.uri.removeprefix("file:"))
    content = shared.read_bytes()
    groups = key_group_range(0, metadata.parallelism, MAX_PARALLELISM)
    header = CanonicalHeader(
        Types.STRING(), KEY_ENCODING, MAX_PARALLELISM, groups, (StateSchema.of(COUNT).meta_info("count"),)
    )
    meta = NativeMeta(header, "backend", {"count": NativeState("count")})
    handle = IncrementalKeyedStateHandle(
        groups.start,
        groups.end,
        ROCKSDB_FORMAT,
        "backend",
        {
            "000001.sst": SharedFile(
                "backend/000001.sst", FileStateHandle(f"file:{shared}", len(content), zlib.crc32(content))
            )
        },
        {"MANIFEST": location.write_state("manifest", lambda sink: sink.write(b"manifest"), 0)},
        location.write_state("meta", meta.write, 0),
        len(content),
    )
    next(folder.glob(f"{metadata.operators[0].uid}-0-keyed-*")).unlink()
    changed = replace(metadata.operators[0].subtasks[0], keyed_state=[handle])
    operator = replace(metadata.operators[0], subtasks={**metadata.operators[0].subtasks, 0: changed})
    (folder / "_metadata").unlink()
    location.write_metadata(write_metadata(replace(metadata, operators=[operator], format=SavepointFormatType.NATIVE)))
    return location
