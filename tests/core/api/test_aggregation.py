import pytest

from pystate.common import Row, RowKind, Types
from pystate.common.errors import JobGraphError, RecordError
from pystate.core.api.aggregation import AccumulateType, FieldAggregation, Projection, check_field

PAIR = Types.ROW_NAMED(["key", "value"], [Types.STRING(), Types.INT()])


def run(kind, field, values):
    """Return what a rolling reduce emits."""
    function, emitted = FieldAggregation(kind, field), []
    for value in values:
        emitted.append(function.reduce(emitted[-1], value) if emitted else value)
    return emitted


@pytest.mark.parametrize(
    ("kind", "last"),
    [
        (AccumulateType.SUM, ("a", 6, "first")),
        (AccumulateType.MIN, ("a", 1, "first")),
        (AccumulateType.MAX, ("a", 3, "first")),
        (AccumulateType.MIN_BY, ("a", 1, "low")),
        (AccumulateType.MAX_BY, ("a", 3, "high")),
    ],
)
@pytest.mark.parametrize("of", [tuple, list, lambda values: Row(*values)])
def test_the_other_fields_are_the_first_elements_but_after_a_by(kind, last, of):
    elements = [("a", 2, "first"), ("a", 3, "high"), ("a", 1, "low")]
    assert run(kind, 1, map(of, elements))[-1] == of(last)


def test_of_equal_elements_the_first_one_stays():
    assert run(AccumulateType.MIN_BY, 1, [("a", 1), ("b", 1)])[-1] == ("a", 1)
    assert run(AccumulateType.MAX_BY, 1, [("a", 1), ("b", 1)])[-1] == ("a", 1)


def test_elements_without_fields_are_their_own_field():
    assert run(AccumulateType.SUM, 0, [1, 2, 3]) == [1, 3, 6]
    assert run(AccumulateType.MAX_BY, 0, [1, 3, 2]) == [1, 3, 3]
    with pytest.raises(RecordError, match="only position 0"):
        run(AccumulateType.SUM, 1, [1, 2])


def test_a_row_keeps_names_and_kind_and_is_a_new_object():
    first = Row.of_kind(RowKind.UPDATE_AFTER, key="a", value=1)
    merged = FieldAggregation(AccumulateType.SUM, "value").reduce(first, Row(key="a", value=2))
    assert merged == Row.of_kind(RowKind.UPDATE_AFTER, key="a", value=3)
    assert first["value"] == 1, "what was emitted before is not changed behind its reader's back"


def test_fields_that_cant_be_added_or_found_are_named():
    with pytest.raises(RecordError, match=r"sum\(1\) can't merge \('a', 1\) and \('a', None\)"):
        run(AccumulateType.SUM, 1, [("a", 1), ("a", None)])
    with pytest.raises(RecordError, match=r"min\(7\)"):
        run(AccumulateType.MIN, 7, [("a", 1), ("a", 2)])
    with pytest.raises(RecordError, match=r"max\('value'\)"):
        run(AccumulateType.MAX, "value", [("a", 1), ("a", 2)])


@pytest.mark.parametrize(
    ("field", "elements"),
    [
        (1.5, None),
        (True, None),
        (2, PAIR),
        ("count", PAIR),
        ("f0", Types.TUPLE([Types.INT()])),
        (1, Types.TUPLE([Types.INT()])),
        (1, Types.LONG()),
        ("value", Types.LIST(Types.INT())),
    ],
)
def test_a_field_that_no_element_has_is_refused_before_the_job_runs(field, elements):
    with pytest.raises(JobGraphError, match=r"^sum\("):
        check_field(field, elements, "sum")


@pytest.mark.parametrize(
    ("field", "elements"),
    [
        (0, None),
        ("any", Types.PICKLED_BYTE_ARRAY()),
        (1, PAIR),
        ("value", PAIR),
        (0, Types.LONG()),
        (5, Types.LIST(Types.INT())),
    ],
)
def test_a_field_that_elements_may_have_is_taken(field, elements):
    check_field(field, elements, "sum")


def test_a_projection_keeps_the_order_it_is_given():
    assert Projection.of((2, 0, 2), Types.TUPLE([Types.STRING()] * 3)).map(("a", "b", "c")) == ("c", "a", "c")
