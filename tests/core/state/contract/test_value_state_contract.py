"""What every backend promises about value state, epochs and snapshots."""

from __future__ import annotations

import io
import os
import tempfile
import threading
from typing import Any

import pytest

from pystate.common import Row, TypeInformation, Types
from pystate.common.errors import ConfigurationError, CorruptSnapshotError, RestoreError, SnapshotError, StateError
from pystate.common.key_groups import KeyGroupRange
from pystate.core.api.state import ValueState, ValueStateDescriptor
from pystate.core.state.base.loader import create_state_backend, state_backend_names
from pystate.core.state.files.canonical import CanonicalHeader, CanonicalWriter, StateMetaInfoSnapshot
from pystate.core.state.keys.keys import KEY_ENCODING, KeyCodec
from pystate.core.state.values.serializers import serializer_for
from tests.core.state.conftest import MAX_PARALLELISM, SPILLING, BackendHarness, written
from tests.waiting import LONGEST_S

LIST = Types.LIST(Types.LONG())
# a type, a value, another value
VALUES: list[tuple[TypeInformation | None, Any, Any]] = [
    (Types.LONG(), 1, 2),
    (Types.STRING(), "a", ""),
    (Types.BOOLEAN(), False, True),
    (Types.DOUBLE(), 0.0, 1.5),
    (Types.TUPLE([Types.INT(), Types.STRING()]), (1, "a"), (2, "b")),
    (LIST, [], [1, 2]),
    (Types.MAP(Types.STRING(), Types.LONG()), {}, {"a": 1}),
    (Types.ROW_NAMED(["a"], [Types.INT()]), Row(a=1), Row(a=2)),
    (Types.PICKLED_BYTE_ARRAY(), {1, 2}, frozenset()),
    (None, 0, {"a": [1, (2,)]}),
]


@pytest.mark.parametrize(("type_info", "first", "second"), VALUES)
def test_a_value_is_read_updated_and_cleared_across_epochs_and_restores(
    harness: BackendHarness, type_info: TypeInformation | None, first: Any, second: Any
) -> None:
    def state(key: str) -> Any:
        return harness.state(key, type_info=type_info)

    assert state("k").value() is None
    state("k").update(first)
    assert state("k").value() == first
    harness.flush()
    assert state("k").value() == first
    state("k").update(second)
    state("other").update(first)
    harness.flush()
    assert state("k").value() == second
    harness = harness.restored(harness.save())
    assert state("k").value() == second
    assert state("other").value() == first
    state("k").clear()
    assert state("k").value() is None
    harness.flush()
    state("other").update(None)
    assert state("other").value() is None
    harness.flush()
    assert state("k").value() is None
    assert harness.backend.entry_count() == 0
    assert harness.restored(harness.save()).backend.entry_count() == 0


def test_each_key_has_its_own_value_and_keys_are_typed(harness: BackendHarness) -> None:
    keys = [1, 1.0, True, "1", b"1", (1,), [1], Row(1)]
    for number, key in enumerate(keys):
        harness.state(key).update(number)
    assert [harness.state(key).value() for key in keys] == list(range(len(keys)))
    harness.flush()
    harness = harness.restored(harness.save(), parallelism=3)
    assert [harness.state(key).value() for key in keys] == list(range(len(keys)))


def test_two_states_of_one_key_do_not_meet(harness: BackendHarness) -> None:
    harness.state("k", "a").update(1)
    harness.state("k", "b").update(2)
    harness.flush()
    harness.state("k", "a").clear()
    assert (harness.state("k", "a").value(), harness.state("k", "b").value()) == (None, 2)
    assert sorted(harness.backend.state_names()) == ["a", "b"]


def test_the_same_declaration_gives_the_same_object_and_another_type_is_refused(harness: BackendHarness) -> None:
    backend = harness.backend
    state = backend.get_partitioned_state(ValueStateDescriptor("n", Types.LONG()))
    assert backend.get_partitioned_state(ValueStateDescriptor("n", Types.LONG())) is state
    with pytest.raises(StateError, match="declared twice"):
        backend.get_partitioned_state(ValueStateDescriptor("n", Types.INT()))


def test_a_wrong_value_is_refused_at_the_write_by_state_and_type(harness: BackendHarness) -> None:
    state = harness.state("k", "count", Types.LONG())
    for wrong in ("1", 1.0, True, 2**63):
        with pytest.raises(StateError, match=r"'count'.*LONG"):
            state.update(wrong)
    assert state.value() is None
    with pytest.raises(StateError, match=r"'list'.*LIST<LONG>"):
        harness.state("k", "list", LIST).update({1, 2})


def test_a_wrong_part_of_a_value_fails_the_flush_and_nothing_of_the_epoch_stays(harness: BackendHarness) -> None:
    harness.state("k", "n", Types.LONG()).update(1)
    harness.state("k", "l", LIST).update([1])
    harness.flush()
    harness.state("k", "n", Types.LONG()).update(2)
    harness.state("k", "l", LIST).update(["x"])
    with pytest.raises(StateError, match=r"'l'.*'k'.*LONG"):
        harness.flush()
    harness.rollback()
    assert harness.state("k", "n", Types.LONG()).value() == 1
    assert harness.state("k", "l", LIST).value() == [1]


def test_a_rollback_undoes_writes_removals_and_in_place_changes(harness: BackendHarness) -> None:
    for key in "abcd":
        harness.state(key, type_info=LIST).update([1])
    harness.flush()
    harness.state("a", type_info=LIST).update([2])
    harness.state("b", type_info=LIST).clear()
    value = harness.state("c", type_info=LIST).value()
    value.append(2)
    value = harness.state("d", type_info=LIST).value()
    value.append(2)
    harness.state("d", type_info=LIST).update(value)
    harness.state("new", type_info=LIST).update([])
    harness.rollback()
    assert [harness.state(key, type_info=LIST).value() for key in "abcd"] == [[1]] * 4
    assert harness.state("new", type_info=LIST).value() is None


def test_an_in_place_change_without_update_counts_as_an_update(harness: BackendHarness) -> None:
    harness.state("k", type_info=LIST).update([1])
    harness.flush()
    harness.state("k", type_info=LIST).value().append(2)
    assert harness.state("k", type_info=LIST).value() == [1, 2]
    harness.flush()
    assert harness.state("k", type_info=LIST).value() == [1, 2]
    assert harness.restored(harness.save()).state("k", type_info=LIST).value() == [1, 2]


def test_a_change_after_the_update_of_the_same_epoch_counts(harness: BackendHarness) -> None:
    mine = [1]
    harness.state("k", type_info=LIST).update(mine)
    mine.append(2)
    harness.flush()
    assert harness.state("k", type_info=LIST).value() == [1, 2]


def test_objects_kept_from_an_earlier_epoch_are_cut_off(harness: BackendHarness) -> None:
    mine = [1]
    harness.state("k", type_info=LIST).update(mine)
    harness.flush()
    mine.append(2)
    handed = harness.state("k", type_info=LIST).value()
    assert handed == [1]
    harness.flush()
    handed.append(3)
    assert harness.state("k", type_info=LIST).value() == [1]
    harness.rollback()
    handed.append(4)
    harness.flush()
    assert harness.restored(harness.save()).state("k", type_info=LIST).value() == [1]


def test_an_object_kept_from_a_rolled_back_epoch_is_cut_off(harness: BackendHarness) -> None:
    harness.state("k", type_info=LIST).update([1])
    harness.flush()
    kept = harness.state("k", type_info=LIST).value()
    harness.rollback()
    again = harness.state("k", type_info=LIST).value()
    kept.append(2)
    assert again == [1]


def test_a_snapshot_holds_flushed_epochs_only(harness: BackendHarness) -> None:
    harness.state("k", type_info=LIST).update([1])
    harness.flush()
    harness.state("k", type_info=LIST).value().append(2)
    harness.state("running", type_info=LIST).update([1])
    (snapshot,) = harness.snapshot()
    harness.state("k", type_info=LIST).value().append(3)
    restored = harness.restored([written(snapshot)])
    assert restored.state("k", type_info=LIST).value() == [1]
    assert restored.state("running", type_info=LIST).value() is None
    harness.flush()
    assert harness.state("k", type_info=LIST).value() == [1, 2, 3]


@pytest.mark.parametrize("type_info", [LIST, None])
def test_what_happens_while_a_snapshot_is_open_does_not_leak_into_it(
    harness: BackendHarness, type_info: TypeInformation | None
) -> None:
    for key in range(20):
        harness.state(key, type_info=type_info).update([key])
    harness.flush()
    (snapshot,) = harness.snapshot()
    for epoch in range(3):
        for key in range(0, 20, 2):
            harness.state(key, type_info=type_info).value().append(epoch)
        harness.state(1, type_info=type_info).clear()
        harness.state(3, type_info=type_info).update(None if epoch % 2 else [99])
        harness.state(f"new-{epoch}", type_info=type_info).update([1])
        harness.state("late", "later").update(1)
        harness.flush()
    assert harness.backend.entry_count() == 20 - 1 + 3 + 1
    restored = harness.restored([written(snapshot)])
    assert {key: restored.state(key, type_info=type_info).value() for key in range(20)} == {k: [k] for k in range(20)}
    assert restored.backend.entry_count() == 20
    for _ in range(2):  # layers are merged at the flush after the release
        assert harness.state(0, type_info=type_info).value() == [0, 0, 1, 2]
        assert harness.state(1, type_info=type_info).value() is None
        assert harness.state(3, type_info=type_info).value() == [99]
        assert harness.backend.entry_count() == 20 - 1 + 3 + 1
        harness.flush()


def test_open_snapshots_each_hold_their_own_moment(harness: BackendHarness) -> None:
    snapshots = []
    for epoch in range(12):  # always two open, so that nothing can be merged meanwhile
        harness.state("k").update(epoch)
        harness.state(epoch).update(epoch)
        harness.state(epoch - 1).clear()
        harness.flush()
        snapshots.append((epoch, harness.backend.snapshot()))
        if len(snapshots) > 2:
            old, snapshot = snapshots.pop(0)
            restored = harness.restored([written(snapshot)])
            assert (restored.state("k").value(), restored.state(old).value()) == (old, old)
            assert restored.backend.entry_count() == 2
    assert (harness.state("k").value(), harness.state(11).value(), harness.state(10).value()) == (11, 11, None)
    for epoch, snapshot in snapshots:
        assert harness.restored([written(snapshot)]).state("k").value() == epoch


def test_a_snapshot_can_be_written_twice_and_released_twice_and_not_after(harness: BackendHarness) -> None:
    harness.state("k").update(1)
    harness.flush()
    snapshot = harness.backend.snapshot()
    sinks = io.BytesIO(), io.BytesIO()
    for sink in sinks:
        snapshot.write_canonical(sink)
    assert sinks[0].getvalue() == sinks[1].getvalue()
    snapshot.release()
    snapshot.release()
    with pytest.raises(SnapshotError):
        snapshot.write_canonical(io.BytesIO())


class _Gate(io.BytesIO):
    """A sink that stops in its first write until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.go = threading.Event(), threading.Event()

    def write(self, data: Any) -> int:
        self.reached.set()
        assert self.go.wait(LONGEST_S)
        return super().write(data)


def test_a_snapshot_released_while_it_is_written_stops_the_writer_and_harms_nobody(harness: BackendHarness) -> None:
    for key in range(50):
        harness.state(key).update(key)
    harness.flush()
    snapshot, sink = harness.backend.snapshot(), _Gate()
    errors: list[SnapshotError] = []

    def write() -> None:
        try:
            snapshot.write_canonical(sink)
        except SnapshotError as error:
            errors.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    assert sink.reached.wait(LONGEST_S)
    snapshot.release()
    for key in range(60):
        harness.state(key).update(-key)
    harness.flush()
    sink.go.set()
    thread.join()
    assert len(errors) == 1
    harness.flush()
    assert [harness.state(key).value() for key in range(60)] == [-key for key in range(60)]


def test_a_snapshot_is_written_while_epochs_go_on(harness: BackendHarness) -> None:
    for key in range(2000):
        harness.state(key, type_info=Types.LONG()).update(0)
    harness.flush()
    for round_number in range(1, 6):
        snapshot = harness.backend.snapshot()
        results: list[bytes] = []
        thread = threading.Thread(target=lambda s=snapshot, r=results: r.append(written(s)))
        thread.start()
        for key in range(2000):
            harness.state(key, type_info=Types.LONG()).update(round_number)
            if key % 500 == 499:
                harness.flush()
        thread.join()
        restored = harness.restored(results)
        assert {restored.state(key, type_info=Types.LONG()).value() for key in range(2000)} == {round_number - 1}


@pytest.mark.parametrize("key_type", [None, Types.STRING()])
@pytest.mark.parametrize(("old", "new"), [(1, 1), (2, 3), (3, 2), (1, MAX_PARALLELISM), (MAX_PARALLELISM, 1)])
def test_state_moves_to_another_parallelism_complete(
    backend_name: str, key_type: TypeInformation | None, old: int, new: int
) -> None:
    harness = BackendHarness(backend_name, key_type, old)
    expected = {f"key-{i}": i for i in range(200)}
    for key, value in expected.items():
        harness.state(key, "n", Types.LONG()).update(value)
        harness.state(key, "l", LIST).update([value])
    harness.flush()
    restored = harness.restored(harness.save(), new)
    assert {key: restored.state(key, "n", Types.LONG()).value() for key in expected} == expected
    assert all(restored.state(key, "l", LIST).value() == [value] for key, value in expected.items())
    assert sum(backend.entry_count() for backend in restored.backends) == 400


@pytest.mark.parametrize("target", state_backend_names())
@pytest.mark.parametrize("parallelism", [2, 3, 1])
def test_a_snapshot_of_one_backend_restores_on_another(backend_name: str, target: str, parallelism: int) -> None:
    harness = BackendHarness(backend_name, None, 2)
    expected: dict[tuple[Any, int], Any] = {}
    keys = ["a", "", 1, 1.0, True, b"a", ("a", 1), 2**70, *range(2, 100)]
    for position, key in enumerate(keys):
        for number, (type_info, first, second) in enumerate(VALUES):
            value = second if position % 2 else first
            harness.state(key, f"s{number}", type_info).update(value)
            expected[position, number] = value
    harness.flush()
    harness.state("a", "s0", VALUES[0][0]).clear()
    del expected[0, 0]
    harness.flush()

    restored = harness.restored(harness.save(), parallelism, target)
    back = restored.restored(restored.save(), 2, backend_name)
    for other in (restored, back):
        assert sum(backend.entry_count() for backend in other.backends) == len(expected)
        for position, key in enumerate(keys):
            for number, (type_info, _, _) in enumerate(VALUES):
                assert other.state(key, f"s{number}", type_info).value() == expected.get((position, number))


def test_a_key_group_that_two_files_have_is_refused(harness: BackendHarness) -> None:
    # one key each, of the same key group
    group = harness.codec.key_group("a", MAX_PARALLELISM)
    other = next(key for key in map(str, range(1000)) if harness.codec.key_group(key, MAX_PARALLELISM) == group)
    files = []
    for key in ("a", other):
        one = BackendHarness(harness.backend_name)
        one.state(key).update(1)
        one.flush()
        files += one.save()
    with pytest.raises(RestoreError, match=f"'s' has key group {group} twice"):
        harness.restored(files)


def test_a_failed_restore_leaves_the_backend_empty(harness: BackendHarness) -> None:
    harness.state("a", "one").update(1)
    harness.state("a", "two").update(2)
    harness.flush()
    (good,) = harness.save()
    target = BackendHarness(harness.backend_name)
    with pytest.raises(CorruptSnapshotError):
        target.backend.restore([io.BytesIO(good), io.BytesIO(b"damaged")])
    assert (target.backend.state_names(), target.backend.entry_count()) == ([], 0)
    target.backend.restore([io.BytesIO(good)])
    assert target.backend.entry_count() == 2
    assert target.state("a", "two").value() == 2


@pytest.mark.parametrize("type_info", [Types.LONG(), LIST])
def test_a_refused_restore_harms_nothing_that_is_there(harness: BackendHarness, type_info: TypeInformation) -> None:
    value = 1 if type_info is not LIST else [1]
    harness.state("a", type_info=type_info).update(value)
    harness.flush()
    (file,) = harness.save()
    with pytest.raises(StateError, match="empty"):
        harness.backend.restore([io.BytesIO(file)])
    assert harness.state("a", type_info=type_info).value() == value
    harness.flush()
    assert harness.backend.entry_count() == 1


def test_a_snapshot_can_be_written_after_the_backend_was_closed(harness: BackendHarness) -> None:
    harness.state("k").update(1)
    harness.flush()
    snapshot = harness.backend.snapshot()
    harness.backend.close()
    harness.backend.close()
    assert harness.restored([written(snapshot)]).state("k").value() == 1


def test_a_large_epoch_of_updates_and_removals_is_complete(harness: BackendHarness) -> None:
    keys = 2_000 if harness.backend_name == SPILLING else 12_000  # each of them is spilled alone there
    for key in range(keys):
        harness.state(key, type_info=Types.STRING()).update("x" * 200)
    harness.flush()
    for key in range(keys):
        state = harness.state(key, type_info=Types.STRING())
        if key % 3:
            state.update(f"{state.value()}{key}")
        else:
            state.clear()
    harness.flush()
    assert harness.backend.entry_count() == keys * 2 // 3
    for key in (0, 1, 2, keys // 2 - 1, keys // 2 + 1, keys - 2, keys - 1):
        assert harness.state(key, type_info=Types.STRING()).value() == ("x" * 200 + str(key) if key % 3 else None)


def test_restored_state_that_nobody_declares_is_kept(harness: BackendHarness) -> None:
    harness.state("k", "old", Types.LONG()).update(1)
    harness.flush()
    second = harness.restored(harness.save())
    second.state("k", "new").update(2)
    second.flush()
    third = second.restored(second.save())
    assert sorted(third.backend.state_names()) == ["new", "old"]
    assert third.state("k", "old", Types.LONG()).value() == 1


def test_restored_state_declared_with_another_type_is_refused(harness: BackendHarness) -> None:
    harness.state("k", "n", Types.LONG()).update(1)
    harness.flush()
    restored = harness.restored(harness.save())
    with pytest.raises(RestoreError, match=r"'n'.*LONG.*STRING"):
        restored.state("k", "n", Types.STRING())
    assert restored.state("k", "n", Types.LONG()).value() == 1


def restore_into(backend_name: str, files: list[bytes], key_type: TypeInformation | None, max_parallelism: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        backend = create_state_backend(
            "rocksdb" if backend_name == SPILLING else backend_name,
            key_codec=KeyCodec(key_type),
            key_group_range=KeyGroupRange(0, max_parallelism - 1),
            max_parallelism=max_parallelism,
            working_directory=folder,
        )
        try:
            backend.restore(io.BytesIO(data) for data in files)
        finally:
            backend.close()
            assert os.listdir(folder) == []


def test_a_snapshot_that_does_not_fit_is_refused(backend_name: str) -> None:
    harness = BackendHarness(backend_name, Types.LONG(), 1)
    harness.state(1).update(1)
    harness.flush()
    files = harness.save()
    with pytest.raises(RestoreError, match=r"LONG.*INT"):
        restore_into(backend_name, files, Types.INT(), MAX_PARALLELISM)
    with pytest.raises(RestoreError, match="max parallelism 16"):
        restore_into(backend_name, files, Types.LONG(), 32)
    with pytest.raises(RestoreError, match="twice"):
        restore_into(backend_name, files * 2, Types.LONG(), MAX_PARALLELISM)
    with pytest.raises(CorruptSnapshotError):
        restore_into(backend_name, [files[0][:-1]], Types.LONG(), MAX_PARALLELISM)
    with pytest.raises(StateError, match="empty"):
        harness.backend.restore([])
    restore_into(backend_name, files, None, MAX_PARALLELISM)


def test_an_untyped_snapshot_restores_into_a_declared_key_only_if_each_key_fits(backend_name: str) -> None:
    harness = BackendHarness(backend_name)
    harness.state("a").update(1)
    harness.flush()
    restore_into(backend_name, harness.save(), Types.STRING(), MAX_PARALLELISM)
    with pytest.raises(RestoreError, match=r"STRING.*LONG"):
        restore_into(backend_name, harness.save(), Types.LONG(), MAX_PARALLELISM)


def test_a_key_filed_under_a_wrong_key_group_is_noticed(backend_name: str) -> None:
    codec = KeyCodec()
    header = CanonicalHeader(
        key_type=None,
        key_encoding=KEY_ENCODING,
        max_parallelism=MAX_PARALLELISM,
        key_group_range=KeyGroupRange(0, MAX_PARALLELISM - 1),
        states=(StateMetaInfoSnapshot("n", "VALUE", serializer_for(Types.LONG()).snapshot()),),
    )
    sink = io.BytesIO()
    writer = CanonicalWriter(sink, header)
    wrong_group = (codec.key_group("k", MAX_PARALLELISM) + 1) % MAX_PARALLELISM
    writer.write("n", wrong_group, [(codec.encode("k"), b"", b"\x01")])
    writer.finish()
    with pytest.raises(CorruptSnapshotError, match="doesn't belong"):
        restore_into(backend_name, [sink.getvalue()], None, MAX_PARALLELISM)


def test_keys_of_another_encoding_are_refused(backend_name: str) -> None:
    header = CanonicalHeader(None, "pystate-key-9", MAX_PARALLELISM, KeyGroupRange(0, MAX_PARALLELISM - 1), ())
    sink = io.BytesIO()
    CanonicalWriter(sink, header).finish()
    with pytest.raises(RestoreError, match="pystate-key-9"):
        restore_into(backend_name, [sink.getvalue()], None, MAX_PARALLELISM)


def test_state_is_out_of_reach_without_a_key(harness: BackendHarness) -> None:
    state = harness.backend.get_partitioned_state(ValueStateDescriptor("n", Types.LONG()))
    assert isinstance(state, ValueState)
    harness.at("k")
    assert harness.backend.current_key == "k"
    state.update(1)
    harness.flush()
    for access in (state.value, state.clear, lambda: state.update(1), lambda: harness.backend.current_key):
        with pytest.raises(StateError, match="no current key"):
            access()
    harness.flush()
    assert harness.backend.entry_count() == 1


@pytest.mark.parametrize("type_info", [Types.LONG(), Types.STRING(), LIST])
def test_a_key_of_another_subtask_is_refused(backend_name: str, type_info: TypeInformation) -> None:
    harness = BackendHarness(backend_name, None, 2)
    state = harness.backends[0].get_partitioned_state(ValueStateDescriptor("n", type_info))
    assert isinstance(state, ValueState)
    harness.backends[0].set_current_key("k", MAX_PARALLELISM - 1)
    for access in (state.value, state.clear):
        with pytest.raises(StateError, match="Key group 15"):
            access()


def test_an_unknown_backend_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigurationError, match="hashmap"):
        create_state_backend("nope", key_codec=KeyCodec(), key_group_range=KeyGroupRange(0, 1), max_parallelism=2)
