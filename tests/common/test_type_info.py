"""Types: content equality, plain form, refusals."""

from __future__ import annotations

import json
import pickle

import pytest

from pystate.common import TypeInformation, Types

ALL_TYPES = [
    Types.STRING(),
    Types.BOOLEAN(),
    Types.BYTE(),
    Types.SHORT(),
    Types.INT(),
    Types.LONG(),
    Types.FLOAT(),
    Types.DOUBLE(),
    Types.CHAR(),
    Types.BIG_INT(),
    Types.BIG_DEC(),
    Types.SQL_DATE(),
    Types.SQL_TIME(),
    Types.SQL_TIMESTAMP(),
    Types.INSTANT(),
    Types.PICKLED_BYTE_ARRAY(),
    Types.ROW([Types.INT(), Types.STRING()]),
    Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]),
    Types.TUPLE([Types.INT(), Types.STRING()]),
    Types.LIST(Types.ROW_NAMED(["a"], [Types.LONG()])),
    Types.MAP(Types.STRING(), Types.LIST(Types.LONG())),
    Types.PRIMITIVE_ARRAY(Types.BYTE()),
    Types.BASIC_ARRAY(Types.STRING()),
    Types.OBJECT_ARRAY(Types.TUPLE([Types.INT()])),
]


@pytest.mark.parametrize("type_info", ALL_TYPES, ids=lambda t: t.name)
def test_a_type_survives_its_plain_form_pickle_and_repr(type_info: TypeInformation) -> None:
    assert TypeInformation.from_plain(json.loads(json.dumps(type_info.to_plain()))) == type_info
    assert pickle.loads(pickle.dumps(type_info)) == type_info
    assert eval(repr(type_info), {"Types": Types}) == type_info  # noqa: S307 - our own repr


def test_types_are_compared_by_content() -> None:
    assert len(set(ALL_TYPES)) == len(ALL_TYPES)
    assert Types.LIST(Types.INT()) == Types.LIST(Types.INT())


def test_names_are_readable() -> None:
    assert Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.LONG()]).name == "ROW<word STRING, n LONG>"
    assert Types.MAP(Types.STRING(), Types.LIST(Types.INT())).name == "MAP<STRING, LIST<INT>>"


@pytest.mark.parametrize(
    "plain",
    [None, 3, {}, {"type": "NOPE"}, {"type": "LIST"}, {"type": "LIST", "elements": [3]}, {"type": "INT", "names": ["a"]}],
)
def test_data_that_describes_no_type_is_refused(plain: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        TypeInformation.from_plain(plain)


def test_types_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="different"):
        Types.ROW_NAMED(["a", "a"], [Types.INT(), Types.INT()])
    with pytest.raises(ValueError, match="2 names"):
        Types.ROW_NAMED(["a", "b"], [Types.INT()])
    with pytest.raises(TypeError, match="Types.LONG"):
        Types.LIST(int)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="PRIMITIVE_ARRAY"):
        Types.PRIMITIVE_ARRAY(Types.STRING())
    deep: dict[str, object] = {"type": "INT"}
    for _ in range(60):
        deep = {"type": "LIST", "elements": [deep]}
    with pytest.raises(ValueError, match="deeper"):
        TypeInformation.from_plain(deep)


def test_defaults_of_fields_are_not_part_of_the_type() -> None:
    plain = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
    with_defaults = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()], defaults={"b": "x"})
    assert with_defaults == plain
    assert hash(with_defaults) == hash(plain)
    assert with_defaults.to_plain() == plain.to_plain()
    assert pickle.loads(pickle.dumps(with_defaults)).defaults == {"b": "x"}
    assert eval(repr(with_defaults), {"Types": Types}).defaults == {"b": "x"}  # noqa: S307 - our own repr
    with pytest.raises(ValueError, match="no field 'c'"):
        Types.ROW_NAMED(["a"], [Types.INT()], defaults={"c": 1})


@pytest.mark.parametrize(
    ("type_info", "text"),
    [
        (Types.STRING(), "String"),
        (Types.INT(), "Integer"),
        (Types.BIG_DEC(), "BigDecimal"),
        (Types.INSTANT(), "Instant"),
        (Types.SQL_TIMESTAMP(), "TimestampTypeInfo"),
        (Types.PICKLED_BYTE_ARRAY(), "PickledByteArrayTypeInfo"),
        (Types.ROW([Types.INT(), Types.STRING()]), "RowTypeInfo(Integer, String)"),
        (Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]), "RowTypeInfo(a: Integer, b: String)"),
        (Types.TUPLE([Types.INT(), Types.ROW([Types.INT()])]), "TupleTypeInfo(Integer, RowTypeInfo(Integer))"),
        (Types.PRIMITIVE_ARRAY(Types.INT()), "PrimitiveArrayTypeInfo<Integer>"),
        (Types.BASIC_ARRAY(Types.STRING()), "BasicArrayTypeInfo<String>"),
        (Types.OBJECT_ARRAY(Types.ROW([Types.INT()])), "ObjectArrayTypeInfo<RowTypeInfo(Integer)>"),
        (Types.LIST(Types.INT()), "ListTypeInfo<Integer>"),
        (Types.MAP(Types.STRING(), Types.INT()), "MapTypeInfo<String, Integer>"),
    ],
)
def test_types_are_shown_as_pyflink_2_3_shows_them(type_info: TypeInformation, text: str) -> None:
    assert str(type_info) == text
