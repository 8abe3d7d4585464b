"""Functions with state of their own in a subtask: snapshots, notifications, and epochs that are given up."""

import threading

import pytest

from pystate.common import Types
from pystate.common.errors import JobExecutionError, PystateError, UserFunctionError
from pystate.core.api.checkpointed import CheckpointedFunction, CheckpointListener
from pystate.core.api.functions import FilterFunction, SinkFunction
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.state import ListStateDescriptor
from pystate.core.snapshot.metadata import CheckpointMetadata, CheckpointType, SavepointFormatType
from pystate.core.snapshot.operator_state import OperatorState, OperatorSubtaskState
from pystate.core.snapshot.state_assignment import JobVertex, StateAssignmentOperation
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.engines.micro_batch.slot.protocol import Admission, BatchSender, receive_admission
from pystate.runtime.plan.chain import Chain, ChainNode, OperatorSpec
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator
from tests.runtime.slot.harness import MAX_PARALLELISM, OUT, UID, SlotHarness, counted
from tests.waiting import LONGEST_S, wait_until

SINK = "keep"


class Keep(SinkFunction, CheckpointedFunction, CheckpointListener):
    """Keeps what it gets in a field; the field goes into list state at each snapshot."""

    def __init__(self):
        self.kept = []
        self.told = []
        self.fail_snapshot = False
        self.fail_notification = False
        self.hold = threading.Event()
        self.hold.set()

    def initialize_state(self, context):
        self.restored_checkpoint = context.get_restored_checkpoint_id()
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("kept", Types.STRING()))
        self.kept = list(self.state.get())

    def invoke(self, value, context):
        self.kept.append(value[0])
        self.hold.wait(LONGEST_S)

    def snapshot_state(self, context):
        if self.fail_snapshot:
            message = "no snapshot today"
            raise ValueError(message)
        self.state.update(self.kept)

    def notify_checkpoint_complete(self, checkpoint_id):
        if self.fail_notification:
            message = "can't commit"
            raise ValueError(message)
        self.told.append((checkpoint_id, True, list(self.kept)))

    def notify_checkpoint_aborted(self, checkpoint_id):
        self.told.append((checkpoint_id, False, list(self.kept)))


class Capitals(FilterFunction):
    def filter(self, value):
        return value[0].isupper()


def sink_chain(function, *, after_filter=False):
    node = ChainNode(OperatorSpec(SINK, "keep", OperatorKind.SINK, function))
    if after_filter:
        node = ChainNode(OperatorSpec("capitals", "capitals", OperatorKind.FILTER, Capitals()), [node])
    return Chain([node], [OUT])


@pytest.fixture
def make_slot(tmp_path):
    made = []

    def make(function, **options):
        after_filter = options.pop("after_filter", False)
        made.append(SlotHarness(tmp_path, chain=sink_chain(function, after_filter=after_filter), **options))
        return made[-1]

    yield make
    for slot in made:
        slot.close()


def request(tmp_path, checkpoint_id, epoch, inline_threshold=0):
    location = SnapshotLocation(f"file:{tmp_path}/chk-{checkpoint_id}")
    location.create()
    return CheckpointBarrier(checkpoint_id, location.uri, inline_threshold, trigger_timestamp=0, epoch=epoch)


def half_an_epoch(slot, epoch, words, **who):
    """Send rows of an epoch, wait until they are processed, and send no end."""
    connection = slot.connect(slot.header(epoch, **who))
    assert receive_admission(connection) is Admission.SEND
    before = slot.subtask.chain.records_in
    batch = slot.batch(words)
    BatchSender(connection).send(0, batch.schema, batch.serialize(), batch.num_rows)
    wait_until(lambda: slot.subtask.chain.records_in == before + len(words))
    return connection


@pytest.mark.parametrize("inline_threshold", [0, 1 << 20])
def test_a_chained_operator_has_its_own_state_in_the_acknowledgement_and_finds_it_again(
    make_slot, tmp_path, inline_threshold
):
    slot = make_slot(Keep())
    barrier = request(tmp_path, 5, 1, inline_threshold)
    slot.run_epoch(0, ["a", "b"])
    slot.run_epoch(1, ["a"], barrier=barrier)
    slot.run_epoch(2, ["not in it"])
    task, metrics = slot.coordinator.acknowledged[5]
    assert set(task.operators) == {UID, SINK}
    assert task.operators[SINK].operator_state[0].states["kept"].count == 3
    assert task.operators[SINK].keyed_state == []
    assert metrics.state_size == task.state_size > 0
    subtasks = {uid: {0: state} for uid, state in task.operators.items()}
    restored = restored_operators(barrier.location, subtasks, 1)
    function = Keep()
    again = make_slot(function, restored=restored, checkpoint_id=5, finished_epoch=1, name="again")
    assert (function.restored_checkpoint, function.kept) == (5, ["a", "b", "a"])
    assert again.run_epoch(2, ["a"]) == [("a", 3)]


def restored_operators(location, subtasks, parallelism, index=0):
    """Return what subtask `index` of a new job finds of states by uid and old subtask."""
    operators = [OperatorState(uid, uid, len(states), MAX_PARALLELISM, subtasks=states) for uid, states in subtasks.items()]
    metadata = CheckpointMetadata(
        1, CheckpointType.CHECKPOINT, SavepointFormatType.CANONICAL, 0, "", "", 0, 1, MAX_PARALLELISM, operators
    )
    vertices = [JobVertex(uid, uid, parallelism) for uid in subtasks]
    assignment = StateAssignmentOperation(metadata, vertices).assign()
    return {uid: RestoredOperator.of(assignment, uid, index, location) for uid in subtasks}


@pytest.mark.parametrize("parallelism", [1, 3])
def test_operator_state_of_two_subtasks_is_spread_over_another_number(make_slot, tmp_path, parallelism):
    words = [f"w{i}" for i in range(60)]
    subtasks = {UID: {}, SINK: {}}
    between = request(tmp_path, 1, 0)
    for index in range(2):
        slot = make_slot(Keep(), index=index, parallelism=2, name=f"old-{index}")
        mine = [word for word in words if slot.codec.key_group(word, MAX_PARALLELISM) // 8 == index]
        slot.run_epoch(0, mine)
        slot.subtask.snapshot_between_epochs(between)
        task, _ = slot.coordinator.acknowledged[1]
        for uid, state in task.operators.items():
            subtasks[uid][index] = state
    found = []
    for index in range(parallelism):
        function = Keep()
        make_slot(
            function,
            index=index,
            parallelism=parallelism,
            restored=restored_operators(between.location, subtasks, parallelism, index),
            checkpoint_id=1,
            finished_epoch=0,
            name=f"new-{index}",
        )
        found.append(function.kept)
    assert sorted(word for kept in found for word in kept) == sorted(words)
    assert max(map(len, found)) - min(map(len, found)) <= 1


def test_a_damaged_file_of_operator_state_is_an_error_at_the_start(make_slot, tmp_path):
    slot = make_slot(Keep())
    slot.run_epoch(0, ["a"])
    between = request(tmp_path, 1, 0)
    slot.subtask.snapshot_between_epochs(between)
    task, _ = slot.coordinator.acknowledged[1]
    (file,) = (tmp_path / "chk-1").glob("*-operator-*")
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(PystateError, match="damaged"):
        make_slot(Keep(), restored=restored_operators(between.location, {SINK: {0: task.operators[SINK]}}, 1), name="again")


def test_a_snapshot_that_a_function_fails_is_declined_and_fails_the_task(make_slot, tmp_path):
    function = Keep()
    slot = make_slot(function)
    function.fail_snapshot = True
    assert slot.run_epoch(0, ["a"], barrier=request(tmp_path, 1, 0)) == [("a", 1)]
    assert "ValueError: no snapshot today" in slot.coordinator.declined[1].message
    assert "subtask 0" in slot.coordinator.declined[1].where
    assert slot.coordinator.reasons == {1: CheckpointFailureReason.TASK_CHECKPOINT_FAILURE}
    assert slot.coordinator.acknowledged == {}
    ((error, trace),) = slot.coordinator.failures
    assert isinstance(error, UserFunctionError)
    assert "snapshot_state" in trace
    with pytest.raises(UserFunctionError, match="no snapshot today"):
        slot.run_epoch(1, ["a"])


def test_between_two_epochs_functions_hear_of_a_checkpoint_at_once(make_slot):
    function = Keep()
    slot = make_slot(function)
    slot.run_epoch(0, ["a"])
    slot.subtask.notify(1, completed=True)
    slot.subtask.notify(2, completed=False)
    assert function.told == [(1, True, ["a"]), (2, False, ["a"])]


@pytest.mark.parametrize("ends_well", [True, False])
def test_while_an_epoch_runs_functions_hear_of_a_checkpoint_after_it(make_slot, ends_well):
    function = Keep()
    slot = make_slot(function, after_filter=True)
    slot.run_epoch(0, ["A"])
    connection = half_an_epoch(slot, 1, ["b"])
    slot.subtask.notify(1, completed=True)
    slot.subtask.notify(2, completed=True)
    assert function.told == []
    if ends_well:
        connection.close()
        slot.run_epoch(1, ["C"], attempt=1)
        assert function.told[0] == (1, True, ["A"])
    else:
        connection.close()
        wait_until(lambda: slot.subtask._claim is None)
    wait_until(lambda: len(function.told) == 2)
    assert [told[0] for told in function.told] == [1, 2]


def test_a_function_that_fails_when_it_is_told_fails_the_task(make_slot):
    function = Keep()
    slot = make_slot(function)
    function.fail_notification = True
    slot.run_epoch(0, ["a"])
    slot.subtask.notify(1, completed=True)
    ((error, trace),) = slot.coordinator.failures
    assert isinstance(error, UserFunctionError)
    assert "can't commit" in error.message
    assert "in notify_checkpoint_complete" in trace
    with pytest.raises(PystateError, match="can't commit"):
        slot.run_epoch(1, ["a"])
    slot.subtask.notify(2, completed=True)
    assert len(slot.coordinator.failures) == 1


def test_an_epoch_that_dies_after_a_function_with_fields_fails_the_task_with_the_way_out(make_slot):
    slot = make_slot(Keep())
    slot.run_epoch(0, ["a"])
    half_an_epoch(slot, 1, ["a", "b"]).close()
    wait_until(lambda: slot.coordinator.failures)
    ((error, _),) = slot.coordinator.failures
    assert isinstance(error, JobExecutionError), "the restart strategy restarts the job of such an error"
    assert "'keep'" in error.message
    assert "latest checkpoint" in error.message
    assert error.where == f"uid {SINK}"
    with pytest.raises(JobExecutionError, match="can't be rolled back"):
        slot.run_epoch(1, ["a"], attempt=1)


def test_an_epoch_that_dies_before_it_got_to_the_function_is_run_again_in_place(make_slot):
    function = Keep()
    slot = make_slot(function, after_filter=True)
    slot.run_epoch(0, ["a", "A"])
    half_an_epoch(slot, 1, ["a", "b"]).close()
    wait_until(lambda: slot.subtask._claim is None)
    assert slot.run_epoch(1, ["a", "B"], attempt=1) == [("a", 2), ("B", 1)]
    assert function.kept == ["A", "B"]
    assert slot.coordinator.failures == []


def test_a_newer_attempt_that_fences_one_after_a_function_with_fields_gets_the_error(make_slot):
    slot = make_slot(Keep())
    half_an_epoch(slot, 0, ["a"], attempt=0)
    with pytest.raises(JobExecutionError, match="can't be rolled back"):
        slot.run_epoch(0, counted("a"), attempt=1)
    assert len(slot.coordinator.failures) == 1


def test_a_task_state_without_state_names_no_operators(make_slot, tmp_path):
    slot = make_slot(Keep(), after_filter=True)
    slot.run_epoch(0, ["a"])
    slot.subtask.snapshot_between_epochs(request(tmp_path, 1, 0))
    task, _ = slot.coordinator.acknowledged[1]
    assert "capitals" not in task.operators
    assert all(isinstance(state, OperatorSubtaskState) and state.has_state for state in task.operators.values())
