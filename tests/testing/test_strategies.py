"""What the strategies generate is what they say, and finds functions that forget."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystate.common import Types
from pystate.common.type_rules import conform_to
from pystate.testing import (
    Elements,
    EpochFailure,
    JobFailure,
    KeyedOneInputOperatorTestHarness,
    ProcessingTime,
    Watermark,
    run_steps,
    strategies,
    without_failures,
)
from tests.testing.test_step_runs import Count, InMemory

BASIC = [
    getattr(Types, name)()
    for name in dir(Types)
    if name.isupper() and not Types.__dict__[name].__func__.__code__.co_argcount
]
COMPOSITE = [
    Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.LONG()]),
    Types.ROW([Types.STRING(), Types.LIST(Types.INT())]),
    Types.TUPLE([Types.BIG_DEC(), Types.MAP(Types.STRING(), Types.INSTANT())]),
    Types.PRIMITIVE_ARRAY(Types.BYTE()),
    Types.PRIMITIVE_ARRAY(Types.DOUBLE()),
    Types.BASIC_ARRAY(Types.STRING()),
    Types.OBJECT_ARRAY(Types.TUPLE([Types.LONG()])),
]


@pytest.mark.parametrize("type_info", BASIC + COMPOSITE, ids=lambda one: one.name)
@given(data=st.data())
def test_elements_are_of_their_type(type_info, data):
    value = data.draw(strategies.elements(type_info))
    conformed = conform_to(type_info)(value)
    assert type(conformed) is type(value)
    assert repr(conformed) == repr(value) or conformed == value


@given(strategies.watermarks())
def test_watermarks_ascend(found):
    assert found == sorted(set(found))


@given(strategies.runs(st.sampled_from("ab"), times=strategies.timestamps()))
def test_times_of_a_run_never_go_back(steps):
    for kind, name in ((Watermark, "timestamp"), (ProcessingTime, "milliseconds")):
        found = [getattr(step, name) for step in steps if isinstance(step, kind)]
        assert found == sorted(found)
    assert all(len(step.values) == len(step.timestamps) for step in steps if isinstance(step, Elements))


@given(strategies.runs(st.sampled_from("ab"), fails=False))
def test_a_run_without_times_has_none_and_nothing_fails(steps):
    assert not [step for step in steps if isinstance(step, (Watermark, ProcessingTime, EpochFailure, JobFailure))]
    assert all(step.timestamps is None for step in steps if isinstance(step, Elements))


def make(function):
    return lambda: KeyedOneInputOperatorTestHarness(function(), lambda word: word, Types.STRING())


@settings(max_examples=20)
@given(strategies.runs(st.sampled_from("abc"), times=strategies.timestamps()))
def test_a_function_that_keeps_its_state_right_has_the_same_results_with_failures(steps):
    assert run_steps(make(Count), steps) == run_steps(make(Count), without_failures(steps))


def test_a_function_that_forgets_is_found():
    @given(strategies.runs(st.sampled_from("ab")))
    def holds(steps):
        assert run_steps(make(InMemory), steps) == run_steps(make(InMemory), without_failures(steps))

    with pytest.raises(AssertionError):
        holds()
