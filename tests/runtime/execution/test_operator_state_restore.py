"""From what subtasks acknowledged to `_metadata`, and from there to what each slot of a new job gets."""

import pytest

from pystate.common import Types
from pystate.common.errors import RestoreError
from pystate.common.key_groups import key_group_range
from pystate.connectors.operators.sink_operator import COMMITTABLES
from pystate.core.api.checkpointed import CheckpointedFunction
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.records.key_column import KeyColumn
from pystate.core.snapshot.handles.handles import ByteStreamStateHandle
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.handles.operator_state_handle import OperatorStateHandle, StateMetaInfo
from pystate.core.snapshot.metadata import CheckpointMetadata, CheckpointType, SavepointFormatType
from pystate.core.snapshot.operator_state import OperatorSubtaskState, TaskState
from pystate.core.snapshot.starting_snapshot import Snapshot
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.operator.format import OperatorStateMode
from pystate.runtime.checkpoint.pending_checkpoint import PendingCheckpoint
from pystate.runtime.checkpoint.snapshot_metadata import JobDescription, snapshot_metadata
from pystate.runtime.execution.restore import RestorePlan
from pystate.runtime.plan.chain import Chain, ChainNode, OperatorSpec
from pystate.runtime.plan.job_plan import JobPlan
from pystate.runtime.plan.task import TaskInput, TaskSpec

JOB = JobDescription("a" * 32, "job", 2, {}, "0", "4.3.0")


class Keeps(CheckpointedFunction):
    def __call__(self, value):
        return value

    def snapshot_state(self, context):
        pass

    def initialize_state(self, context):
        pass


def operator(uid, function=Keeps):
    return OperatorSpec(uid, uid.title(), OperatorKind.MAP, function())


def tasks(parallelism, max_parallelism=128, chained="chained", alone="alone"):
    """A keyed task with an operator chained to it, and a task without a key."""
    keyed = TaskSpec(
        uid="keyed",
        name="Keyed",
        vertex_id="0" * 32,
        parallelism=parallelism,
        max_parallelism=max_parallelism,
        inputs=[TaskInput(Types.STRING(), KeyColumn("value", Types.STRING()))],
        head=operator("keyed"),
        chain=Chain([ChainNode(operator("plain", lambda: str), [ChainNode(operator(chained))])]),
    )
    other = TaskSpec(alone, alone.title(), "0" * 32, parallelism, max_parallelism, [TaskInput(None)], operator(alone))
    return [keyed, other]


def kept(count):
    states = {"kept": StateMetaInfo(OperatorStateMode.SPLIT_DISTRIBUTE, count)}
    return OperatorSubtaskState(operator_state=[OperatorStateHandle(states, "operator", ByteStreamStateHandle(b"x"))])


def snapshot_of(old):
    """The snapshot of a job with two subtasks of each task."""
    pending = PendingCheckpoint(
        5,
        0,
        checkpoint_type=CheckpointType.CHECKPOINT,
        format=SavepointFormatType.CANONICAL,
        trigger_timestamp=0,
        tasks=[(task.uid, index) for task in old for index in range(2)],
        location=SnapshotLocation("file:/nowhere/chk-5"),
    )
    for index in range(2):
        groups = key_group_range(index, 2, 128)
        handle = KeyedStateHandle(groups.start, groups.end, "canonical", ByteStreamStateHandle(b"keyed"))
        pending.acknowledge("keyed", index, TaskState({"keyed": OperatorSubtaskState([handle]), "chained": kept(4)}))
        pending.acknowledge("alone", index, TaskState({"alone": kept(1)} if index == 0 else {}))
    metadata = snapshot_metadata(pending, JOB, old, None)
    return Snapshot(SnapshotLocation("file:/nowhere/chk-5"), metadata, starting=True)


def plan(new, *, allow=False):
    return RestorePlan(JobPlan([], new[0].parallelism, levels=[new]), allow_non_restored=allow)


def test_the_metadata_has_an_entry_for_each_operator_with_state_and_for_keyed_ones():
    metadata: CheckpointMetadata = snapshot_of(tasks(2)).metadata
    shown = {
        one.uid: (one.name, one.parallelism, one.key_encoding is not None, sorted(one.subtasks))
        for one in metadata.operators
    }
    assert shown == {
        "keyed": ("Keyed", 2, True, [0, 1]),
        "chained": ("Chained", 2, False, [0, 1]),
        "alone": ("Alone", 2, False, [0]),
    }


def test_each_slot_of_a_job_of_another_parallelism_gets_its_share_of_each_operator():
    snapshot = snapshot_of(tasks(2))
    restored = plan(tasks(3)).restored(snapshot)
    assert (restored.checkpoint_id, len(restored.operators)) == (5, 3)
    chained = [[share.elements["kept"] for share in slot["chained"].operator_state] for slot in restored.operators]
    assert chained == [[(0, 3)], [(3, 4), (0, 2)], [(2, 4)]]
    alone = [[share.elements["kept"] for share in slot["alone"].operator_state] for slot in restored.operators]
    assert alone == [[(0, 1)], [], []]
    keyed = [[handle.start_key_group for handle in slot["keyed"].keyed_state] for slot in restored.operators]
    assert keyed == [[0], [0, 64], [64]]
    assert restored.operators[0]["plain"].operator_state == []
    assert all(one.location == snapshot.location.uri for slot in restored.operators for one in slot.values())


def test_an_operator_whose_state_nobody_takes_stops_the_restore_unless_allowed():
    snapshot = snapshot_of(tasks(2))
    with pytest.raises(RestoreError, match="operator chained"):
        plan(tasks(2, chained="renamed")).restored(snapshot)
    restored = plan(tasks(2, chained="renamed"), allow=True).restored(snapshot)
    assert restored.operators[0]["renamed"].operator_state == []
    assert len(restored.operators[0]["alone"].operator_state) == 1


def test_what_is_left_after_is_said_with_what_a_sink_had_not_committed():
    old = tasks(2)
    snapshot = snapshot_of(old)
    assert plan(old, allow=True).notices(snapshot) == []
    (notice,) = plan(tasks(2, chained="renamed"), allow=True).notices(snapshot)
    assert notice == (
        "2 bytes of state of 'Chained' (uid chained) are left behind: the job has no such operator "
        "(--allowNonRestoredState)."
    )
    (sink,) = [one for one in snapshot.metadata.operators if one.uid == "chained"]
    waiting = {COMMITTABLES: StateMetaInfo(OperatorStateMode.SPLIT_DISTRIBUTE, 1)}
    sink.subtasks[0].operator_state[0] = OperatorStateHandle(waiting, "operator", ByteStreamStateHandle(b"x"))
    (notice,) = plan(tasks(2, chained="renamed"), allow=True).notices(snapshot)
    assert "what 1 of 2 subtasks of this sink had written and not committed" in notice
    assert notice.endswith("is started from file:/nowhere/chk-5.")


def test_only_keyed_tasks_take_over_the_number_of_key_groups():
    snapshot = snapshot_of(tasks(2))
    new = tasks(2, max_parallelism=256)
    plan(new).adopt_max_parallelism(snapshot)
    assert [task.max_parallelism for task in new] == [128, 256]


def test_a_start_from_nothing_has_no_checkpoint():
    restored = plan(tasks(3)).restored(None)
    assert (restored.checkpoint_id, restored.operators) == (None, [{}, {}, {}])
