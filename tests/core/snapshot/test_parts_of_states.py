"""A state that some subtasks declared anew and others did not: restored, rescaled, read and verified all the same."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pystate.common import Time, Types
from pystate.common.errors import RestoreError
from pystate.common.key_groups import key_group_range
from pystate.common.type_info import TypeInformation
from pystate.core.api.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from pystate.core.snapshot.handles.incremental_handle import AnyKeyedStateHandle
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.metadata import CheckpointMetadata, CheckpointType, SavepointFormatType
from pystate.core.snapshot.metadata_file import write_metadata
from pystate.core.snapshot.native_state import NativeUpload
from pystate.core.snapshot.operator_state import OperatorState, OperatorSubtaskState
from pystate.core.snapshot.reading.inspection import inspect_operators
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.base.loader import create_state_backend
from pystate.core.state.base.state_schema import StateSchema
from pystate.core.state.files.canonical import CanonicalHeader, CanonicalWriter
from pystate.core.state.formats.type_format import pack
from pystate.core.state.keys.keys import KEY_ENCODING, KeyCodec
from pystate.ops.catalog.verification import Verification
from pystate.runtime.slot.snapshots.keyed_snapshots import KeyedSnapshots
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator

UID, MAX_PARALLELISM = "count", 16
KEYS = [f"key-{index}" for index in range(40)]
FORMATS = [("hashmap", False), ("rocksdb", False), ("rocksdb", True)]


def with_ttl(descriptor: StateDescriptor) -> StateDescriptor:
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.days(1)).build())
    return descriptor


def value(type_info: TypeInformation) -> StateDescriptor:
    return ValueStateDescriptor("state", type_info)


CHANGES: dict[str, tuple[StateDescriptor, StateDescriptor, str]] = {
    "widened": (value(Types.INT()), value(Types.LONG()), "LONG"),
    "with a time to live": (value(Types.INT()), with_ttl(value(Types.INT())), "INT"),
    "without a time to live": (with_ttl(value(Types.INT())), value(Types.INT()), "INT"),
    "widened, with a time to live": (value(Types.INT()), with_ttl(value(Types.LONG())), "LONG"),
    "a widened list": (ListStateDescriptor("state", Types.INT()), ListStateDescriptor("state", Types.LONG()), "LONG"),
    "a map with a time to live": (
        MapStateDescriptor("state", Types.STRING(), Types.INT()),
        with_ttl(MapStateDescriptor("state", Types.STRING(), Types.LONG())),
        "LONG",
    ),
}


class Operator:
    """One operator at some parallelism, and its snapshots in a folder."""

    opened: ClassVar[list[Operator]] = []

    def __init__(self, root: Path, backend: str, parallelism: int, handles: list[AnyKeyedStateHandle] | None = None) -> None:
        self.location = SnapshotLocation(str(root))
        self.parallelism = parallelism
        self.codec = KeyCodec(Types.STRING())
        self.opened.append(self)
        self.backends = [
            create_state_backend(
                backend,
                key_codec=self.codec,
                key_group_range=key_group_range(index, parallelism, MAX_PARALLELISM),
                max_parallelism=MAX_PARALLELISM,
                working_directory=tempfile.mkdtemp(dir=root),
            )
            for index in range(parallelism)
        ]
        for one in self.backends:
            mine = [handle for handle in handles or [] if handle.key_group_range.intersect(one.key_group_range)]
            KeyedSnapshots(one).restore(RestoredOperator(self.location.uri, mine))

    def state_of(self, key: str, descriptor: StateDescriptor) -> Any:
        internal = self.codec.internal(key)
        group = self.codec.key_group(internal, MAX_PARALLELISM)
        (backend,) = (one for one in self.backends if group in one.key_group_range)
        backend.set_current_key(internal, group)
        return backend.get_partitioned_state(descriptor)

    def put(self, values: dict[str, int], descriptor: StateDescriptor) -> None:
        for key, number in values.items():
            state = self.state_of(key, descriptor)
            match descriptor:
                case ListStateDescriptor():
                    state.update([number, number])
                case MapStateDescriptor():
                    state.put("x", number)
                case _:
                    state.update(number)
        self.flush()

    def values(self, descriptor: StateDescriptor) -> dict[str, int]:
        found = {}
        for key in KEYS:
            state = self.state_of(key, descriptor)
            match descriptor:
                case ListStateDescriptor():
                    of_key = list(state.get() or [])
                    assert len(of_key) in (0, 2) and len(set(of_key)) < 2
                    number = of_key[0] if of_key else None
                case MapStateDescriptor():
                    number = state.get("x")
                case _:
                    number = state.value()
            if number is not None:
                found[key] = number
        self.flush()
        return found

    def flush(self) -> None:
        for backend in self.backends:
            backend.flush_epoch()

    def snapshot(self, name: str, *, native: bool) -> list[AnyKeyedStateHandle]:
        handles: list[AnyKeyedStateHandle] = []
        for index, backend in enumerate(self.backends):
            groups, prefix = backend.key_group_range, f"{name}-{index}"
            frozen = KeyedSnapshots(backend).freeze(1, None, native=native)
            try:
                if isinstance(frozen, NativeUpload):
                    handles.append(frozen.write(self.location, prefix, 0))
                else:
                    written = self.location.write_state(prefix, frozen.write_canonical, 0)
                    handles.append(KeyedStateHandle(groups.start, groups.end, "canonical", written))
            finally:
                frozen.release()
        self.close()
        return handles

    def close(self) -> None:
        while self.backends:
            self.backends.pop().close()


@pytest.fixture(autouse=True)
def closed():
    """Databases that nobody closes are dropped by the garbage collector, and that takes a second for each."""
    yield
    while Operator.opened:
        Operator.opened.pop().close()


@pytest.fixture(params=FORMATS, ids=["hashmap", "rocksdb", "native"])
def kind(request):
    return request.param


@pytest.fixture(params=CHANGES, ids=str)
def change(request):
    return CHANGES[request.param]


def half_declared(root, kind, old, new, parallelism=2):
    """A snapshot of a job in which the first subtask has declared a state anew, and no other has."""
    backend, native = kind
    before = Operator(root, backend, parallelism)
    before.put({key: number for number, key in enumerate(KEYS)}, old)
    after = Operator(root, backend, parallelism, before.snapshot("old", native=native))
    groups = after.backends[0].key_group_range
    first = next(key for key in KEYS if after.codec.key_group(after.codec.internal(key), MAX_PARALLELISM) in groups)
    after.put({first: 1000}, new)
    expected = {**{key: number for number, key in enumerate(KEYS)}, first: 1000}
    return after.snapshot("half", native=native), expected


def described(root, handles):
    """Write the `_metadata` of a snapshot; return a reader of it."""
    subtasks = {index: OperatorSubtaskState([handle]) for index, handle in enumerate(handles)}
    key_type = Types.STRING().to_plain()
    operator = OperatorState(UID, "count", len(handles), MAX_PARALLELISM, key_type, KEY_ENCODING, subtasks)
    metadata = CheckpointMetadata(
        checkpoint_id=1,
        checkpoint_type=CheckpointType.SAVEPOINT,
        format=SavepointFormatType.CANONICAL,
        timestamp_ms=0,
        job_id="a" * 32,
        job_name="job",
        epoch=1,
        parallelism=len(handles),
        max_parallelism=MAX_PARALLELISM,
        operators=[operator],
        source_position=None,
    )
    (root / "_metadata").unlink(missing_ok=True)
    SnapshotLocation(str(root)).write_metadata(write_metadata(metadata))
    return SnapshotReader(str(root))


@pytest.mark.parametrize("parallelism", [1, 3])
def test_it_is_restored_at_another_parallelism_under_the_new_schema(tmp_path, kind, change, parallelism):
    old, new, _ = change
    handles, expected = half_declared(tmp_path, kind, old, new)
    rescaled = Operator(tmp_path, kind[0], parallelism, handles)
    assert rescaled.backends[0].state_names() == ["state"]
    assert rescaled.values(new) == expected
    once_more = Operator(tmp_path, kind[0], 2, rescaled.snapshot("again", native=kind[1]))
    assert once_more.values(new) == expected


def test_it_goes_through_a_subtask_that_never_declares_it(tmp_path, kind, change):
    old, new, _ = change
    handles, expected = half_declared(tmp_path, kind, old, new, parallelism=3)
    merged = Operator(tmp_path, kind[0], 1, handles).snapshot("merged", native=kind[1])
    again = Operator(tmp_path, kind[0], 2, merged).snapshot("apart", native=kind[1])
    restored = Operator(tmp_path, kind[0], 1, again)
    restored.put({KEYS[7]: 7000}, new)
    assert restored.values(new) == {**expected, KEYS[7]: 7000}


@pytest.mark.parametrize("merged", [False, True])
def test_it_can_be_read_and_inspected_and_is_sound(tmp_path, kind, change, merged):
    old, new, type_name = change
    handles, expected = half_declared(tmp_path, kind, old, new)
    if merged:
        handles = Operator(tmp_path, kind[0], 1, handles).snapshot("merged", native=kind[1])
    reader = described(tmp_path, handles)
    (state,) = reader.keyed_states(UID)
    assert state.name == "state" and len(state.parts) == 2
    found = {row.key: row.value for row in reader.keyed_rows(UID, "state")}
    assert found == expected
    assert [row.value for row in reader.keyed_rows(UID, "state", keys=[KEYS[3]])][0] == expected[KEYS[3]]
    (figures,) = inspect_operators(reader.location, reader.metadata)[0].states
    assert type_name in figures.type and figures.ttl == any(part.ttl for part in state.parts)
    assert Verification(reader.location, reader.metadata, deep=True).problems() == []


def test_schemas_that_do_not_go_together_are_found_and_never_restored_in_silence(tmp_path, kind):
    handles = []
    for index, of_index in enumerate([value(Types.INT()), value(Types.STRING())]):
        one = Operator(tmp_path, kind[0], 2)
        key = next(key for key in KEYS if one.codec.key_group(one.codec.internal(key), MAX_PARALLELISM) // 8 == index)
        one.put({key: 1 if index == 0 else "one"}, of_index)
        handles.append(one.snapshot(f"of-{index}", native=kind[1])[index])
    reader = described(tmp_path, handles)
    (problem,) = Verification(reader.location, reader.metadata).problems()
    assert "'state' is described as VALUE of INT and as VALUE of STRING" in problem.what
    with pytest.raises(RestoreError, match="no one of them takes over the others"):
        reader.keyed_rows(UID, "state")
    with pytest.raises(RestoreError, match="was written as VALUE of"):
        Operator(tmp_path, kind[0], 1, handles).values(value(Types.INT()))
    kept = Operator(tmp_path, kind[0], 1, handles).snapshot("kept", native=kind[1])
    assert len(described(tmp_path, kept).keyed_states(UID)[0].parts) == 2, "who doesn't declare it may keep it"


def test_only_a_deep_look_finds_values_and_keys_that_are_not_what_the_file_says(tmp_path):
    codec, info = KeyCodec(Types.STRING()), StateSchema.of(value(Types.LONG())).meta_info("state")
    groups = key_group_range(0, 1, MAX_PARALLELISM)
    header = CanonicalHeader(Types.STRING(), KEY_ENCODING, MAX_PARALLELISM, groups, (info, replace(info, name="other")))
    key = codec.internal(KEYS[0])
    group, number, text = codec.key_group(key, MAX_PARALLELISM), pack(5), pack("five")

    def write(sink):
        writer = CanonicalWriter(sink, header)
        writer.write("state", group, [(codec.encode(key), b"", text)])
        writer.write("other", (group + 1) % MAX_PARALLELISM, [(codec.encode(key), b"", number)])
        writer.finish()

    handle = SnapshotLocation(str(tmp_path)).write_state("state", write, 0)
    reader = described(tmp_path, [KeyedStateHandle(groups.start, groups.end, "canonical", handle)])
    assert Verification(reader.location, reader.metadata).problems() == []
    first, second = Verification(reader.location, reader.metadata, deep=True).problems()
    assert first.part == second.part == "operator 'count', subtask 0"
    assert first.what.startswith("State 'state'") and "five" in first.what
    assert (
        second.what == f"State 'other': Key 'key-0' is in key group {(group + 1) % MAX_PARALLELISM}, and belongs to {group}."
    )
