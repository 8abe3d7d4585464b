"""Looking into snapshots: inspect, verify, diff."""

from __future__ import annotations

import io
import os
import shutil
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pystate.common import Types
from pystate.common.errors import CorruptSnapshotError, PystateError, SnapshotError, UsageError
from pystate.core.api.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from pystate.core.snapshot.metadata_file import write_metadata
from pystate.core.snapshot.reading.inspection import inspect_operators
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.ops.catalog.contents import ContentComparison
from pystate.ops.catalog.difference import Change, SnapshotState, compare, key_changes, state_path
from pystate.ops.catalog.snapshot_summary import read_snapshot
from pystate.ops.catalog.source_difference import compare_sources
from pystate.ops.catalog.verification import Verification
from pystate.runtime.engines.micro_batch.spark.source_progress import SourceProgress, check_logs
from tests.core.snapshot.snapshots import COUNT, LAST, SEEN, WORDS, Recipe, write_incremental, write_savepoint


def folder(location: SnapshotLocation) -> Path:
    return Path(location.uri.removeprefix("file:"))


def figures(location: SnapshotLocation) -> dict[str, tuple[str, str, int | None]]:
    (operator,) = inspect_operators(location, read_snapshot(location))
    return {state.name: (state.kind, state.type, state.entries) for state in operator.states}


# -- inspect


def test_inspect_shows_states_of_all_kinds_over_all_subtasks(tmp_path: Path) -> None:
    location = write_savepoint(tmp_path, parallelism=3)

    (operator,) = inspect_operators(location, read_snapshot(location))

    assert (operator.uid, operator.name, operator.parallelism, operator.max_parallelism) == ("count", "Count", 3, 16)
    assert operator.key_type == "STRING"
    assert figures(location) == {
        "count": ("VALUE", "LONG", 40),
        "seen": ("MAP", "STRING to LONG", 3),
        "last": ("LIST", "STRING", 3),  # parts: two of key-1, one of key-3
        "buffer": ("OPERATOR LIST", "STRING", 6),
        "offsets": ("UNION LIST", "LONG", 3),
        "rules": ("BROADCAST", "STRING to LONG", 1),  # every subtask has the same
    }
    assert 0 < sum(state.size or 0 for state in operator.states) < operator.size


def test_inlined_state_is_inspected_too(tmp_path: Path) -> None:
    location = write_savepoint(tmp_path, inline_threshold=1 << 20)

    assert [path.name for path in folder(location).iterdir()] == ["_metadata"]
    assert figures(location)["count"] == ("VALUE", "LONG", 40)


class CountingFile(io.FileIO):
    """A file that remembers what was read of it."""

    reads: list[tuple[int, int]]

    def read(self, size: int | None = -1) -> bytes:
        position = self.tell()
        data = super().read(-1 if size is None else size) or b""
        self.reads.append((position, len(data)))
        return data


def test_inspect_reads_headers_and_indexes_and_no_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location = write_savepoint(
        tmp_path, content={COUNT: {f"key-{i}": i for i in range(20_000)}}, block_bytes=4096, operator_state=False
    )
    metadata = read_snapshot(location)
    reads: dict[str, list[tuple[int, int]]] = {}

    def open_counting(_: Any, path: str, *__: Any, **___: Any) -> CountingFile:
        file = CountingFile(path)
        file.reads = reads.setdefault(os.path.basename(path), [])
        return file

    monkeypatch.setattr("pystate.core.file_systems.file_stores.LocalStore.open", open_counting)
    inspect_operators(location, metadata)

    assert set(reads) == {name for name in os.listdir(folder(location)) if "keyed" in name}
    for name, pieces in reads.items():
        data = (folder(location) / name).read_bytes()
        header = struct.unpack_from(">8sHI", data)[2] + 14 + 4
        (index,) = struct.unpack_from(">Q", data, len(data) - 32)
        assert index - header > 0.9 * len(data)
        assert [piece for piece in pieces if piece[0] < index and piece[0] + piece[1] > header] == []


def test_a_file_of_another_length_is_no_state(tmp_path: Path) -> None:
    location = write_savepoint(tmp_path)
    path = next(folder(location).glob("*keyed*"))
    path.write_bytes(path.read_bytes() + b"x")

    with pytest.raises(CorruptSnapshotError, match="its length is not"):
        inspect_operators(location, read_snapshot(location))


def test_state_in_a_format_of_the_future_is_named(tmp_path: Path) -> None:
    location = write_savepoint(tmp_path)
    metadata = read_snapshot(location)
    object.__setattr__(metadata.operators[0].subtasks[0].keyed_state[0], "format", "canonical-2")

    with pytest.raises(SnapshotError, match="in the format 'canonical-2'"):
        inspect_operators(location, metadata)


def test_a_native_snapshot_has_names_and_types_and_no_counts(tmp_path: Path) -> None:
    shared = tmp_path / "000001-0011aabb"
    shared.write_bytes(b"rows")
    location = write_incremental(tmp_path, shared, parallelism=1)

    assert figures(location)["count"] == ("VALUE", "LONG", None)
    assert problems(location) == []
    sides = [SnapshotState(location, read_snapshot(location), "count", "count")] * 2
    with pytest.raises(SnapshotError, match="The keys of a native snapshot can't be read one by one"):
        list(key_changes(*sides))
    shared.write_bytes(b"rowz")
    (found,) = problems(location)
    assert found.startswith(f"operator 'count', subtask 0: file:{shared}: A file of the snapshot is damaged, its checksum")


# -- verify


def problems(location: SnapshotLocation) -> list[str]:
    """What `pystate savepoints verify` would say: nothing but errors meant for people may come up."""
    try:
        metadata = read_snapshot(location)
        position = metadata.source_position
        verification = Verification(location, metadata, lambda data: check_logs(position, data) if position else None)
    except PystateError as error:
        return [error.message]
    return [f"{problem.part}: {problem.file}: {problem.what}" for problem in verification.problems()]


@pytest.mark.parametrize("inline_threshold", [0, 1 << 20])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_sound_savepoint_has_no_problems(tmp_path: Path, inline_threshold: int, parallelism: int) -> None:
    location = write_savepoint(tmp_path, inline_threshold=inline_threshold, parallelism=parallelism)

    assert problems(location) == []


def test_progress_goes_up_to_all_bytes(tmp_path: Path) -> None:
    location = write_savepoint(tmp_path)
    verification = Verification(location, read_snapshot(location))
    seen: list[int] = []

    verification.problems(seen.append)

    assert (verification.files, seen[-1], sorted(seen)) == (5, verification.size, seen)


def test_all_problems_are_named_not_the_first_one(tmp_path: Path) -> None:
    location = write_savepoint(tmp_path, parallelism=3)
    keyed = sorted(folder(location).glob("count-?-keyed-*"))
    keyed[0].unlink()
    keyed[1].write_bytes(keyed[1].read_bytes()[:-1])
    data = bytearray(keyed[2].read_bytes())
    data[100] ^= 1
    keyed[2].write_bytes(data)
    next(folder(location).glob("spark-logs-*")).write_bytes(b"")

    found = problems(location)

    assert [one.split(":")[0] for one in found] == [
        *(f"operator 'count', subtask {i}" for i in range(3)),
        "the sources' logs",
    ]
    assert [word in one for word, one in zip(("missing", "length", "checksum", "length"), found, strict=True)] == [True] * 4
    assert all(path.name in one for path, one in zip(keyed, found[:3], strict=True))


def test_swapped_files_are_noticed(tmp_path: Path) -> None:
    location = write_savepoint(tmp_path)
    one, other = sorted(folder(location).glob("count-?-keyed-*"))
    one.rename(folder(location) / "x")
    other.rename(one)
    (folder(location) / "x").rename(other)

    assert len(problems(location)) == 2


def rewrite(location: SnapshotLocation, change: Callable[[dict[str, Any]], object]) -> None:
    """Change what `_metadata` says, with a right checksum."""
    path = folder(location) / "_metadata"
    data = path.read_bytes()
    body = msgpack.unpackb(data[20:-4], strict_map_key=False)
    change(body)
    packed = msgpack.packb(body)
    framed = data[:12] + len(packed).to_bytes(8, "big") + packed
    path.write_bytes(framed + zlib.crc32(framed).to_bytes(4, "big"))


def subtask(body: dict[str, Any], index: int) -> dict[str, Any]:
    return dict(body["operators"][0]["subtasks"])[index]


def test_key_groups_must_be_complete(tmp_path: Path) -> None:
    location = write_savepoint(tmp_path, parallelism=4)
    rewrite(location, lambda body: body["operators"][0]["subtasks"].pop(1))
    assert problems(location) == ["operator 'count': : Key groups 4-7 are missing."]
    rewrite(location, lambda body: body["operators"][0]["subtasks"].pop(3))
    assert problems(location)[1:] == ["operator 'count': : Key groups 12-15 are missing."]


def test_key_groups_must_be_there_once(tmp_path: Path) -> None:
    location = write_savepoint(tmp_path, parallelism=2)
    rewrite(location, lambda body: subtask(body, 1).update(keyed_state=subtask(body, 0)["keyed_state"]))

    assert problems(location) == [
        "operator 'count': : Key groups 0-7 are there twice.",
        "operator 'count': : Key groups 8-15 are missing.",
    ]


def test_metadata_and_files_must_agree(tmp_path: Path) -> None:
    def lie(body: dict[str, Any]) -> None:
        subtask(body, 0)["keyed_state"][0].update(start_key_group=1)
        subtask(body, 1)["operator_state"][0]["states"]["buffer"]["count"] = 9
        body["operators"][0]["key_type"] = {"type": "LONG"}

    location = write_savepoint(tmp_path)
    rewrite(location, lie)

    found = problems(location)
    assert "Key groups 0-0 are missing" in found[0]
    assert "It holds key groups 0-7 of 16 where the metadata says 1-7 of 16." in found[1] or "0..7" in found[1]
    assert "Its keys are of another type or encoding than the metadata says." in found[2]
    assert "It holds other states than the metadata says." in found[3]


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "a/../../b", "", ".", "a\\b", "a\nb", "file:/x/../y"])
def test_paths_that_lead_elsewhere_are_reported_and_not_followed(tmp_path: Path, path: str) -> None:
    location = write_savepoint(tmp_path)
    rewrite(location, lambda body: subtask(body, 0)["keyed_state"][0]["handle"].update(path=path))

    (found,) = problems(location)
    assert "a state handle leads to" in found


SLOW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> SnapshotLocation:
    return write_savepoint(tmp_path_factory.mktemp("sound"))


@SLOW
@given(data=st.data())
def test_every_flipped_bit_is_reported(sound: SnapshotLocation, tmp_path: Path, data: st.DataObject) -> None:
    path, content = some_file(sound, tmp_path, data)
    position = data.draw(st.integers(0, len(content) - 1))
    flipped = bytearray(content)
    flipped[position] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(flipped)

    assert problems(SnapshotLocation(str(path.parent)))


@SLOW
@given(data=st.data())
def test_every_truncation_and_addition_is_reported(sound: SnapshotLocation, tmp_path: Path, data: st.DataObject) -> None:
    path, content = some_file(sound, tmp_path, data)
    length = data.draw(st.integers(0, len(content) - 1))
    path.write_bytes(data.draw(st.sampled_from([content[:length], content + content[: length + 1]])))

    assert problems(SnapshotLocation(str(path.parent)))


def some_file(sound: SnapshotLocation, tmp_path: Path, data: st.DataObject) -> tuple[Path, bytes]:
    copy = tmp_path / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder(sound), copy)
    path = data.draw(st.sampled_from(sorted(copy.iterdir())))
    return path, path.read_bytes()


@SLOW
@given(data=st.data())
def test_files_changed_after_a_right_checksum_take_no_memory_and_no_traceback(
    sound: SnapshotLocation, tmp_path: Path, data: st.DataObject
) -> None:
    """Whoever forges a file forges its checksums, too."""
    path, content = some_file(sound, tmp_path, data)
    start = data.draw(st.integers(0, len(content) - 1))
    forged = content[:start] + data.draw(st.binary(max_size=20)) + content[start + data.draw(st.integers(0, 8)) :]
    location = SnapshotLocation(str(path.parent))
    if path.name == "_metadata":
        forged = forged[:-4] + zlib.crc32(forged[:-4]).to_bytes(4, "big")
    else:
        rewrite(location, lambda body: _set_file(body, path.name, forged))
    path.write_bytes(forged)
    tracemalloc.start()

    problems(location)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20


def _set_file(plain: Any, name: str, content: bytes) -> None:
    if isinstance(plain, dict):
        if plain.get("path") == name:
            plain.update(size=len(content), crc32=zlib.crc32(content))
        for value in plain.values():
            _set_file(value, name, content)
    elif isinstance(plain, list):
        for value in plain:
            _set_file(value, name, content)


def test_lists_in_lists_of_stated_lengths_take_no_memory(tmp_path: Path) -> None:
    """A block of 300 KB, all of it the beginnings of lists: msgpack would make room for 512 lists of 60,000 items each."""
    location = write_savepoint(tmp_path, parallelism=1, content={COUNT: {"a": 1}}, operator_state=False)
    path = next(folder(location).glob("*keyed*"))
    data = path.read_bytes()
    header = struct.unpack_from(">8sHI", data)[2] + 14 + 4
    count = 60_000
    payload = b"\xdd" + count.to_bytes(4, "big") + (b"\xdd" + count.to_bytes(4, "big")) * count
    head = struct.pack(">HHII", 0, 1, count // 3, len(payload))
    block = head + payload + zlib.crc32(payload, zlib.crc32(head)).to_bytes(4, "big")
    index = msgpack.packb([0, 1, header, len(block), count // 3])
    trailer = struct.pack(">QIII", header + len(block), len(index), zlib.crc32(index), header - 18)
    forged = data[:header] + block + index + trailer + zlib.crc32(trailer).to_bytes(4, "big") + b"SYEKTSYP"
    rewrite(location, lambda body: _set_file(body, path.name, forged))
    path.write_bytes(forged)
    tracemalloc.start()

    (found,) = problems(location)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "can't be read" in found
    assert peak < 16 << 20


# -- diff


def test_operators_and_states_are_compared(tmp_path: Path) -> None:
    before = write_savepoint(tmp_path, snapshot_id="a" * 12, content={COUNT: WORDS[COUNT], LAST: WORDS[LAST]})
    changed = ValueStateDescriptor("last", Types.DOUBLE())
    after = write_savepoint(
        tmp_path, snapshot_id="b" * 12, parallelism=3, content={COUNT: {"a": 1}, SEEN: WORDS[SEEN], changed: {"a": 1.5}}
    )

    (operator,) = compare(*(inspect_operators(one, read_snapshot(one)) for one in (before, after)))

    assert operator.change is Change.CHANGED
    told = {state.some.name: (state.change.value, state.type_changed) for state in operator.states}
    assert told == {
        "count": ("changed", False),
        "last": ("changed", True),
        "seen": ("added", False),
        "buffer": ("changed", False),
        "offsets": ("changed", False),
        "rules": ("changed", False),
    }


def test_other_uids_are_other_operators(tmp_path: Path) -> None:
    before = write_savepoint(tmp_path, snapshot_id="a" * 12)
    after = write_savepoint(tmp_path, snapshot_id="b" * 12, uid="total")

    compared = compare(*(inspect_operators(one, read_snapshot(one)) for one in (before, after)))

    assert [(one.some.uid, one.change) for one in compared] == [("count", Change.REMOVED), ("total", Change.ADDED)]
    assert {state.change for state in compared[0].states} == {Change.REMOVED}


def test_a_savepoint_is_the_same_as_itself(tmp_path: Path) -> None:
    location = write_savepoint(tmp_path)
    figures = inspect_operators(location, read_snapshot(location))

    assert {one.change for one in compare(figures, figures)} == {Change.ALIKE}, "nobody has looked into them"
    assert compared(location, location) == {
        name: "same" for name in ("", "buffer", "count", "last", "offsets", "rules", "seen")
    }


def compared(before: SnapshotLocation, after: SnapshotLocation) -> dict[str, str]:
    """Return what became of each state, and of the operator under an empty name."""
    metadata = [read_snapshot(one) for one in (before, after)]
    figures = [inspect_operators(one, found) for one, found in zip((before, after), metadata, strict=True)]
    contents = ContentComparison((before, metadata[0]), (after, metadata[1]))
    (operator,) = compare(*figures, contents.are_equal)
    return {"": operator.change.value, **{state.some.name: state.change.value for state in operator.states}}


def test_a_state_with_another_value_of_the_same_length_is_not_the_same(tmp_path: Path) -> None:
    changed = {COUNT: {**WORDS[COUNT], "key-5": 7}, SEEN: {**WORDS[SEEN], "key-2": {"c": 4}}, LAST: WORDS[LAST]}
    before = write_savepoint(tmp_path, snapshot_id="a" * 12)
    after = write_savepoint(tmp_path, snapshot_id="b" * 12, content=changed)

    found = compared(before, after)

    assert {name for name, change in found.items() if change == "changed"} == {"", "count", "seen"}
    assert {name for name, change in found.items() if change == "same"} == {"buffer", "last", "offsets", "rules"}


def test_states_are_the_same_at_another_parallelism(tmp_path: Path) -> None:
    before = write_savepoint(tmp_path, snapshot_id="a" * 12, operator_state=False)
    after = write_savepoint(tmp_path, snapshot_id="b" * 12, parallelism=3, parts=1, operator_state=False)

    assert compared(before, after) == {"": "changed", "count": "same", "last": "changed", "seen": "same"}, "more list parts"


def test_operator_state_with_other_elements_is_not_the_same(tmp_path: Path) -> None:
    before = write_savepoint(tmp_path, snapshot_id="a" * 12)
    after = write_savepoint(tmp_path, snapshot_id="b" * 12, elements="ac")

    found = compared(before, after)

    assert (found["buffer"], found["offsets"], found["rules"]) == ("changed", "same", "same")


def test_what_is_in_files_of_a_backend_is_not_said_to_be_the_same(tmp_path: Path) -> None:
    shared = tmp_path / "000001.sst"
    shared.write_bytes(b"some")
    before, after = (write_incremental(tmp_path, shared, snapshot_id=letter * 12) for letter in "ab")

    assert compared(before, before)["count"] == "same", "the very same files"
    assert compared(before, after)["count"] == "alike"


def test_sources_are_compared(tmp_path: Path) -> None:
    def sources(**offsets: str) -> list[SourceProgress]:
        return [SourceProgress(uid, f"{offset} rows", offset) for uid, offset in offsets.items()]

    found = compare_sources(sources(a="1", b="2", c="3"), sources(b="2", c="4", d="5"))

    assert [(one.uid, one.change.value) for one in found] == [
        ("a", "removed"),
        ("b", "same"),
        ("c", "changed"),
        ("d", "added"),
    ]
    assert found[2].to_json() == {
        "uid": "c",
        "change": "changed",
        "before": {"position": "3 rows", "offset": "3"},
        "after": {"position": "4 rows", "offset": "4"},
    }


def changed_keys(before: SnapshotLocation, after: SnapshotLocation, state: str, uid: str = "count") -> list[tuple[str, Any]]:
    sides = [SnapshotState(one, read_snapshot(one), uid, state) for one in (before, after)]
    return sorted((change.value, key) for change, key in key_changes(*sides))


def test_keys_are_compared_whatever_the_parallelism(tmp_path: Path) -> None:
    content = {COUNT: {f"key-{i}": i * (2 if i == 7 else 1) for i in range(3, 42)}}
    before = write_savepoint(tmp_path, snapshot_id="a" * 12, parallelism=2)
    after = write_savepoint(tmp_path, snapshot_id="b" * 12, parallelism=3, content=content)

    assert changed_keys(before, after, "count") == [
        ("added", "key-40"),
        ("added", "key-41"),
        ("changed", "key-7"),
        ("removed", "key-0"),
        ("removed", "key-1"),
        ("removed", "key-2"),
    ]
    assert changed_keys(before, before, "count") == []


def test_lists_cut_into_other_parts_and_maps_in_another_order_are_the_same(tmp_path: Path) -> None:
    turned = {SEEN: {"key-2": {"c": 3}, "key-1": {"b": 2, "a": 1}}, LAST: WORDS[LAST]}
    before = write_savepoint(tmp_path, snapshot_id="a" * 12, parts=1)
    after = write_savepoint(tmp_path, snapshot_id="b" * 12, parts=3, content=turned)

    assert changed_keys(before, after, "last") == []
    assert changed_keys(before, after, "seen") == []


def test_the_order_of_a_list_and_the_key_of_a_map_entry_count(tmp_path: Path) -> None:
    other = {SEEN: {"key-1": {"a": 2, "b": 1}, "key-2": {"c": 3}}, LAST: {"key-1": ["y", "x", "z"], "key-3": ["w"]}}
    before = write_savepoint(tmp_path, snapshot_id="a" * 12)
    after = write_savepoint(tmp_path, snapshot_id="b" * 12, content=other)

    assert changed_keys(before, after, "last") == [("changed", "key-1")]
    assert changed_keys(before, after, "seen") == [("changed", "key-1")]


def test_the_keys_of_a_new_state_are_all_added(tmp_path: Path) -> None:
    before = write_savepoint(tmp_path, snapshot_id="a" * 12, content={COUNT: {"a": 1}})
    after = write_savepoint(tmp_path, snapshot_id="b" * 12, content={SEEN: {"a": {"x": 1}}})

    assert changed_keys(before, after, "seen") == [("added", "a")]
    assert changed_keys(before, after, "count") == [("removed", "a")]


def test_a_state_that_neither_has_is_a_wrong_call(tmp_path: Path) -> None:
    location = write_savepoint(tmp_path)

    with pytest.raises(UsageError, match="Neither snapshot has a keyed state count/none") as error:
        changed_keys(location, location, "none")
    assert error.value.hint == "there are: count/count, count/last, count/seen"
    with pytest.raises(UsageError, match="no/count"):
        changed_keys(location, location, "count", uid="no")


@pytest.mark.parametrize("text", ["count", "/count", "count/", ""])
def test_a_state_is_named_by_uid_and_name(text: str) -> None:
    assert state_path("a/b/c") == ("a/b", "c")
    with pytest.raises(UsageError):
        state_path(text)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=st.dictionaries(st.text("abc", max_size=2), st.lists(st.integers(0, 2), min_size=1, max_size=4)),
    after=st.dictionaries(st.text("abc", max_size=2), st.lists(st.integers(0, 2), min_size=1, max_size=4)),
    parts=st.integers(1, 3),
)
def test_keys_are_compared_as_dicts_are(
    tmp_path: Path, before: dict[str, list[int]], after: dict[str, list[int]], parts: int
) -> None:
    shutil.rmtree(tmp_path / "diff", ignore_errors=True)
    lists, maps = ListStateDescriptor("list", Types.LONG()), MapStateDescriptor("map", Types.LONG(), Types.LONG())
    locations = [
        write_savepoint(
            tmp_path / "diff",
            Recipe(snapshot_id=f"{number}" * 12, parts=1 if number else parts, parallelism=1 + number, operator_state=False),
            content={lists: side, maps: {key: dict(enumerate(value)) for key, value in side.items()}},
        )
        for number, side in enumerate((before, after))
    ]
    expected = sorted(
        [("added", key) for key in after.keys() - before.keys()]
        + [("removed", key) for key in before.keys() - after.keys()]
        + [("changed", key) for key in before.keys() & after.keys() if before[key] != after[key]]
    )

    assert changed_keys(*locations, "list") == expected
    assert changed_keys(*locations, "map") == expected


def test_metadata_written_again_is_the_same(tmp_path: Path) -> None:
    location = write_savepoint(tmp_path, message="é", parent_id="a" * 12)

    assert write_metadata(read_snapshot(location)) == location.read_metadata()
