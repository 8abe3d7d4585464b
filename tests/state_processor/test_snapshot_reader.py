"""The plain reader, without Spark."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pystate.common.errors import CorruptSnapshotError, PystateError, RestoreError, SnapshotError, StateError
from pystate.common.type_info import Types
from pystate.core.snapshot.reading import snapshot_reader as module
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.core.state.files.canonical import CanonicalReader
from tests.fixtures import all_kinds as jobs
from tests.state_processor.conftest import MIXED, WORDS

KINDS = {
    "value": "VALUE",
    "untyped": "VALUE",
    "list": "LIST",
    "map": "MAP",
    "untyped map": "MAP",
    "reducing": "REDUCING",
    "aggregating": "AGGREGATING",
    "ttl": "VALUE",
    "ttl list": "LIST",
    "ttl map": "MAP",
}


def contents(reader, uid, name, **options):
    """Return key bytes -> key, and what the state holds for it as the function saw it."""
    found = {}
    kind = KINDS[name]
    for row in reader.keyed_rows(uid, name, **options):
        if kind == "LIST":
            found.setdefault(row.key_bytes, (row.key, []))[1].append(row.value)
        elif kind == "MAP":
            found.setdefault(row.key_bytes, (row.key, {}))[1][row.sub_key] = row.value
        else:
            assert row.key_bytes not in found
            found[row.key_bytes] = row.key, row.value
    return sorted(found.values(), key=lambda pair: (str(type(pair[0])), str(pair[0])))


def wanted(keys, name):
    per_key = jobs.numbers_of(keys)
    rows = []
    for index, key in enumerate(keys):
        numbers = [number for position, (_, number) in enumerate(per_key) if position % len(keys) == index]
        value = (sum(numbers), len(numbers)) if name == "aggregating" else jobs.expected(numbers, key)[name]
        rows.append((key, value))
    return sorted(rows, key=lambda pair: (str(type(pair[0])), str(pair[0])))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(("uid", "keys"), [("typed", WORDS), ("untyped", MIXED)])
def test_every_kind_of_keyed_state_is_read(savepoint, uid, keys, name):
    assert contents(SnapshotReader(savepoint), uid, name) == wanted(keys, name)


def test_states_are_summarized_from_the_indexes(savepoint):
    states = {state.name: state for state in SnapshotReader(savepoint).keyed_states("typed")}
    assert {name: state.kind for name, state in states.items()} == KINDS
    assert states["value"].entries == len(WORDS)
    assert states["value"].key_type == Types.STRING()
    assert all(state.bytes > 0 for state in states.values())
    assert {name for name, state in states.items() if state.info.ttl} == {"ttl", "ttl list", "ttl map"}


def test_values_with_a_time_to_live_carry_their_timestamps(savepoint):
    reader = SnapshotReader(savepoint)
    for name in ("ttl", "ttl list", "ttl map"):
        assert {row.timestamp for row in reader.keyed_rows("typed", name)} == {1_000_000}
    assert {row.timestamp for row in reader.keyed_rows("typed", "value")} == {None}


def test_a_key_is_found_in_the_blocks_of_its_key_group_alone(savepoint, monkeypatch):
    groups = []
    entries = CanonicalReader.entries
    monkeypatch.setattr(
        CanonicalReader, "entries", lambda self, name, group: groups.append(group) or entries(self, name, group)
    )
    rows = list(SnapshotReader(savepoint).keyed_rows("typed", "reducing", keys=["cow"]))
    assert [(row.key, row.value) for row in rows] == [("cow", sum(jobs.by_key(jobs.numbers_of(WORDS))["cow"]))]
    assert groups == [rows[0].key_group]


@pytest.mark.parametrize("key", MIXED)
def test_untyped_keys_that_look_alike_are_told_apart(savepoint, key):
    rows = list(SnapshotReader(savepoint).keyed_rows("untyped", "list", keys=[key]))
    assert {(type(row.key), row.key) for row in rows} == {(type(key), key)}


def test_a_missing_key_gives_nothing(savepoint):
    assert list(SnapshotReader(savepoint).keyed_rows("typed", "value", keys=["zebra"])) == []


def test_a_key_of_another_type_is_refused(savepoint):
    with pytest.raises(StateError, match="A key of type STRING can't be 7"):
        list(SnapshotReader(savepoint).keyed_rows("typed", "value", keys=[7]))


def test_untyped_values_are_read_as_a_type(savepoint):
    reader = SnapshotReader(savepoint)
    assert list(reader.keyed_rows("typed", "value", key_type=Types.STRING()))
    with pytest.raises(RestoreError, match="can't be read as"):
        list(reader.keyed_rows("typed", "value", key_type=Types.LONG()))
    with pytest.raises(RestoreError, match="can't be read as"):
        list(reader.keyed_rows("typed", "list", type_info=Types.SQL_DATE()))


def test_operator_state(savepoint):
    reader = SnapshotReader(savepoint)
    found = [(subtask, value) for subtask, value, _ in reader.operator_state.list_elements("typed", "split")]
    assert sorted(value for _, value in found) == sorted(number for _, number in jobs.numbers_of(WORDS))
    assert {subtask for subtask, _ in found} == {0, 1}
    assert [value for _, value, _ in reader.operator_state.list_elements("typed", "union")] == ["subtask 0", "subtask 1"]
    assert {key: value for key, _, value, _ in reader.operator_state.broadcast_entries("rules", "rules")} == {
        "small": [1, 2, 3],
        "round": [10, 20],
        "none": None,
    }
    modes = {state.name: (state.mode.value, state.entries) for state in reader.operator_state.states("typed")}
    assert modes == {"split": ("SPLIT_DISTRIBUTE", 24), "union": ("UNION", 2)}


def test_raw_state(savepoint):
    reader = SnapshotReader(savepoint)
    keyed = [(group, stream.read()) for group, stream in reader.operator_state.raw_keyed("typed")]
    assert keyed == [(group, b"group %d" % group) for group in (0, 4, 8, 12)]
    raw = [(subtask, stream.read()) for subtask, stream in reader.operator_state.raw_operator("typed")]
    assert raw == [(0, b"a of 0"), (0, b"b of 0"), (1, b"a of 1"), (1, b"b of 1")]


@pytest.mark.parametrize(
    ("ask", "message", "hint"),
    [
        (lambda reader: reader.keyed_states("typd"), "has no operator 'typd'", "did you mean 'typed'"),
        (lambda reader: reader.keyed_rows("typed", "valeu"), "has no keyed state 'valeu'", "did you mean 'value'"),
        (lambda reader: reader.operator_state.list_elements("typed", "spilt"), "has no SPLIT_DISTRIBUTE state", "'split'"),
        (lambda reader: reader.operator_state.list_elements("rules", "rules"), "is BROADCAST, not SPLIT_DISTRIBUTE", None),
    ],
)
def test_unknown_names_are_answered_with_the_nearest(savepoint, ask, message, hint):
    with pytest.raises(SnapshotError, match=message) as raised:
        ask(SnapshotReader(savepoint))
    assert hint is None or hint in str(raised.value)


def test_pickles_are_never_unpickled(tmp_path):
    from pystate.core.api.functions import KeyedProcessFunction
    from pystate.core.api.state import ValueStateDescriptor
    from pystate.core.snapshot.operator_state import OperatorState
    from pystate.core.state.keys.keys import KEY_ENCODING
    from pystate.testing import ProcessFunctionTestHarnesses

    class Keep(KeyedProcessFunction):
        def open(self, runtime_context):
            pickled = Types.PICKLED_BYTE_ARRAY()
            self.plain = runtime_context.get_state(ValueStateDescriptor("plain", pickled))
            self.inside = runtime_context.get_state(ValueStateDescriptor("inside", Types.LIST(Types.TUPLE([pickled]))))

        def process_element(self, value, ctx):
            self.plain.update(Exploding())
            self.inside.update([(Exploding(),)])

    harness = ProcessFunctionTestHarnesses.for_keyed_process_function(Keep(), lambda key: key, Types.STRING())
    harness.process_element("a")
    written = harness.snapshot(1).written
    operator = OperatorState("keep", "keep", 1, 128, Types.STRING().to_plain(), KEY_ENCODING, {0: written})
    reader = SnapshotReader(jobs.write_savepoint(tmp_path / "s", [operator]))
    (row,) = reader.keyed_rows("keep", "plain")
    assert type(row.value) is bytes
    assert b"Exploding" in row.value or b"explode" in row.value
    (row,) = reader.keyed_rows("keep", "inside")
    assert type(row.value[0][0]) is bytes


def explode():
    raise AssertionError("something was unpickled")


class Exploding:
    def __reduce__(self):
        return explode, ()


def test_damage_in_a_block_names_the_file(savepoint, tmp_path):
    copy = Path(shutil.copytree(savepoint, tmp_path / "copy"))
    (path,) = copy.glob("typed-0-keyed-*")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    reader = SnapshotReader(str(copy))
    with pytest.raises(CorruptSnapshotError) as raised:
        for name in KINDS:
            list(reader.keyed_rows("typed", name, keys=WORDS))
    assert path.name in str(raised.value)
    with pytest.raises(CorruptSnapshotError):
        list(reader.keyed_rows("typed", "value"))


def test_a_file_of_another_subtask_in_its_place_is_noticed(savepoint, tmp_path):
    copy = Path(shutil.copytree(savepoint, tmp_path / "copy"))
    (first,), (second,) = copy.glob("typed-0-keyed-*"), copy.glob("typed-1-keyed-*")
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)
    with pytest.raises(PystateError):
        list(SnapshotReader(str(copy)).keyed_rows("typed", "value", keys=["ant"]))


def test_rows_are_streamed(savepoint, monkeypatch):
    read = []
    rows_of = module.rows_of

    def noted(reader, name, decoder, groups, wanted=None):
        for group in groups:
            read.append(group)
            yield from rows_of(reader, name, decoder, [group], wanted)

    monkeypatch.setattr(module, "rows_of", noted)
    rows = SnapshotReader(savepoint).keyed_rows("typed", "value")
    next(rows)
    assert len(read) == 1
