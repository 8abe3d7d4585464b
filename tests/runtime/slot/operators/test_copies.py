"""An element with several owners is copied for all but one of them, and one that has one owner is never copied."""

import pytest

from pystate.common import Row, Types
from pystate.common.errors import RecordError
from pystate.connectors.operators.function_feed import WaitingElements
from pystate.core.api.executor import register_executor
from pystate.core.records.element_copy import copied
from pystate.datastream import (
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    ReduceFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from pystate.runtime.plan.chain import Copies
from pystate.runtime.plan.planner import JobPlanner
from tests.fidelity.in_process import InProcessExecutor

ANY = Types.PICKLED_BYTE_ARRAY()
TAG = OutputTag("side", ANY)


class Own:
    def __init__(self, parts):
        self.parts = parts

    def __eq__(self, other):
        return type(other) is Own and self.parts == other.parts

    __hash__ = None


class Locked:
    def __deepcopy__(self, memo):
        message = "stays one"
        raise TypeError(message)


def spoil(value):
    value.append("spoiled")
    return value


class Keep(KeyedProcessFunction):
    def open(self, context):
        self.kept = context.get_state(ValueStateDescriptor("kept", ANY))

    def process_element(self, value, ctx):
        old = self.kept.value()
        if old is not None:
            yield ["from state", *old]
        self.kept.update(value)
        yield value


class Append(ReduceFunction):
    def reduce(self, value1, value2):
        return [*value1, *value2]


class SideFirst(ProcessFunction):
    def process_element(self, value, ctx):
        yield TAG, value
        yield value


class SideLast(ProcessFunction):
    def process_element(self, value, ctx):
        yield value
        yield TAG, value


@pytest.fixture
def env():
    register_executor(InProcessExecutor())
    yield StreamExecutionEnvironment.get_execution_environment()
    register_executor(None)


def results(stream, into):
    stream.map(repr, Types.STRING()).for_each_batch(lambda frame, epoch: into.extend(row[0] for row in frame.collect()))


def elements(env):
    return env.from_collection([["a", 1], ["a", 2]])


WHOLE = ["['a', 1]", "['a', 2]"]
SPOILED = ["['a', 1, 'spoiled']", "['a', 2, 'spoiled']"]


@pytest.mark.parametrize("spoiler_first", [True, False])
def test_what_one_consumer_changes_the_other_does_not_see(env, spoiler_first):
    stream, changed, other = elements(env), [], []
    steps = [(stream.map(spoil), changed), (stream.filter(lambda value: True), other)]
    for step, into in steps if spoiler_first else reversed(steps):
        results(step, into)
    env.execute()

    assert (changed, other) == (SPOILED, WHOLE)


def test_keyed_state_does_not_see_what_comes_after_it(env):
    changed = []
    results(elements(env).key_by(lambda value: value[0], Types.STRING()).process(Keep()).map(spoil), changed)
    env.execute()

    assert changed == [SPOILED[0], "['from state', 'a', 1, 'spoiled']", SPOILED[1]]


def test_what_a_reduce_keeps_is_not_what_it_hands_on(env):
    changed = []
    results(elements(env).key_by(lambda value: value[0], Types.STRING()).reduce(Append()).map(spoil), changed)
    env.execute()

    assert changed == [SPOILED[0], "['a', 1, 'a', 2, 'spoiled']"]


@pytest.mark.parametrize("function", [SideFirst, SideLast])
@pytest.mark.parametrize("spoils_side", [True, False])
def test_main_and_side_output_do_not_share_an_element(env, function, spoils_side):
    stream, main, side = elements(env).process(function()), [], []
    of_tag = stream.get_side_output(TAG)
    results(stream if spoils_side else stream.map(spoil), main)
    results(of_tag.map(spoil) if spoils_side else of_tag, side)
    env.execute()

    assert (main, side) == ((WHOLE, SPOILED) if spoils_side else (SPOILED, WHOLE))


def test_with_object_reuse_nothing_is_copied(env):
    env.get_config().enable_object_reuse()
    stream, changed, other = elements(env), [], []
    results(stream.map(spoil), changed)
    results(stream.map(lambda value: value), other)
    env.execute()

    assert (changed, other) == (SPOILED, SPOILED)


@pytest.mark.parametrize(
    ("type_info", "build", "copies"),
    [
        (ANY, lambda stream: stream.map(repr).map(len).print(), []),
        (Types.LONG(), lambda stream: [stream.map(repr).print() for _ in range(2)], []),
        (ANY, lambda stream: [stream.map(repr).print() for _ in range(2)], [Copies.BUT_LAST]),
        (ANY, lambda stream: stream.key_by(repr).process(Keep(), ANY).map(repr).print(), [Copies.ALL]),
        (ANY, lambda stream: stream.key_by(repr).process(Keep(), Types.LONG()).map(repr).print(), []),
        (ANY, lambda stream: stream.key_by(repr).process(Keep(), ANY).print(), []),
    ],
)
def test_copies_are_made_where_there_are_two_owners_of_what_can_be_changed(env, type_info, build, copies):
    build(env.from_collection([1], type_info))
    graph = env._graph()
    plan = JobPlanner(graph, graph.assign_uids(auto=True), 1).plan([type_info])
    chains = [*(source.chain for source in plan.sources if source.chain), *(task.chain for task in plan.tasks)]

    assert [place.copies for chain in chains for place in chain.places() if place.copies is not Copies.NONE] == copies


@pytest.mark.parametrize(
    "element",
    [
        [1, [2, {"a": [3]}]],
        (1, [2]),
        {"a": {"b": [1]}},
        Row(1, [2]),
        Row(a=1, b=Row(c=[2])),
        bytearray(b"a"),
        {1, 2},
        Own([1, 2]),
        [Own([[1]])],
    ],
)
def test_a_copy_is_equal_and_shares_nothing_that_changes(element):
    copy = copied(element)

    assert copy == element
    assert type(copy) is type(element)
    assert copy is not element


@pytest.mark.parametrize("element", [None, True, 1, "a", b"a", 1.5, (1, ("a", None))])
def test_what_can_not_be_changed_is_its_own_copy(element):
    assert copied(element) is element


def test_what_holds_itself_is_copied():
    ring = [1]
    ring.append(ring)

    assert copied(ring)[1][0] == 1


def test_what_can_not_be_copied_is_refused_with_what_to_do():
    with pytest.raises(RecordError, match="Locked has two owners") as error:
        copied([Locked()])
    assert "pipeline.object-reuse" in error.value.hint


def test_what_a_source_function_hands_on_it_may_change_afterwards():
    elements, row = WaitingElements(), {"n": 0}
    for number in range(3):
        row["n"] = number
        elements.collect(row)

    assert [element["n"] for element, _ in elements.take(10)] == [0, 1, 2]
