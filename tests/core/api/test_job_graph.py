"""A copy of a graph is what a job in the background plans while the program goes on."""

from __future__ import annotations

from pystate.common import WatermarkStrategy
from pystate.core.api.stream_graph import StreamGraph
from tests.runtime.plan.programs import keyed, mapped, printed, process, source, united


def shape(graph):
    uids = graph.assign_uids(auto=True)
    return [(step.name, uids[id(step)], [uids[id(parent)] for parent in step.parents]) for step in graph.transformations()]


def program():
    timed = source("timed", watermark_strategy=WatermarkStrategy.for_monotonous_timestamps())
    first, second = mapped(timed, "first"), mapped(timed, "second")
    counted = process(keyed(united(second, first, first), selector=str))
    printed(counted)
    printed(counted)
    return [timed, source("other")], counted


def test_a_copy_has_the_same_steps_and_generated_uids():
    sources, _ = program()
    graph = StreamGraph(sources, ["a notice"])

    copy = graph.copy()

    assert shape(copy) == shape(graph)
    assert len(shape(copy)) == 10
    assert {id(step) for step in copy.transformations()}.isdisjoint(id(step) for step in graph.transformations())
    assert copy.notices == ["a notice"]


def test_what_the_program_builds_and_runs_next_changes_no_copy():
    sources, counted = program()
    graph = StreamGraph(sources)
    before = shape(graph)
    copy = graph.copy()

    graph.detach()
    printed(mapped(counted, "later"))

    assert shape(copy) == before
