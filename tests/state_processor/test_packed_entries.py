"""Columns of a frame made entries all at once are what they are made row by row."""

from __future__ import annotations

import datetime as dt
import io
import string
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystate.common import TypeInformation, Types
from pystate.common.errors import PystateError
from pystate.common.key_groups import KeyGroupRange, key_group
from pystate.common.time import Time
from pystate.core.api.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from pystate.core.records.codec import column_converter
from pystate.core.state.base.state_schema import StateSchema
from pystate.core.state.files.canonical import CanonicalHeader, CanonicalReader, CanonicalWriter
from pystate.core.state.keys.key_columns import key_groups_of
from pystate.core.state.keys.keys import KEY_ENCODING
from pystate.core.state.not_in_columns import NotInColumnsError
from pystate.state_processor import state_frames
from pystate.state_processor.entry_frames import ENTRY_SCHEMA
from pystate.state_processor.state_frames import StateColumn

TEXT = st.one_of(st.text(string.ascii_letters, max_size=300), st.text(st.characters(exclude_categories=["Cs"]), max_size=5))
EDGES = [0, 127, 128, 255, 256, 65_535, 65_536, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1]
COLUMNS: dict[TypeInformation, st.SearchStrategy[Any]] = {
    Types.STRING(): TEXT,
    Types.BOOLEAN(): st.booleans(),
    Types.BYTE(): st.integers(-128, 127),
    Types.SHORT(): st.integers(-(1 << 15), (1 << 15) - 1),
    Types.INT(): st.integers(-(1 << 31), (1 << 31) - 1),
    Types.LONG(): st.one_of(
        st.sampled_from([*EDGES, *(-one - 1 for one in EDGES), -32, -33]), st.integers(-(1 << 63), (1 << 63) - 1)
    ),
    Types.FLOAT(): st.floats(width=32),
    Types.DOUBLE(): st.floats(),
    Types.SQL_DATE(): st.dates(),
    Types.SQL_TIMESTAMP(): st.datetimes(),
    Types.PRIMITIVE_ARRAY(Types.BYTE()): st.binary(max_size=300),
}
TYPES = list(COLUMNS)
TTL = StateTtlConfig.new_builder(Time.hours(1)).build()
NESTED = [
    (Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.LONG()]), {"a": "x", "b": None}),
    (Types.TUPLE([Types.DOUBLE(), Types.INT()]), {"f0": 1.5, "f1": 7}),
    (Types.LIST(Types.LIST(Types.LONG())), [[1, None], [], [2]]),
]


class Unwilling:
    """Stands for what makes columns, and makes none."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        raise NotInColumnsError

    def __call__(self, *_: Any) -> Any:
        raise NotInColumnsError


def outcome(stage: Any, batch: pa.RecordBatch) -> Any:
    try:
        table = pa.Table.from_batches(state_frames._Encoding(stage, 128, "uid x")([batch]), ENTRY_SCHEMA)  # noqa: SLF001
    except (PystateError, ValueError, TypeError, struct.error) as error:
        return type(error), str(error)
    table.validate(full=True)
    return table.to_pylist()


def assert_same(batch: pa.RecordBatch, stage: Any) -> Any:
    """Columns and rows are written the same; return what."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_frames, "current_time_ms", lambda: 1_795_000_000_000)
        found = outcome(stage, batch)
        patch.setattr(state_frames, "PackedEntries", Unwilling)
        patch.setattr(state_frames, "packed_keys", Unwilling())
        assert outcome(stage, batch) == found
    return found


def timed(data: st.DataObject, descriptor: StateDescriptor) -> StateDescriptor:
    if data.draw(st.booleans(), "has a time to live"):
        descriptor.enable_time_to_live(TTL)
    return descriptor


@settings(max_examples=80)
@given(data=st.data())
def test_entries_are_as_rows_make_them(data: st.DataObject) -> None:
    key_type, value_type, map_key_type = (data.draw(st.sampled_from(TYPES), what) for what in ("key", "value", "map key"))
    declared = data.draw(st.sampled_from([value_type, value_type, None, *TYPES]), "declared")
    declared_key = data.draw(st.sampled_from([map_key_type, map_key_type, None]), "declared map key")
    size = data.draw(st.integers(1, 6), "rows")

    def column(type_info: TypeInformation, values: st.SearchStrategy[Any]) -> pa.Array:
        drawn = data.draw(st.lists(st.one_of(values, values, values, st.none()), min_size=size, max_size=size))
        return pa.array(drawn, column_converter(type_info).arrow_type)

    value, map_key = COLUMNS[value_type], COLUMNS[map_key_type]
    shapes: dict[str, tuple[StateDescriptor, TypeInformation, st.SearchStrategy[Any], StateColumn]] = {
        "value": (ValueStateDescriptor("s", declared), value_type, value, StateColumn("v")),
        "reducing": (ReducingStateDescriptor("s", min, declared), value_type, value, StateColumn("v")),
        "element": (ListStateDescriptor("s", declared), value_type, value, StateColumn("v", index="i")),
        "entry": (MapStateDescriptor("s", declared_key, declared), value_type, value, StateColumn("v", map_key="m")),
        "list": (
            ListStateDescriptor("s", declared),
            Types.LIST(value_type),
            st.lists(st.one_of(value, value, value, value, st.none()) if size == 1 else value, max_size=3),
            StateColumn("v"),
        ),
        "map": (
            MapStateDescriptor("s", declared_key, declared),
            Types.MAP(map_key_type, value_type),
            st.lists(st.tuples(map_key, st.one_of(value, st.none())), max_size=3),
            StateColumn("v"),
        ),
    }
    descriptor, shape, values, of = shapes[data.draw(st.sampled_from(sorted(shapes)), "shape")]
    descriptor = timed(data, descriptor)
    if descriptor.ttl_config is not None and shape == value_type and data.draw(st.booleans(), "has times"):
        of = StateColumn(of.value, of.map_key, of.index, "t")
    batch = pa.RecordBatch.from_arrays(
        [
            column(key_type, COLUMNS[key_type]),
            column(shape, values),
            column(map_key_type, map_key),
            pa.array(data.draw(st.lists(st.integers(-1, 1 << 62), min_size=size, max_size=size)), pa.int64()),
            column(Types.LONG(), st.integers(0, 1 << 62)),
        ],
        names=["k", "v", "m", "i", "t"],
    )
    types = {"k": key_type, "v": shape, "m": map_key_type, "i": Types.LONG(), "t": Types.LONG()}
    key = data.draw(st.sampled_from([key_type, key_type, *TYPES]), "declared key")
    assert_same(batch, state_frames._Stage("k", key, False, types, [(descriptor, of)]))  # noqa: SLF001


@pytest.mark.parametrize(("type_info", "value"), NESTED, ids=str)
def test_values_of_parts_are_as_rows_make_them(type_info: TypeInformation, value: Any) -> None:
    arrow_type = column_converter(type_info).arrow_type
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2, 3]), pa.array([value, None, value], arrow_type)], names=["k", "v"])
    types = {"k": Types.LONG(), "v": type_info}
    states = [(ValueStateDescriptor("s", type_info), StateColumn("v"))]
    found = assert_same(batch, state_frames._Stage("k", Types.LONG(), False, types, states))  # noqa: SLF001
    assert len(found) == 2


PLAIN = [
    Types.STRING(),
    Types.LONG(),
    Types.DOUBLE(),
    Types.BOOLEAN(),
    Types.SQL_DATE(),
    Types.PRIMITIVE_ARRAY(Types.BYTE()),
]


@pytest.mark.parametrize("type_info", PLAIN, ids=str)
def test_plain_columns_are_not_written_row_by_row(type_info: TypeInformation, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        pytest.fail("row by row")

    monkeypatch.setattr(state_frames._StateEncoder, "entries", refuse)  # noqa: SLF001
    monkeypatch.setattr(state_frames._Encoding, "_keys", refuse)  # noqa: SLF001
    examples: dict[TypeInformation, Any] = dict(zip(PLAIN, ["x", 1, 1.5, True, dt.date(2026, 11, 23), b"x"], strict=True))
    arrow_type = column_converter(type_info).arrow_type
    one = pa.array([examples[type_info], None], arrow_type)
    lists = pa.array([[examples[type_info]], []], pa.list_(arrow_type))
    maps = pa.array([[(examples[type_info], None)], None], pa.map_(arrow_type, arrow_type))
    batch = pa.RecordBatch.from_arrays([one, one, lists, maps], names=["k", "v", "l", "m"])
    types = {"k": type_info, "v": type_info, "l": Types.LIST(type_info), "m": Types.MAP(type_info, type_info)}
    states = [
        (ValueStateDescriptor("v", type_info), StateColumn("v")),
        (ListStateDescriptor("l", type_info), StateColumn("l")),
        (MapStateDescriptor("m", type_info, type_info), StateColumn("m")),
    ]
    assert len(outcome(state_frames._Stage("k", type_info, False, types, states), batch)) == 3  # noqa: SLF001


@given(st.lists(st.one_of(st.binary(min_size=1, max_size=40), st.binary(min_size=200, max_size=210)), max_size=20))
def test_key_groups_are_those_of_keys_one_by_one(keys: list[bytes]) -> None:
    for max_parallelism in (1, 7, 128, 32_768):
        expected = [key_group(key[0], key[1:], max_parallelism) for key in keys]
        assert key_groups_of(pa.array(keys, pa.binary()), max_parallelism).tolist() == expected


def test_numbers_with_a_decimal_point_go_row_by_row() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([Decimal("1.5")])], names=["k", "v"])
    states = [(ValueStateDescriptor("s", Types.BIG_DEC()), StateColumn("v"))]
    stage = state_frames._Stage("k", Types.LONG(), False, {"k": Types.LONG(), "v": Types.BIG_DEC()}, states)  # noqa: SLF001
    assert assert_same(batch, stage)[0]["value"] == b"\xa31.5"


@given(st.lists(st.binary(max_size=30), max_size=30), st.integers(1, 200))
def test_parts_are_read_as_entries_are_whatever_the_size_of_a_block(values: list[bytes], block_bytes: int) -> None:
    info = StateSchema.of(ValueStateDescriptor("s", Types.LONG())).meta_info("s")
    header = CanonicalHeader(None, KEY_ENCODING, 8, KeyGroupRange(0, 7), (info,))
    entries = [(value, b"", value * (number % 3)) for number, value in enumerate(values)]
    for in_parts in (False, True):
        file = io.BytesIO()
        writer = CanonicalWriter(file, header, block_bytes=block_bytes)
        if in_parts:
            writer.write_parts("s", 3, [part for entry in entries for part in entry])
        else:
            writer.write("s", 3, entries)
        writer.finish()
        assert list(CanonicalReader(file).entries("s", 3)) == entries


def test_hashes_of_numbers_do_not_warn_of_what_flows_over() -> None:
    with np.errstate(over="raise"):
        assert key_groups_of(pa.array([b"\x01" + b"\xff" * 8], pa.binary()), 128).tolist() == [
            key_group(1, b"\xff" * 8, 128)
        ]
