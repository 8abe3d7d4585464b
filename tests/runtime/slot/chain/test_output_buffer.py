import decimal

import pytest

from pystate.common import Row, Types
from pystate.common.errors import RecordError
from pystate.core.records import sizes
from pystate.core.records.codec import RecordCodec
from pystate.core.records.key_column import KeyColumn
from pystate.runtime.plan.task_output import OutputKind, OutputSpec
from pystate.runtime.slot.output_buffer import BYTES_PER_BATCH, ROW_BYTES, OutputBuffer

MB = 1 << 20
MOST_ROWS = BYTES_PER_BATCH // ROW_BYTES
TEXT, NAMED = Types.STRING(), Types.ROW_NAMED(["n", "text"], [Types.LONG(), Types.STRING()])


def collected(spec, elements):
    batches = []
    buffer = OutputBuffer(spec, lambda _, batch: batches.append(batch), "> ")
    for element in elements:
        buffer.append(element)
    buffer.flush()
    return batches


def frame(type_info):
    return OutputSpec(1, OutputKind.FRAME, "out", type_info)


@pytest.mark.parametrize("type_info", [Types.LONG(), Types.TUPLE([Types.LONG()])], ids=["plain", "prepared"])
def test_a_batch_of_small_rows_ends_with_its_rows(type_info):
    count = MOST_ROWS * 2 + 1
    batches = collected(frame(type_info), [i if type_info == Types.LONG() else (i,) for i in range(count)])
    assert [batch.num_rows for batch in batches] == [MOST_ROWS, MOST_ROWS, 1]
    assert [value for batch in batches for value in batch.column(0).to_pylist()] == list(range(count))


@pytest.mark.parametrize(
    ("spec", "element"),
    [
        (frame(TEXT), lambda i: f"{i:{MB}}"),
        (frame(Types.PRIMITIVE_ARRAY(Types.BYTE())), lambda i: b"x" * MB),
        (frame(None), lambda i: (i, "x" * MB)),
        (frame(Types.BIG_DEC()), lambda i: decimal.Decimal("9" * MB)),
        (frame(NAMED), lambda i: Row(n=i, text="x" * MB)),
        (frame(Types.TUPLE([TEXT, TEXT])), lambda i: ("x" * (MB // 2), "y" * (MB // 2))),
        (frame(Types.TUPLE([TEXT, TEXT])), lambda i: (None, "y" * MB)),
        (frame(Types.LIST(Types.DOUBLE())), lambda i: [0.5] * (MB // 8)),
        (frame(Types.LIST(TEXT)), lambda i: [None, *["x" * 1024] * 1024]),
        (frame(Types.MAP(TEXT, NAMED)), lambda i: {"k": Row(n=i, text="x" * MB)}),
        (OutputSpec(1, OutputKind.PRINT, "out"), lambda i: "x" * MB),
        (OutputSpec(0, OutputKind.EDGE, "out", TEXT, KeyColumn("key", TEXT), lambda text: text[:1]), lambda i: "x" * MB),
        (OutputSpec(0, OutputKind.EDGE, "out", TEXT, KeyColumn("key", TEXT), lambda text: text * MB), lambda i: "x"),
        (OutputSpec(0, OutputKind.EDGE, "out", None, KeyColumn("key", None), lambda pair: pair[1]), lambda i: (i, "x" * MB)),
    ],
)
def test_a_batch_of_large_rows_ends_with_its_bytes(spec, element):
    batches = collected(spec, map(element, range(40)))
    assert sum(batch.num_rows for batch in batches) == 40
    assert all(batch.num_rows > 1 for batch in batches[:-1])
    assert max(batch.nbytes for batch in batches) < BYTES_PER_BATCH + 2 * MB


def test_a_row_larger_than_a_batch_is_one_of_its_own_and_rows_stay_in_order():
    key = KeyColumn("key", Types.LONG())
    rows = ["a", "b", "x" * (BYTES_PER_BATCH + 1), "c", "y" * (BYTES_PER_BATCH + 1), "z" * (BYTES_PER_BATCH + 1)]
    batches = collected(OutputSpec(0, OutputKind.EDGE, "out", TEXT, key, selector=len), rows)
    assert [batch.num_rows for batch in batches] == [2, 1, 1, 1, 1]
    assert [text for batch in batches for text in batch.column(0).to_pylist()] == rows
    assert [length for batch in batches for length in batch.column(1).to_pylist()] == [len(text) for text in rows]


def test_nulls_have_a_size_and_what_is_of_another_type_is_refused_as_ever():
    assert [batch.num_rows for batch in collected(frame(TEXT), [None] * 3)] == [3]
    with pytest.raises(RecordError, match="^7 is no STRING"):
        collected(frame(TEXT), ["a", 7])


@pytest.mark.parametrize(
    ("type_info", "row"),
    [(TEXT, "ä" * BYTES_PER_BATCH), (Types.LIST(TEXT), ["ä" * BYTES_PER_BATCH]), (None, b"x" * 16 * MB)],
)
def test_a_row_that_nothing_can_carry_is_refused_with_its_place_and_size(monkeypatch, type_info, row):
    size = 2 * BYTES_PER_BATCH
    monkeypatch.setattr(sizes, "MAX_ROW_BYTES", size - 1)
    with pytest.raises(RecordError, match=rf"^A row of {size:,}|^A row of 16,777,2\d\d") as refusal:
        collected(frame(type_info), ["a" if type_info == TEXT else ["a"], row])
    assert refusal.value.where == "out"
    assert "16,777,215" in str(refusal.value)
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize("key_type", [TEXT, None], ids=["native", "encoded"])
def test_a_key_that_nothing_can_carry_is_refused_like_its_row(monkeypatch, key_type):
    monkeypatch.setattr(sizes, "MAX_ROW_BYTES", BYTES_PER_BATCH)
    spec = OutputSpec(0, OutputKind.EDGE, "out", TEXT, KeyColumn("key", key_type), lambda text: text * BYTES_PER_BATCH)
    with pytest.raises(RecordError, match=r"^A row of 8,388,6\d\d bytes is too large") as refusal:
        collected(spec, ["", "x"])
    assert refusal.value.where == "out"


def test_a_row_that_is_nearly_too_large_is_measured_to_the_byte(monkeypatch):
    monkeypatch.setattr(sizes, "MAX_ROW_BYTES", BYTES_PER_BATCH)
    assert [batch.num_rows for batch in collected(frame(TEXT), ["x" * BYTES_PER_BATCH])] == [1]


def test_a_large_value_of_the_wrong_type_is_cut_in_the_error():
    with pytest.raises(RecordError) as refusal:
        RecordCodec(Types.LONG(), "out").encode(["x" * MB])
    assert len(str(refusal.value)) < 1000
