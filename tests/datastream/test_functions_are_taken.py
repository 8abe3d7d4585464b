"""Each step has what the program handed to it as it was then, wherever it stands in the plan that is sent."""

import functools

import pytest
from pyspark import cloudpickle

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import JobGraphError
from pystate.common.type_info import Types
from pystate.common.watermark_strategy import WatermarkStrategy
from pystate.connectors.generated.number_sequence import NumberSequenceSource
from pystate.connectors.source import SourceFunction
from pystate.core.api.functions import KeySelector, MapFunction, Partitioner
from pystate.datastream import (
    BroadcastProcessFunction,
    CoMapFunction,
    DataStream,
    MapStateDescriptor,
    ProcessFunction,
    SinkFunction,
    StreamExecutionEnvironment,
)
from pystate.datastream.window import CountTumblingWindowAssigner, Trigger, TriggerResult
from pystate.runtime.driver.program.early_check import check_before_spark
from pystate.runtime.plan.planner import JobPlanner


class Marked:
    """What is handed over; `mark` tells when it was taken."""

    def __init__(self):
        self.mark = "old"


class Mapped(Marked, MapFunction):
    def map(self, value):
        return value


class Coupled(Marked, CoMapFunction):
    def map1(self, value):
        return value

    def map2(self, value):
        return value


class Told(Marked, BroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield value

    def process_broadcast_element(self, value, ctx):
        yield value


class Written(Marked, SinkFunction):
    def invoke(self, value, context):
        pass


class Keyed(Marked, KeySelector):
    def get_key(self, value):
        return value


class Parted(Marked, Partitioner):
    def partition(self, key, num_partitions):
        return 0


class Fired(Marked, Trigger):
    def on_element(self, element, timestamp, window, ctx):
        return TriggerResult.FIRE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        pass


class Timed(ProcessFunction):
    def process_element(self, value, ctx):
        yield value


class Counted(Marked, SourceFunction):
    def run(self, ctx):
        pass

    def cancel(self):
        pass


def strategy():
    made = WatermarkStrategy.for_monotonous_timestamps()
    object.__setattr__(made, "mark", "old")
    return made


def marked_descriptor():
    made = MapStateDescriptor("rules", Types.STRING(), Types.STRING())
    made.mark = "old"
    return made


PLACES = {
    "map": (Mapped, lambda stream, thing: stream.map(thing)),
    "two inputs": (Coupled, lambda stream, thing: stream.connect(stream).map(thing)),
    "broadcast": (Told, lambda stream, thing: stream.connect(stream.broadcast(MapStateDescriptor("r"))).process(thing)),
    "broadcast state": (marked_descriptor, lambda stream, thing: stream.connect(stream.broadcast(thing)).process(Told())),
    "sink": (Written, lambda stream, thing: stream.add_sink(thing)),
    "key": (Keyed, lambda stream, thing: stream.key_by(thing).map(lambda value: value)),
    "partitioner": (Parted, lambda stream, thing: stream.partition_custom(thing, lambda value: 0).map(lambda value: value)),
    "partitioner's key": (
        Keyed,
        lambda stream, thing: stream.partition_custom(lambda key, count: 0, thing).map(lambda value: value),
    ),
    "trigger": (
        Fired,
        lambda stream, thing: (
            stream.key_by(lambda value: value)
            .window(CountTumblingWindowAssigner.of(2))
            .trigger(thing)
            .reduce(lambda one, other: one)
        ),
    ),
    "strategy": (strategy, lambda stream, thing: stream.assign_timestamps_and_watermarks(thing).map(lambda value: value)),
    "source": (Counted, lambda stream, thing: stream.get_execution_environment().add_source(thing).print()),
    "source's strategy": (strategy, lambda stream, thing: _numbers(stream, thing)),
}


def _numbers(stream, thing):
    return stream.get_execution_environment().from_source(NumberSequenceSource(1, 2), thing)


def sent(env):
    """Return what is sent of the program's plan, as bytes."""
    graph = env._graph()
    plan = JobPlanner(graph, graph.assign_uids(auto=True), 1, None).plan([None for _ in graph.spark_sources()])
    return cloudpickle.dumps([[task for task in plan.tasks], [source.chain for source in plan.sources]])


@pytest.mark.parametrize("place", PLACES)
def test_every_place_has_what_was_handed_over_then(place):
    make, build = PLACES[place]
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    thing = make()
    built = build(env.from_collection([1], Types.INT()), thing)
    if isinstance(built, DataStream):
        built.process(Timed()).print()
    object.__setattr__(thing, "mark", "changed behind its back")

    data = sent(env)

    assert b"changed behind its back" not in data
    assert b"old" in data


def test_functions_of_a_loop_have_its_variables_of_their_turn():
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    stream = env.from_collection([1], Types.INT())
    for turn in range(3):
        stream = stream.map(lambda value: value + turn, Types.INT())  # noqa: B023 - as programs do
    stream.print()

    tasks, chains = cloudpickle.loads(sent(env))
    places = [*(task.chain for task in tasks), *filter(None, chains)]
    functions = [operator.function for chain in places for operator in chain.all_operators()]

    assert sorted(function(0) for function in functions) == [0, 1, 2]


def test_a_function_that_refers_to_what_is_defined_after_it_is_refused_before_spark():
    names = {"__name__": "__main__", "env": StreamExecutionEnvironment.get_execution_environment(Configuration())}
    exec(  # noqa: S102 - a program's own module
        "env.from_collection([1]).map(lambda value: helper(value)).print()", names
    )
    names["helper"] = functools.partial(max, 1)

    with pytest.raises(JobGraphError, match="'helper' in <lambda>, and was handed over before") as error:
        check_before_spark(names["env"]._graph(), Configuration())
    assert "define 'helper' before" in error.value.hint
