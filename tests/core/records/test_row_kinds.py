"""Kinds of declared rows in the batches between tasks, beside what rows without a declared type keep."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystate.common import Row, RowKind, Types
from pystate.common.errors import RecordError
from pystate.core.records.codec import KIND_FIELD, RecordCodec
from pystate.core.records.key_column import KeyColumn
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.values.serializers import serializer_for
from pystate.runtime.engines.real_time.slot.frames import FrameKind, local_frame, remainder_of
from pystate.runtime.plan.row_kinds import may_use_kinds
from pystate.runtime.plan.task_output import KindsPlace, OutputKind, OutputSpec
from pystate.runtime.slot.output_buffer import OutputBuffer

PLAIN = Types.ROW_NAMED(["name", "n"], [Types.STRING(), Types.LONG()])
CONVERTED = Types.ROW_NAMED(["name", "n", "parts"], [Types.STRING(), Types.LONG(), Types.LIST(Types.BIG_INT())])
KINDS = st.sampled_from(RowKind)
NAME, NUMBER = st.none() | st.text(max_size=3), st.integers(-(2**63), 2**63 - 1)


@st.composite
def elements(draw):
    """A type of rows, and elements of it: rows with names in any order or without, tuples, and rows that a stream gave."""
    type_info = draw(st.sampled_from([PLAIN, CONVERTED]))
    made = []
    for _ in range(draw(st.integers(0, 6))):
        values = {"name": draw(NAME), "n": draw(NUMBER), "parts": draw(st.none() | st.lists(st.integers(), max_size=2))}
        fields = {name: values[name] for name in type_info.get_field_names()}
        how = draw(st.sampled_from(["named", "turned", "plain", "decoded", "tuple"]))
        if how == "tuple":
            made.append(tuple(fields.values()))
            continue
        if how == "turned":
            fields = dict(reversed(fields.items()))
        row = Row(*fields.values()) if how == "plain" else Row(**fields)
        if how == "decoded":
            (row,) = through(OutputSpec(0, OutputKind.EDGE, "edge", type_info), [row])
        row.set_row_kind(draw(KINDS))
        made.append(row)
    return type_info, made


def batches_of(spec, rows):
    found = []
    buffer = OutputBuffer(spec, lambda _, batch: found.append(batch))
    for row in rows:
        buffer.append(row)
    buffer.flush()
    return found


def through(spec, rows):
    decode = RecordCodec(spec.type_info, "read").decode
    return [row for batch in batches_of(spec, rows) for row in decode(batch)]


def plain(type_info, element):
    """Return the kind and the values of an element, as rows without a declared type keep them."""
    values = element if isinstance(element, tuple) else element.get_fields_by_names(type_info.get_field_names())
    return RowKind.INSERT if isinstance(element, tuple) else element.get_row_kind(), list(values)


@given(elements(), st.sampled_from([KindsPlace.COLUMN, KindsPlace.WHERE_USED]), st.booleans())
def test_rows_keep_their_kinds_as_rows_without_a_declared_type_do(made, place, keyed):
    type_info, rows = made
    key = KeyColumn("__pystate_key", Types.STRING()) if keyed else None
    select = (lambda element: str(element[0])) if keyed else None
    spec = OutputSpec(0, OutputKind.EDGE, "edge", type_info, key, select, kinds=place)

    back = through(spec, rows)

    untyped = through(OutputSpec(0, OutputKind.EDGE, "edge", None), rows)
    assert [plain(type_info, row) for row in back] == [plain(type_info, row) for row in untyped]


def test_only_batches_with_another_kind_than_insert_have_a_column_for_it():
    spec = OutputSpec(0, OutputKind.EDGE, "edge", PLAIN, kinds=KindsPlace.WHERE_USED)
    rows = [Row("a", 1), Row.of_kind(RowKind.DELETE, "b", 2)]

    assert [batch.schema.names for batch in batches_of(spec, rows[:1])] == [["name", "n"]]
    (batch,) = batches_of(spec, rows)

    assert batch.schema.names == ["name", "n", KIND_FIELD]
    assert batch.column(KIND_FIELD).to_pylist() == [None, RowKind.DELETE.value]


def test_a_kind_within_a_row_and_in_a_tuple_is_refused():
    inner = Types.ROW_NAMED(["a"], [Types.LONG()])
    for type_info, element in (
        (Types.ROW([inner]), Row(Row.of_kind(RowKind.DELETE, a=1))),
        (Types.TUPLE([Types.LONG()]), Row.of_kind(RowKind.DELETE, 1)),
    ):
        spec = OutputSpec(0, OutputKind.EDGE, "edge", type_info, kinds=KindsPlace.WHERE_USED)
        with pytest.raises(RecordError, match="would turn from -D"):
            batches_of(spec, [element])


def test_a_state_keeps_the_kind_of_a_row_and_of_a_row_within_it():
    """As Flink's RowSerializer does."""
    outer = Types.ROW_NAMED(["inner"], [PLAIN])
    serializer = serializer_for(outer)
    row = Row.of_kind(RowKind.UPDATE_AFTER, inner=Row.of_kind(RowKind.DELETE, name="a", n=1))

    back = serializer.deserialize(serializer.serialize(row))

    assert (back.get_row_kind(), back.inner.get_row_kind()) == (RowKind.UPDATE_AFTER, RowKind.DELETE)


def test_what_a_barrier_overtakes_of_a_batch_keeps_its_kinds():
    spec = OutputSpec(0, OutputKind.EDGE, "edge", PLAIN, kinds=KindsPlace.WHERE_USED)
    (batch,) = batches_of(spec, [Row("a", 1), Row.of_kind(RowKind.DELETE, "b", 2)])
    frame = local_frame(FrameKind.CHANGES, 0, 0, batch.serialize(), rows=2)

    rest = remainder_of(frame, batch.slice(1))

    assert rest.kind is FrameKind.CHANGES
    (row,) = RecordCodec(PLAIN, "read").decode(pa.ipc.read_record_batch(pa.py_buffer(rest.data), batch.schema))
    assert plain(PLAIN, row) == (RowKind.DELETE, ["b", 2])


def test_a_program_that_names_row_kind_may_use_kinds():
    assert may_use_kinds()  # this module names it


def test_keys_of_rows_are_shared_with_their_elements_and_kinds_are_kept():
    spec = OutputSpec(0, OutputKind.EDGE, "edge", PLAIN, KeyColumn("name", Types.STRING()), kinds=KindsPlace.COLUMN)
    (batch,) = batches_of(spec, [Row.of_kind(RowKind.DELETE, "b", 2)])
    assert KeyColumn("name", Types.STRING()).decoder(KeyCodec(Types.STRING()))(batch.column("name")) == ["b"]
    assert batch.schema.names == ["name", "n", KIND_FIELD]
