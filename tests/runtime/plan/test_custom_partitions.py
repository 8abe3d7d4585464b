"""Where a partitioner of the program sends elements, and when it is opened; no Spark."""

from __future__ import annotations

import pytest

from pystate.common import Types
from pystate.common.errors import JobGraphError, RecordError
from pystate.datastream import KeySelector, Partitioner
from pystate.runtime.plan.custom_partitions import CustomPartitions
from pystate.runtime.plan.plan_nodes import plan_nodes
from pystate.runtime.plan.task_output import Routing
from pystate.runtime.slot.chain.compiled_chain import CompiledChain
from pystate.runtime.slot.output_buffer import OutputBuffer
from tests.datastream.conftest import env  # noqa: F401 - a fixture
from tests.datastream.test_streams import numbers  # noqa: F401 - a fixture
from tests.runtime.plan.programs import planned


class ByRest(Partitioner):
    calls: list = []

    def open(self, runtime_context):
        self.calls.append("open")

    def close(self):
        self.calls.append("close")

    def partition(self, key, num_partitions):
        return key % num_partitions


class Half(KeySelector):
    def get_key(self, value):
        return value // 2


def planned_stream(stream):
    root = stream.transformation
    while root.parents:
        root = root.parent
    return planned([root], [Types.LONG()], 2)


def test_the_edge_carries_the_number_of_the_subtask(numbers):  # noqa: F811
    stream = numbers.partition_custom(ByRest(), Half()).map(lambda number: number).set_parallelism(3)
    stream.print()
    plan = planned_stream(stream)
    (edge,) = plan.source_edges()
    assert (edge.routing, edge.selector(10)) == (Routing.CUSTOM, 2)
    assert edge.schema().names == ["value", "__pystate_partition"]
    *_, inputs = [node["inputs"] for node in plan_nodes(plan) if "inputs" in node]  # the first task is listed last
    assert inputs[0]["ship_strategy"] == "CUSTOM"


def test_functions_are_opened_before_the_first_element_and_closed(numbers):  # noqa: F811
    stream = numbers.partition_custom(ByRest(), lambda number: number).map(lambda number: number)
    stream.print()
    plan = planned_stream(stream)
    chain, sent = plan.sources[0].chain, []
    buffers = {edge.tag: OutputBuffer(edge, lambda _, rows: sent.append(rows)) for edge in chain.all_outputs()}
    ByRest.calls = []
    compiled = CompiledChain(chain, buffers, lambda spec: None)
    compiled.open()
    assert ByRest.calls == ["open"]
    for number in range(4):
        compiled.emit(number)
    next(iter(buffers.values())).flush()
    compiled.close()
    assert ByRest.calls == ["open", "close"]
    assert [rows.to_pydict()["__pystate_partition"] for rows in sent] == [[0, 1, 0, 1]]


@pytest.mark.parametrize("wrong", [-1, 2, None, 0.5])
def test_a_subtask_that_doesnt_exist_is_an_error_that_names_element_and_range(wrong):
    partitions = CustomPartitions(lambda key, count: wrong, lambda element: element, 2)
    with pytest.raises(RecordError, match=rf"returned {wrong} for 'x'") as raised:
        partitions("x")
    assert "0 to 1" in raised.value.hint


def test_the_last_partitioning_counts(numbers):  # noqa: F811
    stream = numbers.partition_custom(ByRest(), Half()).rebalance().map(lambda number: number)
    stream.print()
    (edge,) = planned_stream(stream).source_edges()
    assert (edge.routing, edge.selector) == (Routing.REBALANCE, None)


def test_what_is_no_partitioner_or_has_a_key_is_refused(numbers):  # noqa: F811
    with pytest.raises(JobGraphError, match="a Partitioner"):
        numbers.partition_custom(3, Half())
    with pytest.raises(JobGraphError, match="a KeySelector"):
        numbers.partition_custom(ByRest(), "key")
    with pytest.raises(JobGraphError, match="can't follow key_by"):
        numbers.key_by(lambda number: number).partition_custom(ByRest(), Half())
