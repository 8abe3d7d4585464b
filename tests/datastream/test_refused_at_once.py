"""What a program says wrongly is refused at the line that says it, with what would be right."""

import pytest

from pystate.common import Row, Types
from pystate.common.errors import JobGraphError
from pystate.core.api.executor import register_executor
from pystate.datastream import KeyedProcessFunction, ProcessFunction, StreamExecutionEnvironment
from tests.datastream.no_executor import NoExecutor

ORDERS = Types.ROW_NAMED(["order", "customer", "price"], [Types.LONG(), Types.STRING(), Types.DOUBLE()])


class Keyed(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value


class Plain(ProcessFunction):
    def process_element(self, value, ctx):
        yield value


class Shop:
    pass


@pytest.fixture
def orders():
    register_executor(NoExecutor())
    yield StreamExecutionEnvironment.get_execution_environment().from_collection([Row(1, "a", 1.5)], ORDERS)
    register_executor(None)


@pytest.mark.parametrize(
    ("build", "message", "hint"),
    [
        (lambda s: s.key_by("custmer"), "the rows have order, customer, price", "did you mean 'customer'?"),
        (lambda s: s.key_by("nothing"), "the rows have", "name one of these columns"),
        (lambda s: s.key_by("order", Types.STRING()), "the column is LONG, key_type says STRING", "leave key_type out"),
        (lambda s: s.key_by("order").sum("prize"), "sum('prize')", "did you mean 'price'?"),
        (lambda s: s.key_by("order").min(7), "min(7)", "name a field"),
        (
            lambda s: s.process(Keyed()),
            "takes a ProcessFunction, not Keyed, which is a KeyedProcessFunction",
            "write stream.key_by(...).process(...)",
        ),
        (
            lambda s: s.key_by("order").process(Plain()),
            "takes a KeyedProcessFunction, not Plain, which is a ProcessFunction",
            "write stream.process(...)",
        ),
        (lambda s: s.process(Plain), "not the class Plain", "give an object of it: Plain(...)"),
        (lambda s: s.process(lambda value, ctx: [value]), "not a lambda", "write a class that extends ProcessFunction"),
        (lambda s: s.process(Shop()), "not a Shop.", None),
        (lambda s: s.map(Plain()), "not Plain, which is a ProcessFunction", "write stream.process(...)"),
        (lambda s: s.add_sink(Plain()), "takes a SinkFunction, not Plain", "write stream.process(...)"),
        (
            lambda s: s.get_execution_environment().from_collection([1, None], Types.INT()),
            "element 1 is None, the type is INT",
            "leave it out",
        ),
    ],
)
def test_it_is_refused_with_what_is_right(orders, build, message, hint):
    with pytest.raises(JobGraphError) as error:
        build(orders)

    assert message in error.value.message
    assert error.value.hint == hint if hint is None else hint in error.value.hint


def test_untyped_elements_may_be_none(orders):
    for type_info in (None, Types.PICKLED_BYTE_ARRAY()):
        orders.get_execution_environment().from_collection([1, None], type_info)


def test_a_key_of_another_line_is_named_with_the_line(orders):
    with pytest.raises(JobGraphError) as error:
        orders.key_by("custmer")

    assert error.value.where.startswith(f"{__file__}, line ")
