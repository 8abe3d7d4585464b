"""The examples' functions, with known answers."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from pystate.common import Row, Types
from pystate.testing import (
    BroadcastOperatorTestHarness,
    OneInputOperatorTestHarness,
    OperatorTestHarness,
    ProcessFunctionTestHarnesses,
)

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("parallelism", [1, 2, 3, 4])
def test_a_buffering_sink_loses_and_doubles_nothing_over_a_restart_at_another_parallelism(parallelism):
    sink = example("buffering_sink").BufferingSink
    sent, snapshots = [], []
    for index in range(2):
        with OneInputOperatorTestHarness(sink(sent.append), parallelism=2, subtask_index=index) as harness:
            harness.open()
            harness.process_elements(range(index * 100, index * 100 + 17))
            snapshots.append(harness.snapshot(1))
    assert sent == [list(range(10)), list(range(100, 110))]
    for index, share in enumerate(OperatorTestHarness.repartition(snapshots, 2, parallelism, 128)):
        with OneInputOperatorTestHarness(
            sink(sent.append, threshold=4), parallelism=parallelism, subtask_index=index
        ) as harness:
            harness.initialize_state(share)
            harness.open()
            filler = range(1000 + 10 * index, 1000 + 10 * index + 5)
            harness.process_elements(filler)
            rest = harness.snapshot(2)
            (kept,) = rest.written.operator_state
            assert kept.states["buffered-elements"].count < 4
            sent.append(buffered(sink, rest, parallelism, index))
    before = [*range(17), *range(100, 117)]
    fillers = [1000 + 10 * index + i for index in range(parallelism) for i in range(5)]
    assert sorted(value for values in sent for value in values) == sorted(before + fillers)


def buffered(sink, snapshot, parallelism, index):
    """Return what a restored sink has in its buffer."""
    function = sink(lambda values: None)
    with OneInputOperatorTestHarness(function, parallelism=parallelism, subtask_index=index) as harness:
        harness.initialize_state(snapshot)
        harness.open()
        return list(function._buffered)


def test_an_alert_is_emitted_when_a_users_last_two_actions_are_the_pattern_in_force():
    module = example("alert_rules")
    harness = ProcessFunctionTestHarnesses.for_keyed_broadcast_process_function(
        module.PatternEvaluator(),
        lambda action: action.user,
        Types.LONG(),
        module.PATTERNS,
        input_type=module.ACTION,
        broadcast_type=module.PATTERN,
    )
    actions = [(1001, "login"), (1003, "pay"), (1002, "login"), (1001, "logout"), (1003, "logout"), (1002, "logout")]
    login_logout, pay_logout = Row(first="login", second="logout"), Row(first="pay", second="logout")
    harness.process_elements([Row(user=user, action=action) for user, action in actions[:2]])
    assert harness.extract_output() == [], "no pattern is in force yet"
    harness.process_broadcast_element(login_logout)
    harness.process_elements([Row(user=user, action=action) for user, action in actions[2:4]])
    assert harness.extract_output() == [(1001, login_logout)]
    harness.end_epoch()
    harness.process_broadcast_element(pay_logout)
    harness.process_elements([Row(user=user, action=action) for user, action in actions[4:]])
    assert harness.extract_output() == [(1001, login_logout), (1003, pay_logout)]
    harness.close()


@pytest.mark.parametrize("parallelism", [1, 3])
def test_patterns_and_previous_actions_are_there_after_a_restore(parallelism):
    module = example("alert_rules")
    pattern = Row(first="login", second="logout")
    users = range(20)

    def harness(parallelism, index):
        return BroadcastOperatorTestHarness(
            module.PatternEvaluator(),
            [module.PATTERNS],
            lambda action: action.user,
            Types.LONG(),
            input_type=module.ACTION,
            broadcast_type=module.PATTERN,
            parallelism=parallelism,
            subtask_index=index,
        )

    snapshots, found = [], []
    for index in range(2):
        with harness(2, index) as one:
            one.open()
            one.process_broadcast_element(pattern)
            one.process_elements([Row(user=user, action="login") for user in users if one.owns_key(user)])
            snapshots.append(one.snapshot(1))
    for index, share in enumerate(OperatorTestHarness.repartition(snapshots, 2, parallelism, 128)):
        with harness(parallelism, index) as one:
            one.initialize_state(share)
            one.open()
            one.process_elements([Row(user=user, action="logout") for user in users if one.owns_key(user)])
            found += one.extract_output()
    assert sorted(user for user, _ in found) == list(users)


def test_transactions_are_enriched_with_the_latest_details_of_their_user():
    module = example("enrichment")
    harness = ProcessFunctionTestHarnesses.for_broadcast_process_function(
        module.Enrich(),
        module.USERS,
        input_type=module.TRANSACTION,
        broadcast_type=module.USER,
        output_type=module.ENRICHED,
    )
    harness.process_element(Row(id=1, user=7, amount=1.0))
    harness.process_broadcast_element(Row(user=7, name="Ada", country="GB"))
    harness.process_element(Row(id=2, user=7, amount=2.0))
    harness.process_broadcast_element(Row(user=7, name="Ada", country="FR"))
    harness.process_element(Row(id=3, user=7, amount=3.0))
    assert [(row.id, row.name, row.country) for row in harness.extract_output()] == [
        (1, None, None),
        (2, "Ada", "GB"),
        (3, "Ada", "FR"),
    ]
    harness.close()
