import datetime
import decimal

import pyarrow as pa
import pytest

from pystate.common import Instant, Row, RowKind, Types
from pystate.common.errors import RecordError
from pystate.core.records.codec import RecordCodec
from pystate.core.records.key_column import KeyColumn
from pystate.core.state.keys.keys import KeyCodec
from pystate.runtime.plan.task_output import OutputKind, OutputSpec, line_prefix
from pystate.runtime.slot.output_buffer import OutputBuffer

VALUES = [
    (Types.STRING(), ["", "grün", None]),
    (Types.BOOLEAN(), [True, False, None]),
    (Types.BYTE(), [-128, 127]),
    (Types.SHORT(), [-32768, 32767]),
    (Types.INT(), [-(2**31), 2**31 - 1, None]),
    (Types.LONG(), [-(2**63), 2**63 - 1]),
    (Types.FLOAT(), [0.5, -1.25]),
    (Types.DOUBLE(), [0.1, float("inf")]),
    (Types.BIG_INT(), [2**200, -1, None]),
    (Types.BIG_DEC(), [decimal.Decimal("1.000000000000000000000000000000000000001"), None]),
    (Types.SQL_DATE(), [datetime.date(1, 1, 1), datetime.date(2026, 11, 21)]),
    (Types.SQL_TIME(), [datetime.time(1, 2, 3, 4)]),
    (Types.SQL_TIMESTAMP(), [datetime.datetime(2026, 11, 21, 1, 2, 3, 4)]),  # noqa: DTZ001 - the type has no zone
    (Types.INSTANT(), [Instant(-5, 7), None]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"", b"\x00\xff", None]),
    (Types.PICKLED_BYTE_ARRAY(), [{1, 2}, (3, [4])]),
    (None, [1, "one", {"a": {1}}, None]),
    (Types.LIST(Types.LONG()), [[], [1, 2], None]),
    (Types.MAP(Types.STRING(), Types.LIST(Types.BIG_INT())), [{}, {"a": [2**70]}]),
    (Types.TUPLE([Types.STRING(), Types.LONG()]), [("a", 1), (None, None)]),
    (Types.ROW([Types.STRING(), Types.LONG()]), [Row("a", 1)]),
    (Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.LONG()]), [Row(word="a", n=1), Row(word=None, n=2)]),
    (
        Types.ROW_NAMED(["id", "parts"], [Types.LONG(), Types.LIST(Types.TUPLE([Types.STRING(), Types.BIG_DEC()]))]),
        [Row(id=1, parts=[("x", decimal.Decimal("1.5"))]), Row(id=2, parts=None)],
    ),
]


def round_trip(type_info, values):
    codec = RecordCodec(type_info, "test")
    prepared = values if codec.prepare is None else [codec.prepare(value) for value in values]
    batch = pa.RecordBatch.from_arrays(codec.encode(prepared), schema=codec.schema)
    return codec.decode(batch)


@pytest.mark.parametrize(("type_info", "values"), VALUES, ids=lambda x: repr(x)[:40])
def test_elements_come_back_as_they_went(type_info, values):
    back = round_trip(type_info, values)
    assert back == values
    assert [type(value) for value in back] == [type(value) for value in values]


@pytest.mark.parametrize(
    ("type_info", "wrong"),
    [
        (Types.LONG(), "1"),
        (Types.LONG(), 1.5),
        (Types.LONG(), 2**63),
        (Types.STRING(), 1),
        (Types.TUPLE([Types.LONG(), Types.LONG()]), (1,)),
        (Types.TUPLE([Types.LONG(), Types.LONG()]), 1),
        (Types.ROW_NAMED(["a"], [Types.LONG()]), Row(a="x")),
    ],
    ids=repr,
)
def test_an_element_of_another_type_is_refused_and_named(type_info, wrong):
    with pytest.raises(RecordError) as refused:
        round_trip(type_info, [wrong])
    assert "output_type" in str(refused.value)


@pytest.mark.parametrize("nested", [False, True])
def test_a_row_that_is_no_insert_is_refused_where_its_kind_would_be_lost(nested):
    row = Types.ROW_NAMED(["a"], [Types.LONG()])
    type_info = Types.TUPLE([row]) if nested else row

    def element(kind):
        return (Row.of_kind(kind, a=1),) if nested else Row.of_kind(kind, a=1)

    for kind in (RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE):
        with pytest.raises(RecordError, match="would turn from") as refused:
            round_trip(type_info, [element(RowKind.INSERT), element(kind)])
        assert "leave the type out" in str(refused.value)
        assert round_trip(None, [element(kind)]) == [element(kind)]
    assert round_trip(type_info, [element(RowKind.INSERT)]) == [element(RowKind.INSERT)]


def test_a_timestamp_with_a_zone_is_given_as_utc_without_one():
    instant = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))
    array = pa.array([instant], pa.timestamp("us", tz="Europe/Berlin"))
    batch = pa.RecordBatch.from_arrays([array], names=["value"])
    assert RecordCodec(Types.SQL_TIMESTAMP(), "t").decode(batch) == [datetime.datetime(2026, 11, 21, 11)]  # noqa: DTZ001


@pytest.mark.parametrize(
    ("key_type", "keys"),
    [
        (Types.STRING(), ["a", "ü"]),
        (Types.LONG(), [1, -1]),
        (Types.BOOLEAN(), [True, False]),
        (Types.DOUBLE(), [1.5, 0.0]),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"x"]),
        (Types.TUPLE([Types.STRING(), Types.LONG()]), [("a", 1)]),
        (None, ["a", 1, 1.0, True, ("a", 1), [1, 2]]),
    ],
    ids=repr,
)
def test_keys_reach_the_slot_as_the_codec_has_them(key_type, keys):
    column, codec = KeyColumn("key", key_type), KeyCodec(key_type)
    prepare = column.preparer() or (lambda key: key)
    array = column.encode([prepare(key) for key in keys], "test")
    internal = column.decoder(codec)(array)
    assert internal == [codec.internal(key) for key in keys]
    assert [codec.external(key) for key in internal] == keys


@pytest.mark.parametrize(
    ("key_type", "key"),
    [(None, "a"), (Types.STRING(), "a"), (Types.DOUBLE(), 1.5), (Types.TUPLE([Types.LONG()]), (1,))],
    ids=repr,
)
def test_a_row_without_a_key_has_the_key_none(key_type, key):
    column, codec = KeyColumn("user", key_type), KeyCodec(key_type)
    prepare = column.preparer() or (lambda key: key)
    array = column.encode([prepare(key), prepare(None)], "test")
    assert [codec.external(internal) for internal in column.decoder(codec)(array)] == [key, None]


def collected(spec, elements):
    batches = []
    buffer = OutputBuffer(spec, lambda _, batch: batches.append(batch))
    for element in elements:
        buffer.append(element)
    buffer.flush()
    return batches


@pytest.mark.parametrize("type_info", [None, Types.LIST(Types.LONG()), Types.TUPLE([Types.LIST(Types.LONG())])], ids=repr)
def test_an_element_that_is_changed_after_it_was_emitted_goes_out_as_it_was(type_info):
    grown = []

    def elements():
        for i in range(3):
            grown.append(i)
            yield (grown,) if type_info is not None and type_info.kind.value == "TUPLE" else grown

    spec = OutputSpec(1, OutputKind.FRAME, "out", type_info)
    (batch,) = collected(spec, elements())
    lists = [
        element[0] if isinstance(element, tuple) else element for element in RecordCodec(type_info, "out").decode(batch)
    ]
    assert lists == [[0], [0, 1], [0, 1, 2]]


def test_an_edge_keyed_by_a_function_carries_the_key():
    spec = OutputSpec(0, OutputKind.EDGE, "edge", Types.STRING(), KeyColumn("__pystate_key", Types.LONG()), selector=len)
    (batch,) = collected(spec, ["a", "bcd"])
    assert batch.to_pydict() == {"value": ["a", "bcd"], "__pystate_key": [1, 3]}


@pytest.mark.parametrize(
    ("identifier", "parallelism", "expected"),
    [(None, 1, ""), (None, 2, "2> "), ("alerts", 1, "alerts> "), ("alerts", 2, "alerts:2> ")],
)
def test_printed_lines_begin_as_flinks_do(identifier, parallelism, expected):
    assert line_prefix(identifier, 1, parallelism) == expected


def test_rows_without_names_come_back_with_those_of_flink():
    (row,) = round_trip(Types.ROW([Types.LONG(), Types.STRING()]), [Row(1, "a")])
    assert (str(row), row.f0, row["f1"], row.as_dict()) == ("Row(f0=1, f1='a')", 1, "a", {"f0": 1, "f1": "a"})
    ((nested,),) = round_trip(Types.TUPLE([Types.ROW([Types.LONG()])]), [(Row(1),)])
    assert nested.f0 == 1


def test_a_row_whose_names_stand_in_another_order_is_taken_by_name():
    pair = Types.ROW_NAMED(["x", "y"], [Types.LONG(), Types.LONG()])
    assert str(round_trip(pair, [Row(y=2, x=1)])) == "[Row(x=1, y=2)]"
    assert str(round_trip(pair, [Row(z=3, y=2, x=1)])) == "[Row(x=1, y=2)]"
    nested = Types.TUPLE([pair])
    assert str(round_trip(nested, [(Row(y=2, x=1),)])) == "[(Row(x=1, y=2),)]"


@pytest.mark.parametrize("row", [Row(x=1, z=2), Row(x=1)], ids=str)
def test_a_row_with_other_names_than_its_type_is_refused(row):
    with pytest.raises(RecordError, match="has no field"):
        round_trip(Types.ROW_NAMED(["x", "y"], [Types.LONG(), Types.LONG()]), [row])


@pytest.mark.parametrize("type_info", [type_info for type_info, _ in VALUES], ids=lambda x: repr(x)[:40])
def test_no_elements_come_back_as_none(type_info):
    assert round_trip(type_info, []) == []


def test_a_wrong_field_is_named_with_the_type_that_its_author_declared():
    codec = RecordCodec(Types.ROW_NAMED(["id", "amount"], [Types.STRING(), Types.LONG()]), "output")
    with pytest.raises(RecordError, match=r"^Field 'amount': '12,50' is no LONG: it is str"):
        codec.encode([("a", 1), ("b", "12,50")])
    with pytest.raises(RecordError, match=r"^Field 'amount': 18446744073709551616 is no LONG: "):
        codec.encode([("a", 1 << 64)])
    with pytest.raises(RecordError, match=r"^Field 'f1': 1.5 is no INT: "):
        RecordCodec(Types.TUPLE([Types.STRING(), Types.INT()]), "output").encode([("a", 1.5)])
