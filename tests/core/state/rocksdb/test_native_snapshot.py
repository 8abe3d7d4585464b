"""Incremental checkpoints of the rocksdb backend: what is written, and what it restores to."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rocksdict import Options, SstFileWriter

from pystate.common import Row, Types
from pystate.common.errors import CorruptSnapshotError, RestoreError, SnapshotError, StateError
from pystate.common.key_groups import KeyGroupRange, key_group_range
from pystate.core.api.state import ValueStateDescriptor
from pystate.core.snapshot.handles.incremental_handle import IncrementalKeyedStateHandle
from pystate.core.snapshot.native_state import NativeUpload, SharedTarget
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.base.backend_snapshot import KeyedStateSnapshot
from pystate.core.state.base.loader import create_state_backend
from pystate.core.state.keys.keys import KeyCodec
from pystate.runtime.checkpoint.retention.shared_state_registry import SharedStateRegistry
from pystate.runtime.slot.snapshots.keyed_snapshots import KeyedSnapshots
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator
from tests.core.state.conftest import MAX_PARALLELISM, BackendHarness, written
from tests.core.state.rocksdb.native import LIST, MAP, Operator, names

KEYS = [f"key-{number}" for number in range(60)]


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path)


def path_of(uri: str) -> str:
    return uri.removeprefix("file:")


def filled(root: str, parallelism: int = 1, count: int = 60) -> Operator:
    operator = Operator(root, parallelism)
    operator.write({f"key-{number}": number + 1 for number in range(count)})
    return operator


def test_a_second_checkpoint_writes_what_is_new_and_refers_to_the_rest(root: str) -> None:
    operator = filled(root, count=2000)
    (first,) = operator.checkpoint(1)
    operator.write({"key-3": "changed"})
    (second,) = operator.checkpoint(2)
    assert first.checkpointed_size == first.state_size
    assert second.checkpointed_size < second.state_size
    assert first.shared.items() <= second.shared.items()
    assert len(second.shared) == len(first.shared) + 1
    assert len(os.listdir(os.path.join(root, "shared"))) == len(second.shared)
    operator.write({})
    (third,) = operator.checkpoint(3)
    assert third.shared == second.shared, "nothing is new"
    assert os.listdir(operator.folder) == [os.path.basename(operator.backends[0]._tables.database.directory)]


@pytest.mark.parametrize("parallelism", [1, 2, 3, 4])
def test_a_snapshot_is_restored_to_its_moment_at_any_parallelism(root: str, parallelism: int) -> None:
    operator = filled(root, 2)
    operator.use("key-1", MAP).put("a", 1)
    operator.use("key-1", MAP).put("b", None)
    operator.use("key-2", LIST).add_all(["x", "y"])
    operator.flush()
    handles = operator.checkpoint(1)
    operator.write({key: "later" for key in KEYS})
    restored = Operator(root, parallelism, handles)
    assert restored.values(KEYS) == {key: number + 1 for number, key in enumerate(KEYS)}
    assert dict(restored.use("key-1", MAP).items()) == {"a": 1, "b": None}
    restored.use("key-2", LIST).add("z")
    restored.flush()
    assert list(restored.use("key-2", LIST).get()) == ["x", "y", "z"], "new parts of a list stand after restored ones"
    restored.flush()
    assert sum(backend.entry_count() for backend in restored.backends) == 60 + 2 + 2, "nothing is there twice"
    again = Operator(root, 1, restored.checkpoint(2))
    assert list(again.use("key-2", LIST).get()) == ["x", "y", "z"]
    assert len(again.values(KEYS)) == 60


def test_key_groups_that_were_given_away_are_not_there_after_coming_back(root: str) -> None:
    first = filled(root)
    halves = Operator(root, 2, first.checkpoint(1))
    halves.write({key: None for key in KEYS[:30]})
    halves.write({key: "new" for key in KEYS[30:]})
    whole = Operator(root, 1, halves.checkpoint(2))
    assert whole.values(KEYS) == {key: "new" for key in KEYS[30:]}
    assert whole.backends[0].entry_count() == 30


def test_rows_of_other_databases_are_taken_in_as_several_files_and_given_on(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pystate.core.state.rocksdb.database._FILE_BYTES", 1)
    monkeypatch.setattr("pystate.core.state.rocksdb.database._ROWS_AT_ONCE", 7)
    first = filled(root)
    thirds = Operator(root, 3, first.checkpoint(1))
    thirds.write({key: "new" for key in KEYS[20:]})
    whole = Operator(root, 1, thirds.checkpoint(2))
    expected = {key: number + 1 if number < 20 else "new" for number, key in enumerate(KEYS)}
    assert whole.values(KEYS) == expected
    assert whole.backends[0].entry_count() == 60
    whole.write({KEYS[0]: "newer", KEYS[1]: None})
    halves = Operator(root, 2, whole.checkpoint(3))
    del expected[KEYS[1]]
    assert halves.values(KEYS) == {**expected, KEYS[0]: "newer"}


@pytest.mark.parametrize("what", ["open", "finish"])
def test_a_disk_that_is_full_while_rows_are_taken_in_leaves_the_backend_empty(
    root: str, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    class Full:
        def __init__(self, options: Options) -> None:
            self._writer = SstFileWriter(options)
            self.file_size = self._writer.file_size

        def open(self, path: str) -> None:
            self._writer.open(path)
            self._fill("open")

        def __setitem__(self, row: bytes, value: bytes) -> None:
            self._writer[row] = value

        def finish(self) -> None:
            self._writer.finish()
            self._fill("finish")

        def _fill(self, done: str) -> None:
            if done == what:
                message = "No space left on device"
                raise Exception(message)  # noqa: TRY002 - as rocksdict does

    handles = filled(root, 2).checkpoint(1)
    with monkeypatch.context() as patch, pytest.raises(StateError, match="No space left"):
        patch.setattr("pystate.core.state.rocksdb.database.SstFileWriter", Full)
        Operator(root, 1, handles)
    assert Operator(root, 1, handles).values(KEYS) == {key: number + 1 for number, key in enumerate(KEYS)}


def test_after_a_restore_the_chain_goes_on(root: str) -> None:
    operator = filled(root, count=2000)
    (before,) = operator.checkpoint(1)
    operator.close()
    restored = Operator(root, 1, [before])
    restored.write({"key-1": "changed"})
    (after,) = restored.checkpoint(2)
    assert before.shared.items() <= after.shared.items(), "restored files keep key and place"
    (new,) = (file.key for name, file in after.shared.items() if name not in before.shared)
    assert new.startswith(restored.backends[0].backend_id), "new ones are of the new backend"
    assert Operator(root, 1, [after]).values(["key-1", "key-2"]) == {"key-1": "changed", "key-2": 3}


def test_after_a_restore_from_another_jobs_checkpoint_all_is_written_again(root: str) -> None:
    operator = filled(root)
    (theirs,) = operator.checkpoint(1)
    restored = Operator(root, 1, [theirs], owned=False)
    (ours,) = restored.checkpoint(2)
    assert ours.checkpointed_size == ours.state_size
    assert not {file.key for file in ours.shared.values()} & {file.key for file in theirs.shared.values()}
    for path in names([theirs]):
        os.unlink(path_of(path))
    assert len(Operator(root, 1, [ours]).values(KEYS)) == 60, "their files may go"


def test_a_native_savepoint_shares_nothing_with_checkpoints(root: str) -> None:
    operator = filled(root)
    (before,) = operator.checkpoint(1)
    folder = os.path.join(root, "savepoint")
    os.mkdir(folder)
    upload = operator.snapshots[0].freeze(2, None, native=True)
    assert isinstance(upload, NativeUpload)
    savepoint = upload.write(SnapshotLocation(folder), "x", 0)
    upload.release()
    operator.ended(2, completed=True)
    assert savepoint.shared == {}, "no file of a checkpoint is referred to"
    assert savepoint.files.keys() >= before.shared.keys()
    assert savepoint.checkpointed_size == savepoint.state_size
    (after,) = operator.checkpoint(3)
    assert after.shared == before.shared, "no checkpoint refers to its files"
    for path in names([before]):
        os.unlink(path_of(path))
    moved = shutil.move(folder, os.path.join(root, "moved"))
    for parallelism in (1, 3):
        restored = Operator(moved, parallelism, [savepoint], owned=True)
        assert len(restored.values(KEYS)) == 60
        for new in restored.checkpoint(4):
            assert new.checkpointed_size == new.state_size, "the first checkpoint after it is a full one"
        restored.close()


def test_a_full_checkpoint_writes_all_again_under_keys_of_its_own(root: str) -> None:
    operator = filled(root)
    (first,) = operator.checkpoint(1)
    upload = operator.snapshots[0].freeze(2, SharedTarget(operator.shared, "2-", anew=True, completed=operator.completed))
    assert isinstance(upload, NativeUpload)
    full = upload.write(SnapshotLocation(root), "chk-2", 100)
    upload.release()
    operator.ended(2, completed=True)
    assert full.checkpointed_size == full.state_size
    assert first.shared.keys() == full.shared.keys()
    assert not {file.key for file in first.shared.values()} & {file.key for file in full.shared.values()}
    (third,) = operator.checkpoint(3)
    assert third.shared == full.shared
    for path in names([first]):
        os.unlink(path_of(path))
    assert len(Operator(root, 1, [third]).values(KEYS)) == 60


def test_a_native_savepoint_of_another_backend_is_canonical() -> None:
    backend = create_state_backend(
        "hashmap",
        key_codec=KeyCodec(None),
        key_group_range=key_group_range(0, 1, MAX_PARALLELISM),
        max_parallelism=MAX_PARALLELISM,
    )
    assert isinstance(KeyedSnapshots(backend).freeze(1, None, native=True), KeyedStateSnapshot)


def test_what_is_not_confirmed_is_written_again(root: str) -> None:
    operator = filled(root)
    (first,) = operator.checkpoint(1, completed=None)
    (second,) = operator.checkpoint(2, completed=None)
    assert not names([first]) & names([second])
    assert {file.key for file in first.shared.values()} == {file.key for file in second.shared.values()}
    operator.ended(1, completed=False)
    operator.ended(2, completed=True)
    (third,) = operator.checkpoint(3)
    assert third.shared == second.shared


def test_of_two_that_complete_the_first_ones_files_are_referred_to(root: str) -> None:
    operator = filled(root)
    (first,) = operator.checkpoint(1, completed=None)
    operator.checkpoint(2, completed=None)
    operator.ended(1, completed=True)
    operator.ended(2, completed=True)
    (third,) = operator.checkpoint(3)
    assert third.shared == first.shared, "the driver deletes what came second"


def test_two_snapshots_at_the_same_time_hold_their_own_moments(root: str) -> None:
    operator = filled(root)
    first = operator.freeze(1)
    operator.write({key: "second" for key in KEYS})
    second = operator.freeze(2)
    operator.write({key: "third" for key in KEYS})
    operator.compact()
    later, earlier = second(), first()
    assert Operator(root, 1, later).values(KEYS) == {key: "second" for key in KEYS}
    assert Operator(root, 1, earlier).values(KEYS) == {key: number + 1 for number, key in enumerate(KEYS)}


def test_a_snapshot_that_was_released_is_not_written_and_leaves_no_shared_file(root: str) -> None:
    operator = filled(root)
    target_free = operator.freeze(1)
    operator.backends[0]._tables.database.await_links()
    for name in os.listdir(operator.folder):
        if name.startswith("native-"):
            for file in Path(operator.folder, name).glob("CURRENT"):
                file.unlink()
    with pytest.raises(SnapshotError, match="released"):
        target_free()
    assert os.listdir(os.path.join(root, "shared")) == []


def test_a_snapshot_outlives_the_backend(root: str) -> None:
    operator = filled(root)
    upload = operator.freeze(1)
    for backend in operator.backends:
        backend.close()
    assert len(Operator(root, 1, upload()).values(KEYS)) == 60


def test_an_empty_backend_and_empty_states(root: str) -> None:
    empty = Operator(root, 2)
    handles = empty.checkpoint(1)
    restored = Operator(root, 1, handles)
    assert restored.values(KEYS) == {}
    restored.write({})
    (again,) = restored.checkpoint(2)
    third = Operator(root, 1, [again])
    assert third.backends[0].state_names() == ["value"]
    assert third.values(KEYS) == {}


def test_states_that_nobody_declares_go_into_the_next_snapshot(root: str) -> None:
    operator = filled(root)
    operator.use("key-1", LIST).add_all(["a", "b"])
    operator.flush()
    untouched = Operator(root, 1, operator.checkpoint(1))
    assert sorted(untouched.backends[0].state_names()) == ["list", "value"]
    restored = Operator(root, 2, untouched.checkpoint(2))
    assert len(restored.values(KEYS)) == 60
    restored.use("key-1", LIST).add("c")
    assert list(restored.use("key-1", LIST).get()) == ["a", "b", "c"]


def test_restored_values_of_an_older_type_are_converted_at_declaration(root: str) -> None:
    old, new = Types.ROW_NAMED(["a"], [Types.LONG()]), Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()])
    operator = Operator(root)
    operator.use("k", ValueStateDescriptor("row", old)).update(Row(a=1))
    operator.flush()
    restored = Operator(root, 1, operator.checkpoint(1))
    state = restored.use("k", ValueStateDescriptor("row", new))
    assert state.value() == Row(a=1, b=None)
    restored.flush()
    again = Operator(root, 1, restored.checkpoint(2))
    assert again.use("k", ValueStateDescriptor("row", new)).value() == Row(a=1, b=None)


def test_a_canonical_file_of_a_natively_restored_backend_is_whole(root: str) -> None:
    operator = filled(root, 2)
    restored = Operator(root, 3, operator.checkpoint(1))
    files = [written(backend.snapshot()) for backend in restored.backends]
    harness = BackendHarness("hashmap").restored(files, 1)
    assert {key: harness.state(key, "value").value() for key in KEYS} == {key: n + 1 for n, key in enumerate(KEYS)}


def test_another_backend_names_the_remedy(root: str) -> None:
    handles = filled(root).checkpoint(1)
    hashmap = create_state_backend(
        "hashmap",
        key_codec=KeyCodec(None),
        key_group_range=KeyGroupRange(0, MAX_PARALLELISM - 1),
        max_parallelism=MAX_PARALLELISM,
        working_directory=root,
    )
    with pytest.raises(RestoreError, match="incremental") as raised:
        KeyedSnapshots(hashmap).restore(RestoredOperator(root, list(handles)))
    assert "take a savepoint" in str(raised.value.hint)


def test_another_key_type_is_refused_and_a_compatible_one_checked(root: str) -> None:
    handles = filled(root).checkpoint(1)
    with pytest.raises(RestoreError, match="the type of a key can't change"):
        Operator(root, 1, handles, key_type=Types.INT())
    assert len(Operator(root, 2, handles, key_type=Types.STRING()).values(KEYS)) == 60
    with pytest.raises(RestoreError, match="doesn't fit the key type LONG"):
        Operator(root, 2, handles, key_type=Types.LONG())


@pytest.mark.parametrize("kind", ["shared", "private", "meta"])
@pytest.mark.parametrize("damage", ["changed", "cut", "missing"])
def test_damage_names_the_file_and_leaves_the_backend_empty(root: str, kind: str, damage: str) -> None:
    operator = filled(root, count=500)
    (handle,) = operator.checkpoint(1)
    found: dict[str, Any] = {
        "shared": [file.handle for file in handle.shared.values()],
        "private": [one for one in handle.private.values() if one.size > 100],
        "meta": [handle.meta],
    }
    path = Path(root, path_of(found[kind][0].path))
    data = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    else:
        data[len(data) // 2] ^= 1
        path.write_bytes(data if damage == "changed" else data[:-1])
    with pytest.raises(CorruptSnapshotError) as raised:
        Operator(root, 1, [handle])
    assert path.name in str(raised.value)


def test_parts_that_overlap_are_refused(root: str) -> None:
    handles = filled(root, 2).checkpoint(1)
    with pytest.raises(RestoreError, match="overlap"):
        Operator(root, 1, [*handles, handles[0]])


def test_an_unreadable_handle_is_refused(root: str) -> None:
    (handle,) = filled(root).checkpoint(1)
    plain = handle.to_plain()
    assert IncrementalKeyedStateHandle.from_plain(plain) == handle
    plain["private"]["../../evil"] = plain["meta"]
    with pytest.raises(CorruptSnapshotError, match="evil"):
        IncrementalKeyedStateHandle.from_plain(plain)


def test_a_long_chain_with_compactions_deletes_nothing_needed_and_leaves_nothing(root: str) -> None:
    operator = Operator(root, 2)
    registry: SharedStateRegistry[Any] = SharedStateRegistry()
    retained: list[tuple[int, list[IncrementalKeyedStateHandle], dict[str, Any]]] = []
    expected: dict[str, Any] = {}
    for number in range(1, 21):
        changes = {f"key-{(number * 7 + index) % 60}": f"{number}-{index}" * 20 for index in range(9)}
        operator.write(changes)
        expected = {**expected, **changes}
        if number % 4 == 0:
            operator.compact()
        completed = number % 5 != 0
        handles = operator.checkpoint(number, completed=completed)
        if not completed:
            for name in os.listdir(os.path.join(root, "shared")):
                if name.startswith(f"{number}-"):
                    operator.shared.remove(name)
            continue
        for handle in handles:
            for file in handle.shared.values():
                registry.register(file.handle.path, file.handle, number)
        retained = [*retained, (number, handles, expected)][-2:]
        for gone in registry.unregister_unused(retained[0][0]):
            os.unlink(path_of(gone.path))
        for _, one, values in retained:
            assert Operator(root, 2, one).values(KEYS) == values
        if number == 9:  # a new attempt, at the same place
            operator.close()
            operator = Operator(root, 2, handles)
    needed = {os.path.basename(path) for _, handles, _ in retained for path in names(handles)}
    assert set(os.listdir(os.path.join(root, "shared"))) == needed


CHANGES = st.dictionaries(st.sampled_from(KEYS[:25]), st.none() | st.integers() | st.text(max_size=30), max_size=12)
STEPS = st.lists(st.tuples(CHANGES, st.sampled_from(["complete", "fail", "open"]), st.booleans()), min_size=1, max_size=5)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(STEPS, st.integers(1, 3), st.data())
def test_each_checkpoint_of_a_chain_is_restored_to_exactly_its_moment(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any], parallelism: int, data: st.DataObject
) -> None:
    root = str(tmp_path_factory.mktemp("chain"))
    operator = Operator(root, parallelism)
    expected: dict[str, Any] = {}
    moments = []
    for number, (changes, end, restart) in enumerate(steps, start=1):
        operator.write(changes)
        expected = {key: value for key, value in {**expected, **changes}.items() if value is not None}
        handles = operator.checkpoint(number, completed={"complete": True, "fail": False, "open": None}[end])
        moments.append((handles, expected))
        if restart:
            parallelism = data.draw(st.integers(1, 3))
            operator.close()
            operator = Operator(root, parallelism, handles)
    for handles, values in moments:
        for new_parallelism in {len(handles), len(handles) + 1, max(1, len(handles) - 1)}:
            restored = Operator(root, new_parallelism, handles)
            assert restored.values(KEYS[:25]) == values
            assert sum(backend.entry_count() for backend in restored.backends) == len(values)
            restored.close()
