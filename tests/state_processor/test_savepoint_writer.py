"""Savepoints written from DataFrames and from other savepoints."""

from __future__ import annotations

import shutil
import zlib
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from pystate.common.errors import CorruptSnapshotError, SnapshotError, SnapshotExistsError, StateError
from pystate.common.key_groups import key_group
from pystate.common.type_info import Types
from pystate.core.api.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.core.state.keys.keys import encode_auto
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import unpack_archive
from pystate.state_processor import (
    BroadcastStateBootstrapFunction,
    KeyedStateBootstrapFunction,
    OperatorTransformation,
    SavepointReader,
    SavepointWriter,
    StateBootstrapFunction,
    StateColumn,
    existing_state,
    keyed_bootstrap,
)
from tests.fixtures import all_kinds as jobs
from tests.fixtures.restoring import restored_all_kinds
from tests.state_processor.conftest import MIXED, WORDS


def all_rows(path, uid):
    """Return name -> all rows of a state as a set, in no order of key groups."""
    reader = SnapshotReader(path)
    return {
        state.name: sorted(
            (row.key_bytes, row.sub_key_bytes, row.sub_key if state.kind == "LIST" else 0, row.value_bytes, row.timestamp)
            for row in reader.keyed_rows(uid, state.name)
        )
        for state in reader.keyed_states(uid)
    }


def check_key_groups(path, uid):
    """Every key is in the key group that its bytes say."""
    reader = SnapshotReader(path)
    operator = reader.operator(uid)
    for state in reader.keyed_states(uid):
        for row in reader.keyed_rows(uid, state.name):
            assert row.key_group == key_group(row.key_bytes[0], row.key_bytes[1:], operator.max_parallelism)


def restored_contents(path, uid, keys, key_type, parallelism, backend):
    """Restore `AllKinds`; return what it holds for keys, and the elements of its list state."""
    found, functions = restored_all_kinds(path, uid, keys, key_type, parallelism, backend)
    return dict(found), [number for function in functions for number in function.seen]


def test_kept_operators_are_copied_byte_by_byte_and_others_changed(spark, savepoint, tmp_path, monkeypatch):
    monkeypatch.setattr(existing_state, "_FEW_BYTES", 0)  # copied by Spark's tasks, as large ones are
    path = (
        SavepointWriter.from_existing_savepoint(spark, savepoint)
        .remove_operator("rules")
        .change_operator_identifier("typed", "renamed")
        .write(str(tmp_path / "new"))
    )
    new, old = SnapshotReader(path), SnapshotReader(savepoint)
    assert [operator.uid for operator in new.metadata.operators] == ["renamed", "untyped"]
    files = {zlib.crc32(one.read_bytes()) for one in Path(savepoint).iterdir() if one.name != "_metadata"}
    copies = {zlib.crc32(one.read_bytes()) for one in (tmp_path / "new").iterdir() if one.name != "_metadata"}
    assert copies < files
    assert all_rows(path, "renamed") == all_rows(savepoint, "typed")
    assert [stream.read() for _, stream in new.operator_state.raw_keyed("renamed")] == [
        stream.read() for _, stream in old.operator_state.raw_keyed("typed")
    ]
    assert new.metadata.source_position.sources == old.metadata.source_position.sources
    with new.location.open(new.metadata.source_position.files) as logs:
        copied = unpack_archive(logs.read())
    with old.location.open(old.metadata.source_position.files) as logs:
        assert copied == unpack_archive(logs.read()) != {}
    assert new.metadata.parent == old.location.uri
    found, seen = restored_contents(path, "renamed", WORDS, Types.STRING(), 3, "rocksdb")
    assert found == {key: jobs.expected(of_key, key) for key, of_key in jobs.by_key(jobs.numbers_of(WORDS)).items()}
    assert sorted(seen) == sorted(number for _, number in jobs.numbers_of(WORDS))


def test_another_max_parallelism_hashes_all_keys_anew(spark, savepoint, tmp_path):
    max_parallelism = 128
    writer = SavepointWriter.from_existing_savepoint(spark, savepoint)
    with pytest.raises(StateError, match="raw keyed state"):
        writer.change_max_parallelism(max_parallelism)
    path = (
        writer.remove_operator("typed")
        .change_max_parallelism(max_parallelism)
        .drop_source_positions()
        .write(str(tmp_path / "new"))
    )
    assert SnapshotReader(path).metadata.source_position is None
    for uid in ("untyped", "rules"):
        assert SnapshotReader(path).operator(uid).max_parallelism == max_parallelism
        assert all_rows(path, uid) == all_rows(savepoint, uid)
        check_key_groups(path, uid)
    keys = ["ant", 7, True]
    found, _ = restored_contents(path, "untyped", keys, None, 5, "hashmap")
    untyped = {}
    for index, key in enumerate(MIXED):
        untyped[encode_auto(key)] = [index * 3 + number for number in range(3)]
    assert found == {key: jobs.expected(untyped[encode_auto(key)], key) for key in keys}
    entries = SnapshotReader(path).operator_state.broadcast_entries("rules", "rules")
    assert len(list(entries)) == 3


@pytest.mark.slow
def test_what_is_read_can_be_written_and_is_the_same(spark, savepoint, tmp_path):
    reader = SavepointReader.read(spark, savepoint)

    def states(name, descriptor, column="value", **options):
        frame = reader.read_keyed_state("typed", name, **options)
        return OperatorTransformation.states_from_frame(frame, "key", {name: (descriptor, column)}, key_type=Types.STRING())

    encoded = StateColumn("value_bytes", encoded=True)
    entry = StateColumn("value_bytes", map_key="map_key_bytes", encoded=True, encoded_map_key=True)
    timed = StateColumn("value", timestamp="ttl_timestamp")
    path = (
        SavepointWriter.new_savepoint(spark, jobs.MAX_PARALLELISM)
        .with_operator(
            "typed",
            states("value", jobs.VALUE),
            states("untyped", jobs.UNTYPED, encoded),
            states("list", jobs.LIST, StateColumn("value", index="index"), per_entry=True),
            states("map", jobs.MAP),
            states("untyped map", jobs.UNTYPED_MAP, entry, per_entry=True),
            states("reducing", jobs.REDUCING),
            states("aggregating", jobs.AGGREGATING),
            states("ttl", jobs.TTL, timed),
            states("ttl list", jobs.TTL_LIST, timed),
            states("ttl map", jobs.TTL_MAP, timed),
            parallelism=3,
        )
        .write(str(tmp_path / "new"))
    )
    assert all_rows(path, "typed") == all_rows(savepoint, "typed")
    assert SnapshotReader(path).operator("typed").parallelism == 3
    check_key_groups(path, "typed")
    found, _ = restored_contents(path, "typed", WORDS, Types.STRING(), 2, "rocksdb")
    assert found == {key: jobs.expected(of_key, key) for key, of_key in jobs.by_key(jobs.numbers_of(WORDS)).items()}


class Fill(KeyedStateBootstrapFunction):
    """Keeps the numbers of each key, in order."""

    def open(self, runtime_context):
        self.numbers = runtime_context.get_list_state(ListStateDescriptor("numbers", Types.LONG()))
        self.last = runtime_context.get_map_state(MapStateDescriptor("last", Types.STRING(), Types.LONG()))

    def process_element(self, value, ctx):
        assert ctx.get_current_key() == value.key
        self.numbers.add(value.number)
        self.last["last"] = value.number


class Buffer(StateBootstrapFunction):
    """Keeps elements in list state."""

    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("buffered", Types.STRING()))

    def process_element(self, value, ctx):
        self.state.add(value)

    def snapshot_state(self, context):
        pass


class Rules(BroadcastStateBootstrapFunction):
    def process_element(self, value, ctx):
        ctx.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), Types.LONG())).put(*value)


def test_bootstrap_functions_write_state(spark, tmp_path, monkeypatch):
    rows = spark.range(0, 600, 1, 3).select((F.col("id") % 50).alias("key"), F.col("id").alias("number"))
    keyed = OperatorTransformation.bootstrap_with(rows).key_by("key").transform(Fill())
    object.__setattr__(keyed, "gathered_elements", 20)  # hands on many times
    extra = OperatorTransformation.states_from_frame(
        rows.groupBy("key").agg(F.sum("number").alias("sum")),
        "key",
        {"sum": (ValueStateDescriptor("sum", Types.LONG()), "sum")},
    )
    path = (
        SavepointWriter.new_savepoint(spark, 64)
        .with_operator(
            "fill", keyed, extra, OperatorTransformation.bootstrap_with(list("abcdef")).transform(Buffer()), parallelism=4
        )
        .with_operator(
            "rules", OperatorTransformation.bootstrap_with([("a", 1), ("b", 2)]).transform(Rules()), parallelism=2
        )
        .with_message("by hand")
        .write(str(tmp_path / "new"))
    )
    reader = SnapshotReader(path)
    assert reader.metadata.message == "by hand"
    wanted = {key: list(range(key, 600, 50)) for key in range(50)}
    assert dict(reader.keyed_entries("fill", "numbers")) == wanted
    assert dict(reader.keyed_entries("fill", "last")) == {key: ("last", numbers[-1]) for key, numbers in wanted.items()}
    assert dict(reader.keyed_entries("fill", "sum")) == {key: sum(numbers) for key, numbers in wanted.items()}
    check_key_groups(path, "fill")
    assert sorted(value for _, value, _ in reader.operator_state.list_elements("fill", "buffered")) == list("abcdef")
    assert {key: value for key, _, value, _ in reader.operator_state.broadcast_entries("rules", "rules")} == {"a": 1, "b": 2}
    assert len(reader.operator("rules").subtasks) == 2
    assert keyed_bootstrap.GATHERED_ELEMENTS > 20


def test_a_key_that_is_there_twice_is_refused_and_leaves_nothing(spark, tmp_path):
    rows = spark.createDataFrame([("a", 1), ("a", 2)], "key string, value long")
    states = {"value": (ValueStateDescriptor("value", Types.LONG()), "value")}
    writer = SavepointWriter.new_savepoint(spark, 4).with_operator(
        "one", OperatorTransformation.states_from_frame(rows, "key", states), parallelism=1
    )
    with pytest.raises(SnapshotError, match="gets a value of key 'a' twice"):
        writer.write(str(tmp_path / "new"))
    assert list((tmp_path / "new").iterdir()) == []


def test_a_damaged_file_is_not_copied(spark, savepoint, tmp_path):
    copy = Path(shutil.copytree(savepoint, tmp_path / "copy"))
    (path,) = copy.glob("untyped-0-keyed-*")
    data = bytearray(path.read_bytes())
    data[50] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptSnapshotError, match="its checksum is wrong"):
        SavepointWriter.from_existing_savepoint(spark, str(copy)).write(str(tmp_path / "new"))
    assert not (tmp_path / "new" / "_metadata").exists()


def test_wrong_calls_are_refused_at_once(spark, savepoint, tmp_path):
    writer = SavepointWriter.from_existing_savepoint(spark, savepoint)
    transformation = OperatorTransformation.bootstrap_with(["a"]).transform(Buffer())
    with pytest.raises(StateError, match="has an operator 'typed' already"):
        writer.with_operator("typed", transformation)
    with pytest.raises(StateError, match="did you mean 'typed'"):
        writer.remove_operator("typd")
    with pytest.raises(StateError, match="that uid is taken"):
        writer.change_operator_identifier("typed", "rules")
    with pytest.raises(SnapshotExistsError):
        writer.write(savepoint)
    rows = spark.createDataFrame([("a", 1)], "key string, value long")
    with pytest.raises(StateError, match="no column 'vlaue'"):
        OperatorTransformation.states_from_frame(rows, "key", {"v": (ValueStateDescriptor("v"), "vlaue")})
    with pytest.raises(StateError, match="index means nothing"):
        OperatorTransformation.states_from_frame(
            rows, "key", {"v": (ValueStateDescriptor("v"), StateColumn("value", index="value"))}
        )
    with pytest.raises(StateError, match="no column 'id'"):
        OperatorTransformation.bootstrap_with(rows).key_by("id")
