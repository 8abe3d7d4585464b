"""Functions that can't be sent to the slots are refused where the program runs, by the field that is in the way."""

import functools
import socket
import sys
import threading

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from pystate.common.errors import JobGraphError
from pystate.common.user_code.unpicklable import find_unpicklable
from pystate.datastream import (
    BroadcastProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StreamExecutionEnvironment,
)


def line_of(text: str) -> str:
    """Return the place of a line of this file, as errors name it."""
    with open(__file__) as file:
        number = next(number for number, line in enumerate(file, 1) if line.rstrip().endswith(text))
    return f"{__file__}, line {number}"


class Client:
    def __init__(self):
        self.lock = threading.Lock()  # the lock


class Count(KeyedProcessFunction):
    def __init__(self):
        self.name = "count"
        self.client = Client()

    def process_element(self, value, ctx):
        yield value


class Rules(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield value

    def process_broadcast_element(self, value, ctx):
        yield value


class Slotted:
    __slots__ = ("generator",)

    def __init__(self):
        self.generator = (number for number in range(3))  # the generator

    def reduce(self, one, other):
        return one


class Careful:
    """Leaves its lock out of its pickle, and has something else in it."""

    def __init__(self, client):
        self.lock = threading.Lock()
        self.client = client

    def __getstate__(self):
        return {"client": self.client}


class Refuses:
    def __reduce__(self):
        message = "stays here"
        raise ValueError(message)


def in_a_closure():
    clients = {"a": [Client()]}
    return lambda value: clients["a"]


def with_a_socket():
    connection = socket.socket()  # the socket
    connection.close()
    return lambda value: connection


def with_a_default(value, file=sys.__stdin__.buffer):
    return value, file


@pytest.mark.parametrize(
    ("function", "path", "line"),
    [
        (Count, "Count.client.lock", "# the lock"),
        (lambda: Count().process_element, "Count.client.lock", "# the lock"),
        (Slotted, "Slotted.generator", "# the generator"),
        (lambda: ReducingStateDescriptor("sum", Slotted()), "ReducingStateDescriptor.reduce_function.generator", None),
        (in_a_closure, "<lambda> -> clients['a'][0].lock", "# the lock"),
        (with_a_socket, "<lambda> -> connection", "# the socket"),
        (lambda: Careful(Client()), "Careful.client.lock", "# the lock"),
        (lambda: functools.partial(max, Client()), "max(0).lock", "# the lock"),
        (lambda: functools.partial(max, key=Client()), "max(key=).lock", "# the lock"),
        (Refuses, "Refuses", None),
    ],
)
def test_the_path_leads_to_what_can_not_be_pickled_and_the_line_is_the_one_that_made_it(function, path, line):
    found = find_unpicklable(function())

    assert found.path == path
    if line is not None:
        assert found.place == line_of(line)


@pytest.mark.parametrize(
    "function",
    [len, Careful(None), Client, lambda value: value, with_a_default, {"a": [1, (2,)]}, functools.partial(max, 1)],
)
def test_what_can_be_pickled_is_left_alone(function):
    assert find_unpicklable(function) is None


def test_a_ring_of_objects_ends_the_search():
    ring = [threading.Lock()]
    ring.insert(0, ring)

    assert find_unpicklable(ring).path == "list[1]"


def refusal(build):
    with pytest.raises(JobGraphError) as error:
        build(StreamExecutionEnvironment().from_collection([1, 2]))
    return error.value


def test_step_field_and_line_are_named_at_once():
    error = refusal(lambda stream: stream.key_by(lambda value: value).process(Count()))

    assert error.message == (
        "The function of 'KeyedProcess' can't be sent to where it runs: Count.client.lock is of type _thread.lock, which "
        "can't be pickled (cannot pickle '_thread.lock' object)."
    )
    assert error.where == f"KeyedProcess, {line_of('# the lock')}"
    assert "open()" in error.hint


class WithSpark(Count):
    def __init__(self):
        self.spark = SparkSession.__new__(SparkSession)  # the session
        self.spark._sc = SparkContext.__new__(SparkContext)


def test_of_sparks_own_objects_the_author_sees_the_field_and_that_they_stay_in_the_driver():
    error = refusal(lambda stream: stream.key_by(lambda value: value).process(WithSpark()))

    assert "WithSpark.spark is of type pyspark.sql" in error.message
    assert error.where.endswith(line_of("# the session"))
    assert error.hint.startswith("Spark's session and DataFrames are the driver's alone")


@pytest.mark.parametrize(
    "build",
    [
        lambda stream: stream.map(in_a_closure()),
        lambda stream: stream.key_by(with_a_socket()).process(Count.__new__(Count)),
        lambda stream: stream.partition_custom(in_a_closure(), lambda value: value).map(lambda value: value),
        lambda stream: stream.partition_custom(lambda key, count: key, with_a_socket()).map(lambda value: value),
        lambda stream: stream.connect(stream.broadcast(_with_a_lock(MapStateDescriptor("rules")))).process(Rules()),
    ],
)
def test_every_function_and_descriptor_that_travels_is_looked_at(build):
    assert "can't be pickled" in refusal(build).message


def _with_a_lock(descriptor):
    descriptor.lock = threading.Lock()
    return descriptor


def test_where_no_line_makes_it_the_one_that_adds_the_step_is_named():
    lock = [threading.Lock()]
    error = refusal(lambda stream: stream.map(functools.partial(max, lock)))  # the step

    assert error.where.endswith(line_of("# the step"))


def test_a_function_that_stays_in_the_driver_may_hold_anything():
    lock = threading.Lock()

    StreamExecutionEnvironment().from_collection([1]).for_each_batch(lambda frame, epoch: lock.locked())
