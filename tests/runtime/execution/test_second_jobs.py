"""A program's second job, where the engine has put sources in slots into the first one's graph."""

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.type_info import Types
from pystate.core.api.executor import Executor, register_executor
from pystate.datastream import StreamExecutionEnvironment
from pystate.runtime.execution.sources_in_slots import sources_in_slots


class Adapting(Executor):
    """Changes graphs as the real-time engine does, and keeps the names of what each has."""

    def __init__(self):
        self.jobs = []

    def base_configuration(self):
        return Configuration()

    def spark_session(self, configuration):
        raise NotImplementedError

    def execute(self, graph, configuration, job_name):
        uids = graph.assign_uids(auto=True)
        assert sources_in_slots(graph, uids, None) == ["Collection Source"]
        self.jobs.append([step.name for step in graph.transformations()])

    def execute_async(self, graph, configuration, job_name, results=None):
        self.execute(graph, configuration, job_name)


@pytest.fixture
def executor():
    made = Adapting()
    register_executor(made)
    yield made
    register_executor(None)


@pytest.mark.parametrize("uid", [None, "numbers"])
@pytest.mark.parametrize("start", ["execute", "execute_async"])
def test_it_reads_the_same_collection_and_has_none_of_the_first_ones_sinks(executor, start, uid):
    env = StreamExecutionEnvironment.get_execution_environment()
    source = env.from_collection([1, 2, 3], Types.LONG())
    if uid is not None:
        source.uid(uid)
    mapped = source.map(lambda value: value).name("mapped")
    mapped.print().name("first")
    getattr(env, start)("first")
    mapped.print().name("second")
    getattr(env, start)("second")
    source.print().name("third")
    getattr(env, start)("third")

    assert executor.jobs == [
        ["Collection Source", "mapped", "first"],
        ["Collection Source", "mapped", "second"],
        ["Collection Source", "third"],
    ]


def test_a_source_that_was_replaced_is_taken_up_again_by_what_reads_it_later(executor):
    env = StreamExecutionEnvironment.get_execution_environment()
    source = env.from_collection([1, 2, 3], Types.LONG())
    source.print()
    graph = env._graph()
    sources_in_slots(graph, {}, None)
    graph.detach()
    source.print().name("second")

    assert [step.name for step in env._graph().copy().transformations()] == ["Collection Source", "second"]
