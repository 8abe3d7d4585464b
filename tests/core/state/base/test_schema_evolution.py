"""Schema evolution: which types may follow which, what becomes of the values, and which values are refused."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystate.common import Instant, Row, TypeInformation, Types
from pystate.common.errors import RestoreError, StateError
from pystate.common.row import RowKind
from pystate.core.api.state import ListStateDescriptor, MapStateDescriptor
from pystate.core.state.base.loader import state_backend_names
from pystate.core.state.values.serializers import (
    Resolution,
    SchemaCompatibility,
    resolve_compatibility,
    serializer_for,
)
from tests.core.state.conftest import BackendHarness

AS_IS = SchemaCompatibility.AS_IS
AFTER_MIGRATION = SchemaCompatibility.AFTER_MIGRATION
RECONFIGURED = SchemaCompatibility.RECONFIGURED
INCOMPATIBLE = SchemaCompatibility.INCOMPATIBLE

INT, LONG, STRING, DOUBLE = Types.INT(), Types.LONG(), Types.STRING(), Types.DOUBLE()
PICKLED = Types.PICKLED_BYTE_ARRAY()


def named(**fields: TypeInformation) -> TypeInformation:
    return Types.ROW_NAMED(list(fields), list(fields.values()))


def resolve(old: TypeInformation | None, new: TypeInformation | None) -> Resolution:
    return resolve_compatibility(serializer_for(old).snapshot(), serializer_for(new), "s")


def migrated(old: TypeInformation | None, new: TypeInformation | None, value: Any) -> Any:
    """Take a value the way of a restore, from bytes to bytes; return what the new state then reads."""
    before, after = serializer_for(old), serializer_for(new)
    data = before.serialize(value)
    migrate = resolve(old, new).migrate
    if migrate is not None:
        data = after.serialize(migrate(before.deserialize(data)))
    return after.deserialize(data)


def same(left: Any, right: Any) -> bool:
    """Return whether values and their Python types are equal; the default names that a row has of its type don't count."""
    return repr(_unnamed(left)) == repr(_unnamed(right)) and left == right


def _unnamed(value: Any) -> Any:
    if not isinstance(value, Row):
        return value
    return Row.of_fields(value.field_names(), [_unnamed(part) for part in value])


PERSON = named(name=STRING, age=INT)
WITH_DEFAULTS = Types.ROW_NAMED(
    ["name", "age", "city", "tags"],
    [STRING, INT, STRING, Types.LIST(STRING)],
    defaults={"city": "Rome", "tags": ["new"]},
)
ADDRESSES = Types.LIST(named(street=STRING, number=INT))
WIDER_ADDRESSES = Types.LIST(named(number=LONG, street=STRING, floor=INT))

# old type, new type, verdict, value -> what it becomes
COMPATIBLE: list[tuple[TypeInformation | None, TypeInformation | None, SchemaCompatibility, list[tuple[Any, Any]]]] = [
    (None, None, AS_IS, [({"a": [1]}, {"a": [1]})]),
    (LONG, LONG, AS_IS, [(3, 3)]),
    (PICKLED, PICKLED, AS_IS, [({1, 2}, {1, 2})]),
    (PERSON, PERSON, AS_IS, [(Row(name="Ann", age=4), Row(name="Ann", age=4))]),
    (
        PERSON,
        Types.ROW_NAMED(["name", "age"], [STRING, INT], defaults={"age": 7}),
        AS_IS,
        [(Row("A", 1), Row(name="A", age=1))],
    ),
    # wider numbers
    (Types.BYTE(), Types.SHORT(), AFTER_MIGRATION, [(-128, -128)]),
    (Types.BYTE(), Types.FLOAT(), AFTER_MIGRATION, [(127, 127.0)]),
    (Types.SHORT(), INT, AFTER_MIGRATION, [(-32768, -32768)]),
    (Types.SHORT(), Types.FLOAT(), AFTER_MIGRATION, [(32767, 32767.0)]),
    (INT, LONG, AFTER_MIGRATION, [(2**31 - 1, 2**31 - 1), (0, 0)]),
    (INT, DOUBLE, AFTER_MIGRATION, [(-(2**31), -(2.0**31))]),
    (INT, Types.BIG_INT(), AFTER_MIGRATION, [(5, 5)]),
    (LONG, DOUBLE, AFTER_MIGRATION, [(2**53, 2.0**53), (-(2**63), -(2.0**63))]),
    (LONG, Types.BIG_INT(), AFTER_MIGRATION, [(2**63 - 1, 2**63 - 1)]),
    (Types.FLOAT(), DOUBLE, AFTER_MIGRATION, [(0.1, 0.10000000149011612), (-0.0, -0.0)]),
    # rows
    (
        PERSON,
        WITH_DEFAULTS,
        AFTER_MIGRATION,
        [
            (Row(name="Ann", age=4), Row(name="Ann", age=4, city="Rome", tags=["new"])),
            (Row("Bo", None), Row(name="Bo", age=None, city="Rome", tags=["new"])),
        ],
    ),
    (PERSON, named(name=STRING, age=INT, size=DOUBLE), AFTER_MIGRATION, [(Row("A", 1), Row(name="A", age=1, size=None))]),
    (PERSON, named(age=INT), AFTER_MIGRATION, [(Row("A", 1), Row(age=1))]),
    (PERSON, named(age=INT, name=STRING), AFTER_MIGRATION, [(Row("A", 1), Row(age=1, name="A"))]),
    (PERSON, named(age=LONG, name=STRING, x=INT), AFTER_MIGRATION, [(Row("A", 1), Row(age=1, name="A", x=None))]),
    (PERSON, named(name=STRING, age=DOUBLE), AFTER_MIGRATION, [(Row("A", 1), Row(name="A", age=1.0))]),
    (PERSON, Types.ROW([STRING, INT]), RECONFIGURED, [(Row(name="A", age=1), Row("A", 1))]),
    (Types.ROW([STRING, INT]), PERSON, RECONFIGURED, [(Row("A", 1), Row(name="A", age=1))]),
    (Types.ROW([STRING, INT]), Types.ROW([STRING, LONG]), AFTER_MIGRATION, [(Row("A", 1), Row("A", 1))]),
    (Types.ROW([INT]), named(n=DOUBLE), AFTER_MIGRATION, [(Row(1), Row(n=1.0))]),
    (
        named(id=INT, blob=PICKLED),
        named(id=LONG, blob=PICKLED),
        AFTER_MIGRATION,
        [(Row(id=1, blob={2}), Row(id=1, blob={2}))],
    ),
    # inside of others
    (
        ADDRESSES,
        WIDER_ADDRESSES,
        AFTER_MIGRATION,
        [([Row("a", 1), None], [Row(number=1, street="a", floor=None), None]), ([], [])],
    ),
    (Types.BASIC_ARRAY(INT), Types.BASIC_ARRAY(DOUBLE), AFTER_MIGRATION, [([1, None], [1.0, None])]),
    (Types.OBJECT_ARRAY(Types.TUPLE([INT])), Types.OBJECT_ARRAY(Types.TUPLE([LONG])), AFTER_MIGRATION, [([(1,)], [(1,)])]),
    (Types.PRIMITIVE_ARRAY(INT), Types.PRIMITIVE_ARRAY(DOUBLE), AFTER_MIGRATION, [([1, 2], [1.0, 2.0])]),
    (Types.MAP(INT, INT), Types.MAP(INT, DOUBLE), AFTER_MIGRATION, [({1: 2, 3: None}, {1: 2.0, 3: None})]),
    (
        Types.MAP(STRING, PERSON),
        Types.MAP(STRING, named(age=INT)),
        AFTER_MIGRATION,
        [({"k": Row("A", 1)}, {"k": Row(age=1)})],
    ),
    (Types.LIST(Types.ROW([INT])), Types.LIST(named(n=INT)), RECONFIGURED, [([Row(1)], [Row(n=1)])]),
    (
        Types.TUPLE([INT, STRING]),
        Types.TUPLE([DOUBLE, STRING]),
        AFTER_MIGRATION,
        [((1, "a"), (1.0, "a")), ((None, "a"), (None, "a"))],
    ),
    (
        Types.MAP(STRING, Types.LIST(Types.TUPLE([PERSON]))),
        Types.MAP(STRING, Types.LIST(Types.TUPLE([named(name=STRING)]))),
        AFTER_MIGRATION,
        [({"k": [(Row("A", 1),)]}, {"k": [(Row(name="A"),)]})],
    ),
    # a type given, and given up
    (None, LONG, AFTER_MIGRATION, [(3, 3), (-(2**63), -(2**63))]),
    (None, DOUBLE, AFTER_MIGRATION, [(3, 3.0), (0.1, 0.1), (math.inf, math.inf), (2**53, 2.0**53)]),
    (None, Types.FLOAT(), AFTER_MIGRATION, [(0.5, 0.5)]),
    (None, PERSON, AFTER_MIGRATION, [(Row("A", 1), Row(name="A", age=1)), (Row(age=1, name="A"), Row(name="A", age=1))]),
    (None, Types.MAP(STRING, DOUBLE), AFTER_MIGRATION, [({"a": 1}, {"a": 1.0})]),
    (None, Types.LIST(Types.TUPLE([DOUBLE])), AFTER_MIGRATION, [([(1,), (None,)], [(1.0,), (None,)])]),
    (None, named(b=DOUBLE, a=DOUBLE), AFTER_MIGRATION, [(Row(a=1, b=0.1), Row(b=0.1, a=1.0))]),
    (LONG, None, RECONFIGURED, [(3, 3)]),
    (Types.MAP(LONG, STRING), None, RECONFIGURED, [({1: "a"}, {1: "a"})]),
    (PERSON, None, RECONFIGURED, [(Row("A", 1), Row(name="A", age=1))]),
    (Types.TUPLE([Types.SQL_DATE(), Types.BIG_DEC()]), None, RECONFIGURED, [((dt.date(2020, 1, 2), Decimal("1.0")),) * 2]),
]


@pytest.mark.parametrize(
    ("old", "new", "verdict", "values"), COMPATIBLE, ids=lambda v: v.name if isinstance(v, TypeInformation) else ""
)
def test_values_migrate(
    old: TypeInformation | None, new: TypeInformation | None, verdict: SchemaCompatibility, values: list[tuple[Any, Any]]
) -> None:
    resolution = resolve(old, new)
    assert resolution.compatibility is verdict
    assert resolution.reason == ""
    assert (resolution.migrate is None) == (verdict is AS_IS)
    for before, after in values:
        got = migrated(old, new, before)
        assert same(got, after), got


REFUSED: list[tuple[TypeInformation | None, TypeInformation | None, list[str]]] = [
    (STRING, INT, ["STRING can't become INT"]),
    (LONG, INT, ["LONG can't become INT", "can't hold every LONG"]),
    (DOUBLE, Types.FLOAT(), ["can't hold every DOUBLE"]),
    (DOUBLE, LONG, ["can't hold every DOUBLE"]),
    (INT, Types.FLOAT(), ["FLOAT can't hold every INT exactly"]),
    (LONG, Types.FLOAT(), ["can't hold every LONG"]),
    (Types.BIG_INT(), DOUBLE, ["can't hold every BIG_INT"]),
    (Types.BIG_INT(), LONG, ["can't hold every BIG_INT"]),
    (Types.BOOLEAN(), INT, ["BOOLEAN can't become INT"]),
    (Types.CHAR(), STRING, ["CHAR can't become STRING"]),
    (PERSON, named(name=STRING, age=STRING), ["field 'age' changed from INT to STRING", PERSON.name]),
    (
        named(home=ADDRESSES),
        named(home=Types.LIST(named(street=INT))),
        ["field 'street' of the elements of field 'home' changed from STRING to INT"],
    ),
    (Types.ROW([INT]), Types.ROW([INT, INT]), ["2 fields in the place of 1"]),
    (Types.ROW([INT]), named(a=INT, b=INT), ["2 fields in the place of 1"]),
    (Types.TUPLE([INT]), Types.TUPLE([INT, INT]), ["2 parts in the place of 1"]),
    (named(t=Types.TUPLE([INT])), named(t=Types.TUPLE([])), ["field 't' has 0 parts in the place of 1"]),
    (Types.TUPLE([INT, STRING]), Types.TUPLE([INT, INT]), ["part 1 changed from STRING to INT"]),
    (Types.MAP(INT, INT), Types.MAP(LONG, INT), ["the keys changed from INT to LONG", "key type never changes"]),
    (named(m=Types.MAP(INT, INT)), named(m=Types.MAP(LONG, INT)), ["the keys of field 'm' changed"]),
    (Types.MAP(INT, STRING), Types.MAP(INT, INT), ["the values changed from STRING to INT"]),
    (Types.LIST(INT), Types.BASIC_ARRAY(INT), ["LIST<INT> can't become BASIC_ARRAY<INT>"]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.PRIMITIVE_ARRAY(INT), ["PRIMITIVE_ARRAY<BYTE> can't become"]),
    (Types.PRIMITIVE_ARRAY(INT), Types.PRIMITIVE_ARRAY(Types.BYTE()), ["PRIMITIVE_ARRAY<INT> can't become"]),
    (PERSON, STRING, ["can't become STRING"]),
    (PICKLED, LONG, ["pickled values are never converted"]),
    (LONG, PICKLED, ["pickled values are never converted"]),
    (PICKLED, None, ["PICKLED_BYTE_ARRAY can't become untyped", "never converted"]),
    (None, Types.LIST(PICKLED), ["untyped can't become LIST<PICKLED_BYTE_ARRAY>", "never converted"]),
    (named(a=PICKLED), named(a=STRING), ["field 'a' changed from PICKLED_BYTE_ARRAY to STRING", "never converted"]),
]


@pytest.mark.parametrize(("old", "new", "words"), REFUSED, ids=lambda v: v.name if isinstance(v, TypeInformation) else "")
def test_other_changes_are_incompatible_and_say_what_does_not_fit(
    old: TypeInformation | None, new: TypeInformation | None, words: list[str]
) -> None:
    resolution = resolve(old, new)
    assert resolution.compatibility is INCOMPATIBLE
    assert resolution.migrate is None
    assert resolution.reason.endswith(".")
    for word in words:
        assert word in resolution.reason


MISFITS: list[tuple[TypeInformation | None, TypeInformation | None, Any, list[str]]] = [
    (LONG, DOUBLE, 2**53 + 1, ["9007199254740993", "DOUBLE", "LONG"]),
    (named(n=Types.LIST(LONG)), named(n=Types.LIST(DOUBLE)), Row(n=[1, 2**60 + 1]), ["the elements of field 'n'", "DOUBLE"]),
    (None, LONG, "x", ["'x' (str)", "LONG", "untyped"]),
    (None, LONG, True, ["True (bool)"]),
    (None, LONG, 2**63, ["LONG"]),
    (None, LONG, 1.0, ["1.0 (float)"]),
    (None, DOUBLE, 2**53 + 1, ["exactly"]),
    (None, DOUBLE, 10**400, ["DOUBLE"]),
    (None, Types.FLOAT(), 0.1, ["exactly", "FLOAT"]),
    (None, Types.LIST(LONG), [1, "x"], ["'x' (str)"]),
    (None, Types.MAP(STRING, DOUBLE), {"a": 2**53 + 1}, ["exactly"]),
    (None, Types.MAP(DOUBLE, STRING), {2**53 + 1: "a"}, ["exactly"]),
    (None, named(b=DOUBLE, a=DOUBLE), Row(a=2**53 + 1, b=0.5), ["exactly"]),
    (None, PERSON, Row(name="A", size=1), ["size"]),
    (None, PERSON, {"name": "A", "age": 1}, ["(dict)"]),
    (None, Types.TUPLE([INT]), {1: 2}, ["(dict)"]),
]


@pytest.mark.parametrize(("old", "new", "value", "words"), MISFITS)
def test_a_value_that_the_new_type_does_not_have_is_refused_with_state_value_and_remedy(
    old: TypeInformation | None, new: TypeInformation | None, value: Any, words: list[str]
) -> None:
    assert resolve(old, new).compatibility is AFTER_MIGRATION
    with pytest.raises(RestoreError) as error:
        migrated(old, new, value)
    for word in ("State 's'", *words):
        assert word in error.value.message
    assert error.value.hint
    assert "another name" in error.value.hint


def test_a_default_is_made_afresh_for_every_value() -> None:
    one, two = (migrated(PERSON, WITH_DEFAULTS, Row("A", 1)) for _ in range(2))
    one["tags"].append("mine")
    assert two["tags"] == ["new"]
    assert WITH_DEFAULTS.defaults["tags"] == ["new"]


def test_a_default_that_is_not_of_its_fields_type_is_refused_when_the_state_is_declared() -> None:
    with pytest.raises(StateError, match=r"default of field 'n'.*'x' \(str\) is not of type INT"):
        serializer_for(Types.LIST(Types.ROW_NAMED(["n"], [INT], defaults={"n": "x"})))


def test_a_row_keeps_its_kind() -> None:
    row = Row.of_kind(RowKind.DELETE, "A", 1)
    for new in (named(age=INT), Types.ROW([STRING, INT])):
        assert migrated(PERSON, new, row).get_row_kind() is RowKind.DELETE


def test_none_in_a_map_state_stays_none() -> None:
    for old, new in ((INT, DOUBLE), (PERSON, named(age=INT)), (None, LONG)):
        migrate = resolve(old, new).migrate
        assert migrate is not None
        assert migrate(None) is None


SCALARS: list[tuple[TypeInformation, st.SearchStrategy[Any]]] = [
    (STRING, st.text(max_size=3)),
    (Types.BOOLEAN(), st.booleans()),
    (INT, st.integers(-(2**31), 2**31 - 1)),
    (LONG, st.integers(-(2**63), 2**63 - 1)),
    (DOUBLE, st.floats(allow_nan=False)),
    (Types.FLOAT(), st.floats(allow_nan=False, width=32)),
    (Types.BIG_INT(), st.integers()),
    (Types.SQL_DATE(), st.dates()),
    (Types.INSTANT(), st.just(Instant(1, 2))),
]
Typed = tuple[TypeInformation, st.SearchStrategy[Any]]


def _row_of(parts: list[Typed]) -> Typed:
    names = [f"f{i}" for i in range(len(parts))]
    values = st.tuples(*(values for _, values in parts)).map(lambda v: Row.of_fields(tuple(names), list(v)))
    return Types.ROW_NAMED(names, [part for part, _ in parts]), values


TYPED: st.SearchStrategy[Typed] = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(
        inner.map(lambda p: (Types.LIST(p[0]), st.lists(st.one_of(st.none(), p[1]), max_size=3))),
        inner.map(lambda p: (Types.MAP(STRING, p[0]), st.dictionaries(st.text(max_size=2), p[1], max_size=3))),
        st.lists(inner, max_size=3).map(
            lambda ps: (Types.TUPLE([p for p, _ in ps]), st.tuples(*(values for _, values in ps)))
        ),
        st.lists(inner, min_size=1, max_size=3).map(_row_of),
    ),
    max_leaves=6,
)


@given(TYPED, st.data())
def test_any_typed_value_becomes_untyped_and_typed_again_unchanged(typed: Typed, data: st.DataObject) -> None:
    type_info, values = typed
    value = data.draw(values)
    assert resolve(type_info, None).compatibility is RECONFIGURED
    assert same(migrated(None, type_info, migrated(type_info, None, value)), value)


@given(st.lists(TYPED, min_size=1, max_size=5), st.data())
def test_fields_that_come_move_and_go_leave_the_others_alone(parts: list[Typed], data: st.DataObject) -> None:
    old, values = _row_of(parts)
    assert old.names is not None
    before = data.draw(values)
    kept = data.draw(st.permutations(old.names))[data.draw(st.integers(0, len(parts))) :]
    types = dict(zip(old.names, old.elements, strict=True))
    new = Types.ROW_NAMED([*kept, "added"], [*(types[name] for name in kept), INT], defaults={"added": 7})
    after = migrated(old, new, before)
    assert same([after[name] for name in kept], [before[name] for name in kept])
    assert after["added"] == 7
    # and back: what was dropped is None
    again = migrated(new, old, after)
    assert same([again[name] for name in old.names], [before[name] if name in kept else None for name in old.names])


@given(st.integers(-(2**31), 2**31 - 1))
def test_int_to_long_to_double_step_by_step_is_the_same_as_at_once(value: int) -> None:
    assert same(migrated(LONG, DOUBLE, migrated(INT, LONG, value)), migrated(INT, DOUBLE, value))


# -- untyped values are what they are, or refused


class _Colour(enum.IntEnum):
    RED = 1


class _Name(str):
    __slots__ = ()


class _Count(int):
    pass


@dataclasses.dataclass
class _Point:
    x: int


_Pair = collections.namedtuple("_Pair", "a b")  # noqa: PYI024 - what a job may hold

UNSAYABLE: list[Any] = [
    {1},
    frozenset({1}),
    _Point(1),
    _Pair(1, 2),
    bytearray(b"x"),
    memoryview(b"x"),
    np.int64(1),
    np.float64(1.5),
    np.array([1]),
    _Name("a"),
    _Count(1),
    _Colour.RED,
    collections.OrderedDict(a=1),
    collections.defaultdict(int),
    collections.Counter("a"),
    collections.deque([1]),
    1j,
    range(3),
    dt.timedelta(1),
]


@pytest.mark.parametrize("value", UNSAYABLE, ids=lambda v: type(v).__name__)
def test_what_msgpack_cannot_say_is_refused_outside_and_inside(value: Any) -> None:
    serializer = serializer_for(None)
    inside: list[Any] = [[value], (value,), {"a": value}, Row(value), [{"a": (1, [value])}]]
    try:
        inside.append({value: 1})
    except TypeError:
        pass  # not hashable
    with pytest.raises(StateError) as error:
        serializer.check(value)
    errors = [error.value]
    for holder in inside:
        with pytest.raises(StateError) as error:
            serializer.serialize(holder)
        errors.append(error.value)
    for refusal in errors:
        assert f"({type(value).__qualname__})" in refusal.message
        assert refusal.hint
        assert "PICKLED_BYTE_ARRAY" in refusal.hint


# -- through the backends: written with one type, restored with another


ROWS: list[tuple[TypeInformation | None, TypeInformation | None, Any, Any]] = [
    (INT, LONG, 5, 5),
    (LONG, DOUBLE, 5, 5.0),
    (PERSON, WITH_DEFAULTS, Row("A", 1), Row(name="A", age=1, city="Rome", tags=["new"])),
    (PERSON, named(age=LONG), Row("A", 1), Row(age=1)),
    (ADDRESSES, WIDER_ADDRESSES, [Row("a", 1)], [Row(number=1, street="a", floor=None)]),
    (None, LONG, 5, 5),
    (LONG, None, 5, 5),
    (PERSON, None, Row("A", 1), Row(name="A", age=1)),
    (Types.ROW([INT]), named(n=INT), Row(1), Row(n=1)),
]


def _restored_on_both(harness: BackendHarness) -> list[BackendHarness]:
    files = harness.save()
    return [harness.restored(files, backend_name=name, parallelism=2) for name in state_backend_names()]


@pytest.mark.parametrize(("old", "new", "before", "after"), ROWS)
def test_a_value_is_restored_with_the_type_that_the_job_declares_now(
    backend_name: str, old: TypeInformation | None, new: TypeInformation | None, before: Any, after: Any
) -> None:
    harness = BackendHarness(backend_name)
    for key in range(20):
        harness.state(key, "s", old).update(before)
    harness.flush()
    for restored in _restored_on_both(harness):
        for key in range(20):
            assert same(restored.state(key, "s", new).value(), after)
        # what the migrated state writes is read again as the new type, and no migration is left to do
        restored.state(0, "s", new).update(after)
        restored.flush()
        again = restored.restored(restored.save())
        for key in range(20):
            assert same(again.state(key, "s", new).value(), after)


def test_lists_and_maps_migrate_their_elements(backend_name: str) -> None:
    harness = BackendHarness(backend_name)
    backend = harness.at("k")
    backend.get_partitioned_state(ListStateDescriptor("l", PERSON)).update([Row("A", 1), Row("B", 2)])
    backend.get_partitioned_state(MapStateDescriptor("m", STRING, INT)).put_all({"a": 1, "b": None})
    harness.flush()
    for restored in _restored_on_both(harness):
        backend = restored.at("k")
        elements = backend.get_partitioned_state(ListStateDescriptor("l", named(age=DOUBLE, x=INT)))
        assert same(list(elements.get()), [Row(age=1.0, x=None), Row(age=2.0, x=None)])
        entries = backend.get_partitioned_state(MapStateDescriptor("m", STRING, DOUBLE))
        assert dict(entries.items()) == {"a": 1.0, "b": None}
        assert type(entries.get("a")) is float


def test_a_changed_map_key_is_refused_on_restore(backend_name: str) -> None:
    harness = BackendHarness(backend_name)
    harness.at("k").get_partitioned_state(MapStateDescriptor("m", INT, INT)).put(1, 1)
    harness.flush()
    for restored in _restored_on_both(harness):
        with pytest.raises(RestoreError, match="key never changes"):
            restored.at("k").get_partitioned_state(MapStateDescriptor("m", LONG, INT))


def test_an_incompatible_type_is_refused_with_the_reason(backend_name: str) -> None:
    harness = BackendHarness(backend_name)
    harness.state("k", "s", PERSON).update(Row("A", 1))
    harness.flush()
    for restored in _restored_on_both(harness):
        with pytest.raises(RestoreError, match="field 'age' changed from INT to STRING") as error:
            restored.state("k", "s", named(name=STRING, age=STRING))
        assert "State 's'" in error.value.message
        assert "another name" in str(error.value.hint)


def test_a_value_that_does_not_fit_stops_the_restore_and_names_the_state(backend_name: str) -> None:
    harness = BackendHarness(backend_name)
    harness.state("k", "total", LONG).update(2**53 + 1)
    harness.flush()
    for restored in _restored_on_both(harness):
        with pytest.raises(RestoreError, match="State 'total' was written as LONG and is now DOUBLE.*9007199254740993"):
            restored.state("k", "total", DOUBLE).value()


def test_an_unsayable_value_names_the_state_at_the_first_write_and_at_the_flush(backend_name: str) -> None:
    harness = BackendHarness(backend_name)
    with pytest.raises(StateError, match=r"State 's' can't take this value.*\(set\)"):
        harness.state("k", "s").update({1})
    harness.state("k", "s").update([{1}])
    with pytest.raises(StateError, match=r"state 's' for key 'k'.*\(set\)") as error:
        harness.flush()
    assert "PICKLED_BYTE_ARRAY" in str(error.value.hint)
    harness.rollback()
    elements = harness.at("k").get_partitioned_state(ListStateDescriptor("l"))
    entries = harness.at("k").get_partitioned_state(MapStateDescriptor("m"))
    for write in (lambda: elements.add({1}), lambda: elements.update([_Point(1)]), lambda: entries.put("a", {1})):
        with pytest.raises(StateError, match=r"'(l|m)'") as error:
            write()
        assert "PICKLED_BYTE_ARRAY" in str(error.value.hint)
