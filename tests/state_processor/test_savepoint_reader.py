"""State as DataFrames."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from pyspark.sql import types as T

from pystate.common.errors import SnapshotError
from pystate.common.type_info import Types
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.state_processor import KeyedStateReaderFunction, SavepointReader
from tests.fixtures import all_kinds as jobs
from tests.state_processor.conftest import MIXED, WORDS


@pytest.fixture(scope="module")
def reader(spark, savepoint):
    return SavepointReader.read(spark, savepoint)


def numbers(key, keys=WORDS):
    return jobs.by_key(jobs.numbers_of(keys))[key]


def test_keyed_states_have_typed_columns(reader):
    frame = reader.read_keyed_state("typed", "value", split_bytes=1)
    assert frame.dtypes == [
        ("key", "string"),
        ("key_group", "int"),
        ("value", "struct<name:string,price:string>"),
    ]
    assert frame.rdd.getNumPartitions() > 2
    rows = {row.key: row for row in frame.collect()}
    assert rows.keys() == set(WORDS)
    assert rows["bee"].value.asDict() == {"name": "bee", "price": str(Decimal(numbers("bee")[-1]) / 4)}
    found = reader.read_keyed_state("typed", "aggregating").where("key = 'cow'").collect()
    assert [tuple(row.value) for row in found] == [(sum(numbers("cow")), 3)]


def test_lists_and_maps_are_arrays_and_maps_or_a_row_per_entry(reader):
    whole = reader.read_keyed_state("typed", "list", key="dog").collect()
    assert [row.value for row in whole] == [[f"#{number}" for number in numbers("dog")]]
    entries = reader.read_keyed_state("typed", "list", key="dog", per_entry=True)
    assert [(row["index"], row.value) for row in entries.collect()] == list(enumerate(whole[0].value))
    frame = reader.read_keyed_state("typed", "map", keys=["dog", "elk"])
    assert frame.schema["value"].dataType == T.MapType(T.StringType(), T.DoubleType())
    maps = {row.key: row.value for row in frame.collect()}
    assert maps == {key: jobs.expected(numbers(key), key)["map"] for key in ("dog", "elk")}
    entries = reader.read_keyed_state("typed", "map", key="dog", per_entry=True).collect()
    assert {row.map_key: row.value for row in entries} == maps["dog"]


def test_untyped_keys_and_values_are_json_with_their_bytes(reader, savepoint):
    rows = reader.read_keyed_state("untyped", "untyped").collect()
    keys = {row.key for row in rows}
    assert keys == {'"ant"', "7", "7.0", "true", '[1, "x"]', '"0x00"', '"7"'}
    assert len({bytes(row.key_bytes) for row in rows}) == len(MIXED)
    plain = {row.key_bytes: row for row in SnapshotReader(savepoint).keyed_rows("untyped", "untyped")}
    for row in rows:
        assert bytes(row.value_bytes) == plain[bytes(row.key_bytes)].value_bytes
    (row,) = [row for row in rows if row.key == '"7"']
    last = numbers("7", MIXED)[-1]
    assert row.value == f'{{"number": {last}, "pair": [{last}, null]}}'
    maps = reader.read_keyed_state("typed", "untyped map")
    assert [field.name for field in maps.schema["value"].dataType.elementType.fields] == [
        "map_key",
        "map_key_bytes",
        "value",
        "value_bytes",
    ]


def test_timestamps_of_values_with_a_time_to_live(reader):
    assert {row.ttl_timestamp for row in reader.read_keyed_state("typed", "ttl").collect()} == {1_000_000}
    (row,) = reader.read_keyed_state("typed", "ttl list", key="ant").collect()
    assert row.ttl_timestamp == [1_000_000] * 3
    (row,) = reader.read_keyed_state("typed", "ttl map", key="ant").collect()
    assert row.value.keys() == row.ttl_timestamp.keys()


def test_raw_entries(reader, savepoint):
    rows = reader.read_keyed_state("typed", "map", raw=True).collect()
    plain = list(SnapshotReader(savepoint).keyed_rows("typed", "map"))
    assert sorted((bytes(row.key_bytes), row.key_group, bytes(row.value_bytes)) for row in rows) == sorted(
        (row.key_bytes, row.key_group, row.value_bytes) for row in plain
    )


def test_operator_state_and_metadata(reader):
    split = reader.read_list_state("typed", "split").collect()
    assert sorted(row.value for row in split) == sorted(number for _, number in jobs.numbers_of(WORDS))
    assert {row.subtask for row in split} == {0, 1}
    union = reader.read_union_state("typed", "union").collect()
    assert [(row.subtask, row.value) for row in union] == [(0, "subtask 0"), (1, "subtask 1")]
    rules = {row.map_key: row.value for row in reader.read_broadcast_state("rules", "rules").collect()}
    assert rules == {"small": [1, 2, 3], "round": [10, 20], "none": None}
    operators = {row.uid: row for row in reader.operators().collect()}
    assert operators["typed"].asDict() | {"state_size": 0} == {
        "uid": "typed",
        "name": "All kinds of typed",
        "parallelism": 2,
        "max_parallelism": jobs.MAX_PARALLELISM,
        "key_type": "STRING",
        "state_size": 0,
    }
    assert operators["untyped"].key_type == "untyped"
    states = {row.name: row for row in reader.keyed_states("typed").collect()}
    assert (states["map"].map_key_type, states["map"].type) == ("STRING", "DOUBLE")
    assert states["ttl"].ttl
    with pytest.raises(SnapshotError, match="is UNION, not SPLIT_DISTRIBUTE"):
        reader.read_list_state("typed", "union")


class Overview(KeyedStateReaderFunction):
    """Reads two states of a key at once."""

    def open(self, runtime_context):
        self.list = runtime_context.get_list_state(jobs.LIST)
        self.mean = runtime_context.get_aggregating_state(jobs.AGGREGATING)

    def read_key(self, key, ctx):
        yield key, len(self.list.get()), self.mean.get()


def test_a_function_reads_several_states_of_each_key(reader):
    output = Types.ROW_NAMED(["key", "elements", "mean"], [Types.STRING(), Types.INT(), Types.DOUBLE()])
    frame = reader.read_keyed_state("typed", Overview(), output_type=output, split_bytes=1)
    rows = {row.key: (row.elements, row.mean) for row in frame.collect()}
    assert rows == {key: (3, sum(numbers(key)) / 3) for key in WORDS}
    only = reader.read_keyed_state("typed", Overview(), output_type=output, keys=["fox", "zebra"]).collect()
    assert [row.key for row in only] == ["fox"]


def test_every_type_has_a_column(spark, tmp_path):
    from pystate.common.row import Row
    from pystate.common.time import Instant
    from pystate.core.api.functions import KeyedProcessFunction
    from pystate.core.api.state import ValueStateDescriptor
    from pystate.core.snapshot.operator_state import OperatorState
    from pystate.core.state.keys.keys import KEY_ENCODING
    from pystate.testing import ProcessFunctionTestHarnesses

    inner = Types.ROW_NAMED(["when", "tags"], [Types.INSTANT(), Types.OBJECT_ARRAY(Types.STRING())])
    type_info = Types.TUPLE(
        [
            Types.BIG_INT(),
            Types.SQL_DATE(),
            Types.SQL_TIME(),
            Types.SQL_TIMESTAMP(),
            Types.MAP(Types.INT(), inner),
            Types.PRIMITIVE_ARRAY(Types.BYTE()),
            Types.FLOAT(),
            Types.CHAR(),
        ]
    )
    value = (
        1 << 70,
        dt.date(2026, 11, 21),
        dt.time(1, 2, 3, 4),
        dt.datetime(2026, 1, 1, 12),  # noqa: DTZ001 - SQL_TIMESTAMP has no time zone
        {3: Row(when=Instant(5, 6), tags=["x", None])},
        b"\x00\xff",
        0.5,
        "é",
    )

    class Keep(KeyedProcessFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_state(ValueStateDescriptor("all", type_info))

        def process_element(self, _, ctx):
            self.state.update(value)

    key = (dt.date(2026, 1, 2), 5)
    key_type = Types.TUPLE([Types.SQL_DATE(), Types.INT()])
    harness = ProcessFunctionTestHarnesses.for_keyed_process_function(Keep(), lambda element: element, key_type)
    harness.process_element(key)
    written = harness.snapshot(1).written
    operator = OperatorState("keep", "keep", 1, 128, key_type.to_plain(), KEY_ENCODING, {0: written})
    path = jobs.write_savepoint(tmp_path / "s", [operator])
    (row,) = SavepointReader.read(spark, path).read_keyed_state("keep", "all", key=key).collect()
    assert tuple(row.key) == key
    found = row.value
    assert [found[i] for i in range(4)] == [str(1 << 70), value[1], "01:02:03.000004", value[3]]
    assert found["f4"][3].asDict(recursive=True) == {"when": {"seconds": 5, "nanos": 6}, "tags": ["x", None]}
    assert (bytes(found["f5"]), found["f6"], found["f7"]) == (b"\x00\xff", 0.5, "é")
