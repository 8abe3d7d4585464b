"""What a program may chain, and what it is told when it may not; no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pystate.common import Types
from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import JobExecutionError, JobGraphError, RecordError, RestoreError
from pystate.connectors.generated.collection_offset import collection_offset
from pystate.core.api.executor import for_widest_step, register_executor
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import Transformation
from pystate.core.records.codec import RecordCodec
from pystate.datastream import (
    BroadcastProcessFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    MapStateDescriptor,
    ProcessFunction,
    SinkFunction,
    StreamExecutionEnvironment,
)
from pystate.datastream.connectors.file_system import FileSource, StreamFormat
from pystate.datastream.formats.parquet import ParquetColumnarRowInputFormat
from pystate.runtime.spark.spark_collection_source import check_collection_offset
from tests.datastream.no_executor import NoExecutor

WORDS = Types.STRING()
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


@pytest.fixture
def words(env):
    return env.from_collection(["a", "b"], WORDS)


@pytest.fixture
def numbers(env):
    return env.from_collection([1, 2], Types.LONG())


def function(base, *methods):
    """Return a function object of a class that must be subclassed."""
    return type("Function", (base,), {name: lambda *_: None for name in methods})()


CO_PROCESS = ("process_element1", "process_element2")
BROADCAST = ("process_element", "process_broadcast_element")


def test_streams_of_known_different_types_are_refused_where_they_are_united(words, numbers):
    with pytest.raises(JobGraphError, match="has STRING, .* has LONG"):
        words.union(numbers)
    assert words.union(words, words.filter(len)).get_type() == WORDS


def test_streams_of_two_environments_do_not_meet(words):
    other = StreamExecutionEnvironment.get_execution_environment().from_collection(["x"], WORDS)
    with pytest.raises(JobGraphError, match="same environment"):
        words.union(other)
    with pytest.raises(JobGraphError, match="same environment"):
        words.connect(other)
    with pytest.raises(JobGraphError, match="same environment"):
        words.connect(other.broadcast(RULES))


def test_pickled_keys_are_those_without_a_type(words):
    """PyFlink's default type of keys can be named, as there."""
    for stream in (words.key_by(len, Types.PICKLED_BYTE_ARRAY()), words.key_by(str, Types.PICKLED_BYTE_ARRAY())):
        assert stream.transformation.key_type is None


def test_a_function_must_fit_the_key(words, numbers):
    keyed, broadcast = words.key_by(len), numbers.broadcast(RULES)
    refusals = [
        (lambda: keyed.process(function(ProcessFunction, "process_element")), "takes a KeyedProcessFunction"),
        (lambda: words.process(function(KeyedProcessFunction, "process_element")), "takes a ProcessFunction"),
        (lambda: words.connect(numbers).process(function(KeyedCoProcessFunction, *CO_PROCESS)), "takes a CoProcessFunction"),
        (
            lambda: keyed.connect(numbers.key_by(repr)).process(function(CoProcessFunction, *CO_PROCESS)),
            "takes a KeyedCoProcessFunction",
        ),
        (
            lambda: keyed.connect(broadcast).process(function(BroadcastProcessFunction, *BROADCAST)),
            "takes a KeyedBroadcastProcessFunction",
        ),
        (
            lambda: words.connect(broadcast).process(function(KeyedBroadcastProcessFunction, *BROADCAST)),
            "takes a BroadcastProcessFunction",
        ),
        (lambda: keyed.connect(numbers).map(function(CoMapFunction, "map1", "map2")), "one has a key"),
        (lambda: words.connect(numbers).flat_map(function(CoMapFunction, "map1", "map2")), "takes a CoFlatMapFunction"),
    ]
    for refused, reason in refusals:
        with pytest.raises(JobGraphError, match=reason):
            refused()


def test_a_stream_that_was_to_be_broadcast_is_told_how(words, numbers):
    with pytest.raises(JobGraphError) as refused:
        words.key_by(len).connect(numbers).process(function(KeyedBroadcastProcessFunction, *BROADCAST))
    assert "connect(rules.broadcast(DESCRIPTOR))" in str(refused.value.hint)


def test_what_can_be_called_is_a_function_also_a_class(words):
    """`map(str)`, as in PyFlink; a class of functions lacks its parentheses."""
    numbers = words.map(list).key_by(str).map(bool).filter(bool)
    assert numbers.transformation.function is bool
    with pytest.raises(JobGraphError, match=r"map\(\) takes a function or a MapFunction, not the class MapFunction"):
        words.map(MapFunction)


def test_connected_streams_can_be_keyed_together(words, numbers):
    stream = words.connect(numbers).key_by(len, repr).process(function(KeyedCoProcessFunction, *CO_PROCESS), WORDS)
    assert stream.transformation.keyed
    assert stream.get_type() == WORDS


def test_broadcast_states_have_names_of_their_own(words):
    same_name = MapStateDescriptor("rules", Types.LONG(), Types.LONG())
    with pytest.raises(JobGraphError, match="two states of the name 'rules'"):
        words.broadcast(RULES, same_name)
    with pytest.raises(JobGraphError, match="takes MapStateDescriptors"):
        words.broadcast("rules")


def test_a_broadcast_stream_may_declare_states_that_nobody_asks_for(words, numbers):
    more = MapStateDescriptor("more", Types.STRING(), Types.LONG())
    process = function(BroadcastProcessFunction, *BROADCAST)
    stream = words.connect(numbers.broadcast(RULES, more)).process(process)
    assert stream.transformation.descriptors == (RULES, more)


def test_what_runs_nothing_takes_neither_uid_nor_parallelism(words):
    for virtual in (words.key_by(len), words.union(words), words.rebalance(), words.broadcast()):
        with pytest.raises(JobGraphError, match="runs nothing of its own"):
            virtual.uid("x")
        with pytest.raises(JobGraphError, match="runs nothing of its own"):
            virtual.set_parallelism(2)
        with pytest.raises(JobGraphError, match="runs nothing of its own"):
            virtual.set_max_parallelism(2)


@pytest.mark.parametrize("number", [0, -1, 1.5, "2", True, None])
def test_a_parallelism_is_a_number_from_one_on(words, number):
    with pytest.raises(JobGraphError, match="from 1 on"):
        words.map(repr).set_parallelism(number)
    with pytest.raises(JobGraphError, match="from 1 on"):
        words.print().set_parallelism(number)


@pytest.mark.parametrize("number", [0, 32769, "8"])
def test_a_max_parallelism_has_flinks_bounds(words, number):
    with pytest.raises(JobGraphError, match="from 1 to 32768"):
        words.map(repr).set_max_parallelism(number)


def test_a_session_is_made_for_the_widest_step(env, words):
    words.map(repr).set_parallelism(7)
    words.set_parallelism(9)  # Spark reads sources, slots don't
    wide = for_widest_step(env.get_configuration(), StreamGraph([words.transformation]))
    assert wide.to_dict()["parallelism.default"] == "7"
    assert env.get_parallelism() == 2


def test_a_reduced_stream_has_the_type_of_its_elements(words):
    assert words.key_by(len).reduce(lambda a, b: a + b).get_type() == WORDS


class Collect(SinkFunction):
    def invoke(self, value: Any, context: Any) -> None:
        raise AssertionError


@pytest.mark.parametrize("method", ["shuffle", "rebalance", "rescale", "forward", "broadcast", "global_"])
def test_a_keyed_stream_is_partitioned_already(words, method):
    with pytest.raises(JobGraphError, match=rf"{method}\(\) can't take the place of a key"):
        getattr(words.key_by(len), method)()
    with pytest.raises(JobGraphError, match="takes no name"):
        words.key_by(len).name("lengths")


def test_a_sink_after_a_key_gets_the_elements_of_a_key_in_one_subtask(words):
    for sink in (words.key_by(len).print("mark"), words.key_by(len).add_sink(Collect())):
        values = sink._transformation.parent
        assert (values.keyed, values.output_type, values.function("x")) == (True, WORDS, "x")
        assert values.parent.selector is len


def test_a_union_of_a_keyed_stream_forgets_the_key(words):
    assert words.key_by(len).union(words).transformation.parents == (words.transformation, words.transformation)


@pytest.mark.parametrize("collection", ["text", b"bytes", {"a": 1}, 3])
def test_a_collection_is_a_list_of_elements(env, collection):
    with pytest.raises(JobGraphError, match="takes a list"):
        env.from_collection(collection)


def test_a_collection_may_come_from_a_generator_and_be_empty(env):
    assert env.from_collection(n * n for n in range(3)).transformation.collection == [0, 1, 4]
    assert env.from_collection(iter([1]), Types.LONG()).transformation.collection == [1]
    assert env.from_collection([]).transformation.collection == []


def test_a_collection_that_goes_on_must_begin_with_what_was_read(env):
    def source(*elements):
        return env.from_collection(list(elements)).transformation

    read = collection_offset([("a", {"x", "y"}), {"k": [1, 1.0]}], 2)
    offset = '{"index": %d, "checksum": "%s"}' % (read["index"], read["checksum"])  # noqa: UP031 - braces all over
    check_collection_offset(source(("a", {"y", "x"}), {"k": [1, 1.0]}), offset)
    check_collection_offset(source(("a", {"y", "x"}), {"k": [1, 1.0]}, "more"), offset)
    for other in [("a", {"y"}), ["a", {"x", "y"}], ("b", {"x", "y"})]:
        with pytest.raises(RestoreError, match="The first 2 elements"):
            check_collection_offset(source(other, {"k": [1, 1.0]}), offset)
    with pytest.raises(RestoreError, match="The first 2 elements"):
        check_collection_offset(source(("a", {"y", "x"}), {"k": [1, True]}), offset)
    with pytest.raises(RestoreError, match="2 elements of the collection were read; now it has 1"):
        check_collection_offset(source(("a", {"x", "y"})), offset)
    with pytest.raises(RestoreError, match="another kind of source"):
        check_collection_offset(source("a"), '{"logOffset":3}')


def test_an_element_that_is_not_of_the_declared_type_is_named():
    codec = RecordCodec(Types.LONG(), "Collection Source")
    with pytest.raises(RecordError, match="'two' is no LONG"):
        codec.encode([1, "two"])


def test_a_row_type_becomes_the_columns_that_are_read():
    inner = Types.ROW_NAMED(["a`b"], [Types.LIST(Types.DOUBLE())])
    types = [Types.STRING(), Types.MAP(Types.INT(), inner), Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.SQL_TIMESTAMP()]
    row_type = Types.ROW_NAMED(["word", "parts", "bytes", "at"], types)
    source = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(row_type), "/in/*").build()
    assert source.in_slots(None, "files")[1] == row_type
    assert source.bounded
    assert not source.single_column
    assert FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/in").build().single_column


def test_a_row_type_that_no_file_has_is_refused():
    with pytest.raises(JobGraphError, match="named ROW"):
        ParquetColumnarRowInputFormat(Types.STRING())
    with pytest.raises(JobGraphError, match="BIG_DEC"):
        ParquetColumnarRowInputFormat(Types.ROW_NAMED(["d"], [Types.BIG_DEC()]))


class TakesGraphs(NoExecutor):
    """Runs nothing; notes the steps of each job, which all get a uid."""

    def __init__(self) -> None:
        self.jobs: list[list[Transformation]] = []

    def execute(self, graph: StreamGraph, configuration: Configuration, job_name: str) -> Any:
        self.jobs.append(list(graph.transformations()))
        assert len(graph.assign_uids(auto=True)) == len(self.jobs[-1])
        if job_name == "fails":
            raise JobExecutionError(job_name)


@pytest.fixture
def taken() -> Iterator[TakesGraphs]:
    executor = TakesGraphs()
    register_executor(executor)
    yield executor
    register_executor(None)


def names(steps: list[Transformation]) -> list[str]:
    return [step.name for step in steps]


def test_a_second_execute_runs_only_what_was_built_since_the_first(taken):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection(["a"], WORDS).print().name("first")
    env.execute()
    env.from_collection([1], Types.LONG()).print().name("second")
    env.execute()
    assert names(taken.jobs[0]) == ["Collection Source", "first"]
    assert names(taken.jobs[1]) == ["Collection Source", "second"]


def test_a_stream_of_an_earlier_job_brings_what_it_reads_into_the_next_one(taken):
    env = StreamExecutionEnvironment.get_execution_environment()
    source = env.from_collection(["a"], WORDS)
    upper = source.map(str.upper, WORDS).name("upper")
    upper.print().name("first")
    source.map(str.lower, WORDS).name("lower").print().name("also first")
    other = env.from_collection(["b"], WORDS).filter(len).name("other")
    other.print().name("of the other")
    env.execute()
    upper.union(upper, other).print().name("second")  # one stream twice
    env.execute()
    second = taken.jobs[1]
    assert sorted(names(second)) == ["Collection Source", "Collection Source", "Union", "other", "second", "upper"]
    union = next(step for step in second if step.name == "Union")
    assert names(list(union.parents)) == ["upper", "upper", "other"]


def test_a_job_that_failed_has_taken_its_steps_too(taken):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection(["a"], WORDS).print()
    with pytest.raises(JobExecutionError):
        env.execute("fails")
    with pytest.raises(JobGraphError, match="Nothing was built since the last execute"):
        env.execute()
    assert len(taken.jobs) == 1


def test_steps_that_nothing_reads_yet_wait_for_the_job_that_does(taken):
    env = StreamExecutionEnvironment.get_execution_environment()
    keyed = env.from_collection(["a"], WORDS).key_by(len)
    env.from_collection(["b"], WORDS).print()
    env.execute()
    keyed.map(str.upper, WORDS).print().name("second")
    env.execute()
    assert names(taken.jobs[1]) == ["Collection Source", "KeyBy", "Map", "second"]


def test_a_projection_is_of_declared_tuples_and_their_fields(env):
    pairs = env.from_collection([("a", 1, 2.0)], Types.TUPLE([Types.STRING(), Types.LONG(), Types.DOUBLE()]))
    assert pairs.project(2, 0).get_type() == Types.TUPLE([Types.DOUBLE(), Types.STRING()])
    with pytest.raises(JobGraphError, match="from 0 to 2"):
        pairs.project(3)
    with pytest.raises(JobGraphError, match="one or more fields"):
        pairs.project()
    with pytest.raises(JobGraphError, match="takes a stream of tuples"):
        env.from_collection(["a"], WORDS).project(0)


def test_a_rolling_aggregation_keeps_the_type_and_refuses_a_field_that_isnt_there(env):
    named = Types.ROW_NAMED(["key", "value"], [Types.STRING(), Types.INT()])
    stream = env.from_collection([("a", 1)], named)
    keyed = stream.key_by(lambda row: row[0])
    for made in (keyed.sum("value"), keyed.min(1), keyed.max_by("value"), keyed.min_by(-1), keyed.max()):
        assert made.get_type() == named
    with pytest.raises(JobGraphError, match="'count'"):
        keyed.sum("count")
