from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystate.common.errors import CorruptSnapshotError, RestoreError
from pystate.common.key_groups import key_group_range
from pystate.core.snapshot.handles.handles import FileStateHandle
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.metadata import CheckpointMetadata, CheckpointType, SavepointFormatType
from pystate.core.snapshot.operator_state import OperatorState, OperatorSubtaskState
from pystate.core.snapshot.state_assignment import JobVertex, StateAssignment, StateAssignmentOperation

MakeMetadata = Callable[..., CheckpointMetadata]
MakeOperator = Callable[..., OperatorState]


def assign(metadata: CheckpointMetadata, *vertices: JobVertex, allow: bool = False) -> StateAssignment:
    return StateAssignmentOperation(metadata, vertices, allow_non_restored=allow).assign()


def files(assignment: StateAssignment, uid: str, subtask: int) -> list[str]:
    handles = assignment.keyed_state_handles.get((uid, subtask), [])
    return [handle.handle.path for handle in handles if isinstance(handle.handle, FileStateHandle)]


def test_at_the_same_parallelism_each_subtask_gets_its_own(make_metadata: MakeMetadata) -> None:
    assignment = assign(make_metadata(), JobVertex("count", "Count", 2))
    assert [files(assignment, "count", i) for i in range(2)] == [["count-0"], ["count-1"]]
    assert assignment.max_parallelism == {"count": 128}
    assert assignment.non_restored == []


def test_from_two_to_three_subtasks_the_middle_one_reads_both_files(make_metadata: MakeMetadata) -> None:
    # 128 key groups, two subtasks: 0..63, 64..127; three: 0..42, 43..85, 86..127
    assignment = assign(make_metadata(), JobVertex("count", "Count", 3))
    assert [files(assignment, "count", i) for i in range(3)] == [["count-0"], ["count-0", "count-1"], ["count-1"]]


def test_to_one_subtask_all_files_come_in_order(make_metadata: MakeMetadata, make_operator: MakeOperator) -> None:
    assignment = assign(make_metadata(operators=[make_operator("count", "Count", 3)]), JobVertex("count", "Count", 1))
    assert files(assignment, "count", 0) == ["count-0", "count-1", "count-2"]


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(40, 300))
def test_each_key_group_is_found_by_its_new_owner_alone(old: int, new: int, max_parallelism: int) -> None:
    subtasks = {}
    for index in range(old):
        groups = key_group_range(index, old, max_parallelism)
        handle = KeyedStateHandle(groups.start, groups.end, "canonical", FileStateHandle(f"f-{index}", 1, 0))
        subtasks[index] = OperatorSubtaskState([handle])
    operator = OperatorState("a", "A", old, max_parallelism, None, None, subtasks)
    metadata = CheckpointMetadata(
        1, CheckpointType.CHECKPOINT, SavepointFormatType.CANONICAL, 0, "", "", 0, old, max_parallelism, [operator]
    )
    assignment = assign(metadata, JobVertex("a", "A", new))
    for group in range(max_parallelism):
        owner = group * new // max_parallelism
        found = assignment.keyed_state_handles[("a", owner)]
        assert sum(group in handle.key_group_range for handle in found) == 1


def test_an_automatic_max_parallelism_adopts_the_snapshots(make_metadata: MakeMetadata, make_operator: MakeOperator) -> None:
    metadata = make_metadata(operators=[make_operator("count", "Count", 2, 300)])
    assert assign(metadata, JobVertex("count", "Count", 100)).max_parallelism == {"count": 300}
    assert assign(metadata, JobVertex("count", "Count", 2, 300)).max_parallelism == {"count": 300}


def test_a_new_operator_begins_empty_with_flinks_default(make_metadata: MakeMetadata) -> None:
    assignment = assign(
        make_metadata(), JobVertex("count", "Count", 2), JobVertex("new", "New", 200), JobVertex("set", "Set", 2, 77)
    )
    assert assignment.max_parallelism == {"count": 128, "new": 512, "set": 77}
    assert files(assignment, "new", 0) == []


def test_another_explicit_max_parallelism_is_refused_with_both_numbers(make_metadata: MakeMetadata) -> None:
    with pytest.raises(RestoreError) as raised:
        assign(make_metadata(), JobVertex("count", "Count", 2, 16))
    assert raised.value.message == (
        "Max parallelism mismatch between checkpoint/savepoint state and new program. Cannot map operator count with max "
        "parallelism 128 to new program with max parallelism 16. This indicates that the program has been changed in a "
        "non-compatible way after the checkpoint/savepoint."
    )
    assert raised.value.hint is not None and "128" in raised.value.hint


def test_a_parallelism_above_the_restored_maximum_is_refused(make_metadata: MakeMetadata) -> None:
    with pytest.raises(RestoreError, match="parallelism 129.*max parallelism 128") as raised:
        assign(make_metadata(), JobVertex("count", "Count", 129))
    assert raised.value.hint == "run with -p 128 or less"
    assert len(assign(make_metadata(), JobVertex("count", "Count", 128)).keyed_state_handles) == 128


def test_state_of_a_removed_operator_stops_the_restore_unless_allowed(make_metadata: MakeMetadata) -> None:
    with pytest.raises(RestoreError) as raised:
        assign(make_metadata(), JobVertex("counts", "Counter", 2), JobVertex("other", "Other", 1))
    text = str(raised.value)
    assert "operator count ('Count')" in text
    assert raised.value.table == (
        ("savepoint operators", "job operators"),
        ("count (Count)", "missing; nearest: counts (Counter)"),
        ("-", "other (Other), new"),
    )
    assert "\n    savepoint operators   job operators\n    count (Count)         missing; nearest" in text
    assert "--allowNonRestoredState" in text
    assert "is it counts ('Counter') now?" in text
    assignment = assign(make_metadata(), JobVertex("counts", "Counter", 2), allow=True)
    assert assignment.non_restored == ["count"]
    assert assignment.keyed_state_handles == {}


def test_an_operator_of_the_same_name_is_offered_whatever_its_uid(make_metadata: MakeMetadata) -> None:
    with pytest.raises(RestoreError) as raised:
        assign(make_metadata(), JobVertex("zzz", "Count", 2))
    assert raised.value.hint is not None and "zzz ('Count')" in raised.value.hint


def test_a_job_without_operators_says_so(make_metadata: MakeMetadata) -> None:
    with pytest.raises(RestoreError) as raised:
        assign(make_metadata())
    assert raised.value.table[1:] == (("count (Count)", "missing"),)


def test_operators_without_state_may_go_and_change(make_metadata: MakeMetadata, make_operator: MakeOperator) -> None:
    stateless = OperatorState("map", "Map", 2, 128, subtasks={0: OperatorSubtaskState(), 1: OperatorSubtaskState()})
    metadata = make_metadata(operators=[stateless, make_operator("count", "Count", 2)])
    assert assign(metadata, JobVertex("count", "Count", 2)).non_restored == []
    assert assign(metadata, JobVertex("count", "Count", 2), JobVertex("map", "Map", 2, 16)).max_parallelism["map"] == 16


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_snapshot_that_lacks_key_groups_is_refused(
    make_metadata: MakeMetadata, make_operator: MakeOperator, lost: int
) -> None:
    operator = make_operator("count", "Count", 3)
    del operator.subtasks[lost]
    with pytest.raises(CorruptSnapshotError, match=f"key group {[0, 43, 86][lost]} of operator count"):
        assign(make_metadata(operators=[operator]), JobVertex("count", "Count", 3))
