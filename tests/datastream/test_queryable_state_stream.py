"""`as_queryable_state`: a keyed stream kept as state."""

from __future__ import annotations

from typing import Any

import pytest

from pystate.common import Types
from pystate.common.errors import JobGraphError, StateError
from pystate.datastream import ListStateDescriptor, ReducingStateDescriptor, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.data_stream import KeyedStream
from pystate.datastream.queryable_state_stream import QueryableStateFunction
from pystate.testing import KeyedOneInputOperatorTestHarness


def keyed() -> KeyedStream:
    environment = StreamExecutionEnvironment.get_execution_environment()
    pairs = environment.from_collection([("a", 1), ("b", 2)], Types.TUPLE([Types.STRING(), Types.LONG()]))
    return pairs.key_by(lambda pair: pair[0], Types.STRING())


def test_the_last_element_is_kept_where_no_descriptor_says_otherwise() -> None:
    kept = keyed().as_queryable_state("pairs").uid("pairs")
    assert kept.get_queryable_state_name() == "pairs"
    assert kept.get_key_type() == Types.STRING()
    descriptor = kept.get_state_descriptor()
    assert isinstance(descriptor, ValueStateDescriptor)
    assert (descriptor.name, descriptor.type_info) == ("pairs", Types.TUPLE([Types.STRING(), Types.LONG()]))
    assert descriptor.is_queryable()


def test_a_reducing_state_may_be_given() -> None:
    sums = ReducingStateDescriptor("sum", lambda a, b: (a[0], a[1] + b[1]), Types.TUPLE([Types.STRING(), Types.LONG()]))
    kept = keyed().as_queryable_state("sums", sums)
    assert kept.get_state_descriptor() is sums
    assert sums.get_queryable_state_name() == "sums"


@pytest.mark.parametrize("descriptor", [ListStateDescriptor("list", Types.STRING()), "sum"])
def test_what_grows_without_end_or_is_no_state_is_refused(descriptor: object) -> None:
    with pytest.raises(JobGraphError, match="keeps a value or a reducing state"):
        keyed().as_queryable_state("name", descriptor)


def test_a_descriptor_has_one_name() -> None:
    descriptor = ValueStateDescriptor("value", Types.STRING())
    descriptor.set_queryable("a")
    with pytest.raises(StateError, match="queryable as 'a' already"):
        keyed().as_queryable_state("b", descriptor)


@pytest.mark.parametrize(
    ("descriptor", "expected"),
    [
        (ValueStateDescriptor("kept", Types.LONG()), 3),
        (ReducingStateDescriptor("kept", lambda a, b: a + b, Types.LONG()), 6),
    ],
)
def test_elements_take_the_place_of_others_or_are_reduced(descriptor: Any, expected: int) -> None:
    harness = KeyedOneInputOperatorTestHarness(Told(descriptor), lambda value: "k", Types.STRING())
    harness.open()
    harness.process_elements([1, 2, 3])
    assert harness.extract_output()[-1] == expected
    harness.close()


class Told(QueryableStateFunction):
    """Says what the state is by now."""

    def open(self, runtime_context):
        super().open(runtime_context)
        if isinstance(self._descriptor, ReducingStateDescriptor):
            self._say = runtime_context.get_reducing_state(self._descriptor).get
        else:
            self._say = runtime_context.get_state(self._descriptor).value

    def process_element(self, value, ctx):
        super().process_element(value, ctx)
        yield self._say()
