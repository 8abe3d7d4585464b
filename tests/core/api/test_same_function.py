"""Two reducing or aggregating states are one where their functions do the same, with what these carry along."""

import functools
import threading

import pytest
from pyspark import cloudpickle

from pystate.core.api.same_function import same_function
from pystate.datastream import AggregatingStateDescriptor, ReduceFunction, ReducingStateDescriptor


def scaled(factor, *extra):
    return lambda one, other: (one + other) * factor if extra else one * factor + other


def nested(factor):
    inner = scaled(factor)
    return lambda one, other: inner(one, other)


def with_default(factor):
    return lambda one, other, factor=factor: one + other * factor


def with_keyword_default(factor):
    return lambda one, other, *, factor=factor: one + other * factor


class Scale(ReduceFunction):
    def __init__(self, factor):
        self.factor = factor
        self.lock = threading.Lock()

    def reduce(self, value1, value2):
        return value1 + value2 * self.factor

    def plus(self, value1, value2):
        return self.reduce(value1, value2)


class Slotted:
    __slots__ = ("factor",)

    def __init__(self, factor):
        self.factor = factor

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value * self.factor

    def get_result(self, accumulator):
        return accumulator


class Ring:
    def __init__(self, factor):
        self.factor = factor
        self.ring = [self]


class Array:
    """Compares its elements one by one, as an array does."""

    def __init__(self, *elements):
        self.elements = elements

    def __eq__(self, other):
        return Array(*map(int.__eq__, self.elements, other.elements))

    __hash__ = None

    def __bool__(self):
        message = "The truth value of an array is ambiguous."
        raise ValueError(message)


MADE = {
    "a closure": scaled,
    "a function in a closure": nested,
    "a default": with_default,
    "a default of a keyword": with_keyword_default,
    "an object": Scale,
    "an object with slots": Slotted,
    "a method": lambda factor: Scale(factor).plus,
    "a partial": lambda factor: functools.partial(max, factor),
    "a list": lambda factor: scaled([1, (factor,)]),
    "a map": lambda factor: scaled({"factor": Scale(factor)}),
    "an object that holds itself": lambda factor: scaled(Ring(factor)),
    "an array": lambda factor: scaled(Array(factor, 1)),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_what_a_function_carries_along_decides(make):
    assert same_function(make(2), make(2))
    assert not same_function(make(2), make(3))


def test_the_types_of_what_is_carried_along_differ_too():
    assert not same_function(scaled(1), scaled(True))
    assert not same_function(scaled(1), scaled(1.0))
    assert same_function(scaled(float("nan")), scaled(float("nan")))


def test_a_function_out_of_another_pickle_is_the_same():
    function = scaled({"factor": 2})

    assert same_function(function, cloudpickle.loads(cloudpickle.dumps(function)))
    assert not same_function(function, cloudpickle.loads(cloudpickle.dumps(scaled({"factor": 3}))))


def test_descriptors_are_compared_by_it():
    assert ReducingStateDescriptor("sum", scaled(2)) == ReducingStateDescriptor("sum", scaled(2))
    assert ReducingStateDescriptor("sum", scaled(2)) != ReducingStateDescriptor("sum", scaled(3))
    assert AggregatingStateDescriptor("sum", Slotted(2)) == AggregatingStateDescriptor("sum", Slotted(2))
    assert AggregatingStateDescriptor("sum", Slotted(2)) != AggregatingStateDescriptor("sum", Slotted(3))


def in_the_body():
    class Sum(ReduceFunction):
        def reduce(self, value1, value2):
            return value1 + value2

    return Sum()


PLUS = lambda a, b: a + b  # noqa: E731


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (PLUS, lambda a, b: a + b, True),  # on another line
        (PLUS, lambda x, y: x + y, True),
        (PLUS, lambda a, b: b + a, None),
        (PLUS, lambda a, b: a * b, None),
        (lambda a: 1, lambda a: True, None),
        (lambda a, *, b: b, lambda a, *, c: c, None),
        (in_the_body(), in_the_body(), True),
        (max, min, False),
        (Scale(1), Slotted(1), False),
    ],
)
def test_code_is_compared_without_its_place_and_other_code_may_do_the_same(one, other, same):
    assert same_function(one, other) is same
