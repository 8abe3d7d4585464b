"""What may be set of a step, and what is said of settings that have no effect here; no Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pystate.common.errors import JobGraphError
from pystate.core.api.json_plan import json_plan
from pystate.core.api.stream_graph import StreamGraph
from pystate.datastream import DataStream


@pytest.fixture
def numbers(env):
    return env.from_collection([1, 2])


def graph_of(stream: DataStream) -> StreamGraph:
    step = stream.transformation
    while step.parents:
        step = step.parent
    return StreamGraph([step])


WITHOUT_EFFECT: list[Callable[[Any], Any]] = [
    lambda step: step.start_new_chain(),
    lambda step: step.disable_chaining(),
    lambda step: step.slot_sharing_group("group"),
    lambda step: step.set_buffer_timeout(5),
]


@pytest.mark.parametrize("setting", WITHOUT_EFFECT)
def test_a_setting_without_effect_is_taken_with_one_notice(numbers, setting):
    stream = setting(setting(numbers.map(repr)))
    assert isinstance(stream, DataStream)
    assert isinstance(setting(stream.print()), type(stream.print()))
    (notice,) = graph_of(numbers).notices
    assert "has no effect: " in notice


@pytest.mark.parametrize("setting", [*WITHOUT_EFFECT, lambda step: step.force_non_parallel(), lambda step: step.uid("u")])
def test_what_runs_nothing_takes_no_setting(numbers, setting):
    with pytest.raises(JobGraphError, match="runs nothing of its own"):
        setting(numbers.key_by(repr))


def test_a_step_without_a_setting_has_no_notice(numbers):
    numbers.map(repr).name("texts").uid("texts").print()
    assert graph_of(numbers).notices == []


def test_a_step_forced_to_one_subtask_stays_there(numbers):
    step = numbers.map(repr).force_non_parallel()
    assert (step.transformation.parallelism, step.transformation.max_parallelism) == (1, 1)
    assert step.set_parallelism(1) is step
    with pytest.raises(JobGraphError, match=r"set_parallelism\(2\): force_non_parallel\(\)"):
        step.set_parallelism(2)
    with pytest.raises(JobGraphError, match=r"set_max_parallelism\(128\): force_non_parallel\(\)"):
        step.set_max_parallelism(128)


def test_a_uid_hash_is_refused_with_the_way_out(numbers):
    with pytest.raises(JobGraphError) as refused:
        numbers.map(repr).set_uid_hash("0" * 32)
    assert refused.value.hint == 'give the step a uid: .uid("...")'


def test_a_description_is_shown_in_the_plan(numbers):
    numbers.map(repr).set_description("numbers as <text>").print()
    nodes = json_plan(graph_of(numbers), 1)["nodes"]
    assert [node["contents"] for node in nodes] == ["Source: Collection Source", "numbers as <text>", "Sink: Print"]
    assert [node["type"] for node in nodes] == ["Source: Collection Source", "Map", "Sink: Print"]
