"""State that is asked for as what it isn't: the error says what to write."""

import pytest

from pystate.common.errors import StateDeclarationError
from pystate.datastream import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from pystate.testing import KeyedOneInputOperatorTestHarness


class Asks(KeyedProcessFunction):
    def __init__(self, ask):
        self.ask = ask

    def open(self, runtime_context):
        self.state = self.ask(runtime_context)

    def process_element(self, value, ctx):
        yield self.state.put(value, value)


def opened(ask):
    function = Asks(ask)
    harness = KeyedOneInputOperatorTestHarness(function, key_selector=lambda value: value)
    harness.open()
    return harness


@pytest.mark.parametrize(
    ("ask", "hint"),
    [
        (
            lambda context: context.get_map_state(ValueStateDescriptor("seen")),
            "use get_state(...), or declare it with a MapStateDescriptor",
        ),
        (
            lambda context: context.get_state(MapStateDescriptor("seen")),
            "use get_map_state(...), or declare it with a ValueStateDescriptor",
        ),
        (lambda context: context.get_state("seen"), 'write get_state(ValueStateDescriptor("name", ...))'),
        (
            lambda context: [context.get_state(ValueStateDescriptor("a")), context.get_list_state(ListStateDescriptor("a"))],
            "give one of them another name",
        ),
    ],
)
def test_a_state_of_the_wrong_kind_is_refused_with_what_to_write(ask, hint):
    with pytest.raises(StateDeclarationError) as error:
        opened(ask)

    assert error.value.hint == hint


def test_a_method_of_another_kind_of_state_is_answered_with_that_kind():
    harness = opened(lambda context: context.get_state(ValueStateDescriptor("seen")))

    with pytest.raises(AttributeError, match=r"^ValueState has no 'put'; MapState \(get_map_state\) and BroadcastState"):
        harness.process_element("a")


def test_of_what_no_state_has_nothing_is_said():
    harness = opened(lambda context: Misspelt(context.get_state(ValueStateDescriptor("seen"))))

    with pytest.raises(AttributeError, match=r"^ValueState has no 'vlaue'$"):
        harness.process_element("a")


class Misspelt:
    def __init__(self, state):
        self.state = state

    def put(self, key, value):
        return self.state.vlaue()
