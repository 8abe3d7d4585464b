"""What a changed program finds of the old one's state: operators moved, added, removed, renamed; parallelism, backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pystate.common.errors import JobGraphError, RestoreError
from pystate.common.type_info import Types
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.records.key_column import KeyColumn
from pystate.runtime.execution.restore import RestorePlan, load_snapshot
from pystate.runtime.plan.chain import OperatorSpec
from pystate.runtime.plan.job_plan import JobPlan, vertex_id
from pystate.runtime.plan.task import TaskInput, TaskSpec
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator
from pystate.testing import KeyedOneInputOperatorTestHarness
from pystate.testing.operator_snapshot import OperatorSnapshot
from tests.fixtures import all_kinds
from tests.fixtures.all_kinds import MAX_PARALLELISM, AllKinds

KEYS = ["ant", "bee", "cow", "dog", "elk"]
COUNTS = {"first": 25, "second": 40}
Job = tuple[RestorePlan, list[TaskSpec]]


@pytest.fixture(scope="module")
def old(tmp_path_factory) -> Path:
    """The savepoint of a job of two operators, of 2 subtasks and 16 key groups each, on hashmap."""
    operators = [
        all_kinds.all_kinds_operator(uid, data(uid), Types.STRING(), "hashmap", with_raw=False)
        for uid in ("first", "second")
    ]
    return Path(all_kinds.write_savepoint(tmp_path_factory.mktemp("matrix") / "savepoint", operators))


def data(uid: str) -> list[tuple[Any, int]]:
    return [(KEYS[number % len(KEYS)], number) for number in range(1, COUNTS[uid])]


def expected(uid: str) -> dict[Any, Any]:
    return {key: all_kinds.expected(numbers, key) for key, numbers in all_kinds.by_key(data(uid)).items()}


def job(*uids: str, parallelism: int = 2, explicit: dict[str, int] | None = None, allow: bool = False) -> Job:
    tasks = [
        TaskSpec(
            uid=uid,
            name=f"All kinds of {uid}",
            vertex_id=vertex_id(uid),
            parallelism=parallelism,
            max_parallelism=(explicit or {}).get(uid, 128),
            inputs=[TaskInput(Types.STRING(), KeyColumn("value", Types.STRING()))],
            head=OperatorSpec(uid, uid, OperatorKind.PROCESS, AllKinds(False)),
        )
        for uid in uids
    ]
    plan = JobPlan([], parallelism, levels=[[task] for task in tasks], explicit_max_parallelism=explicit or {})
    return RestorePlan(plan, allow_non_restored=allow), tasks


def restored(old: Path | str, made: Job) -> list[dict[str, RestoredOperator]]:
    plan, _ = made
    snapshot = load_snapshot(str(old))
    plan.adopt_max_parallelism(snapshot)
    plan.check_parallelism()
    return plan.restored(snapshot).operators


def contents(slots: list[dict[str, RestoredOperator]], uid: str, backend: str = "hashmap") -> dict[Any, Any]:
    """Return what the operator holds for each key, over all subtasks."""
    found: dict[Any, Any] = {}
    for index, slot in enumerate(slots):
        with harness(len(slots), index, backend) as one:
            one.initialize_state(share(slot[uid], index, len(slots)))
            one.open()
            one.process_elements([(key, -1) for key in KEYS if one.owns_key(key)])
            found.update(one.extract_output())
    return found


def harness(parallelism: int, index: int, backend: str) -> KeyedOneInputOperatorTestHarness:
    made = KeyedOneInputOperatorTestHarness(
        AllKinds(False),
        lambda element: element[0],
        Types.STRING(),
        parallelism=parallelism,
        subtask_index=index,
        max_parallelism=MAX_PARALLELISM,
        state_backend=backend,
    )
    made.set_processing_time(2_000_000)
    return made


def share(state: RestoredOperator, index: int, parallelism: int) -> OperatorSnapshot:
    return OperatorSnapshot(7, index, parallelism, MAX_PARALLELISM, None, state)


def is_empty(found: dict[Any, Any]) -> bool:
    return all(not value for state in found.values() for value in state.values())


@pytest.mark.parametrize("uids", [("first", "second"), ("second", "first")])
def test_operators_may_stand_in_another_order(old, uids):
    slots = restored(old, job(*uids))
    for uid in uids:
        assert contents(slots, uid) == expected(uid)


def test_an_added_operator_begins_empty_and_takes_nothing_from_others(old):
    slots = restored(old, job("new", "first", "newer", "second"))
    assert contents(slots, "first") == expected("first")
    assert contents(slots, "second") == expected("second")
    assert is_empty(contents(slots, "new"))


def test_a_removed_operator_is_refused_by_name_unless_its_state_may_stay_after(old):
    with pytest.raises(RestoreError, match=r"operator second \('All kinds of second'\)") as refused:
        restored(old, job("first"))
    assert "--allowNonRestoredState" in str(refused.value)
    assert contents(restored(old, job("first", allow=True)), "first") == expected("first")


def test_a_renamed_operator_is_refused_and_begins_empty_where_that_is_allowed(old):
    with pytest.raises(RestoreError, match="operator second") as refused:
        restored(old, job("first", "second-v2"))
    assert "second-v2" in str(refused.value.hint), "the nearest is offered"
    slots = restored(old, job("first", "second-v2", allow=True))
    assert is_empty(contents(slots, "second-v2"))
    assert contents(slots, "first") == expected("first")


def test_another_explicit_max_parallelism_is_refused_with_both_numbers(old):
    with pytest.raises(RestoreError, match="with max parallelism 16 to new program with max parallelism 64"):
        restored(old, job("first", "second", explicit={"first": 64}))
    assert contents(restored(old, job("first", "second", explicit={"first": 16})), "first") == expected("first")


def test_a_derived_max_parallelism_is_that_of_the_state(old):
    made = job("first", "second", "new")
    slots = restored(old, made)
    assert {task.uid: task.max_parallelism for task in made[1]} == {"first": 16, "second": 16, "new": 128}
    assert contents(slots, "first") == expected("first")


@pytest.mark.parametrize("parallelism", [1, 3, 16])
def test_another_parallelism_spreads_the_key_groups(old, parallelism):
    assert contents(restored(old, job("first", "second", parallelism=parallelism)), "second") == expected("second")


def test_more_subtasks_than_key_groups_are_refused(old):
    with pytest.raises((RestoreError, JobGraphError), match="16"):
        restored(old, job("first", "second", parallelism=17))


def test_a_canonical_savepoint_goes_from_hashmap_to_rocksdb_and_back(old, tmp_path):
    path: Path | str = old
    for number, backend in enumerate(("rocksdb", "hashmap", "rocksdb")):
        slots = restored(path, job("first", "second", parallelism=number + 1))
        operators = []
        for uid in ("first", "second"):
            assert contents(slots, uid, backend) == expected(uid)
            operators.append(
                all_kinds.resnapshot(uid, backend, [share(slot[uid], i, len(slots)) for i, slot in enumerate(slots)])
            )
        path = all_kinds.write_savepoint(tmp_path / backend / str(number), operators)
    assert contents(restored(path, job("first", "second")), "first") == expected("first")
