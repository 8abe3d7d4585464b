"""What is said of a row that a state can't take: the field, and what it has in its place."""

import pytest

from pystate.common import Row, Types
from pystate.common.errors import StateError
from pystate.core.state.values.serializers import serializer_for

ORDER = Types.ROW_NAMED(["id", "amount"], [Types.STRING(), Types.LONG()])


@pytest.mark.parametrize(
    ("row", "message", "hint"),
    [
        (Row(id="a", amout=1), "is not of type ROW", "give it the field 'amount'; it has 'id', 'amout'"),
        (Row(id="a"), "is not of type ROW", "give it 2 fields; it has 1"),
        (Row(id="a", amount="12,50"), "Field 'amount': '12,50' (str) is not of type LONG.", None),
        (Row("a", None), None, None),
    ],
)
def test_a_wrong_row_is_told_by_its_field(row, message, hint):
    serializer = serializer_for(ORDER)
    if message is None:
        assert serializer.deserialize(serializer.serialize(row)).amount is None
        return
    with pytest.raises(StateError) as caught:
        serializer.serialize(row)
    assert message in caught.value.message
    assert caught.value.hint == hint


def test_a_named_row_needs_a_type_with_names():
    with pytest.raises(StateError) as caught:
        serializer_for(Types.ROW([Types.STRING()])).serialize(Row(id="a"))
    assert caught.value.hint == "declare the row's field names with Types.ROW_NAMED"
