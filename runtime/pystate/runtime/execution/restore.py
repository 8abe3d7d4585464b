"""Assigns the state of a snapshot to slots. The positions of sources are restored by the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pystate.common.configuration.groups.checkpointing_options import RecoveryClaimMode
from pystate.common.errors import JobGraphError, NoSnapshotError, PystateError, RestoreError, StorageError
from pystate.common.type_info import TypeInformation
from pystate.connectors.operators.sink_operator import COMMITTABLES
from pystate.core.snapshot.handles.input_channel_state import channels_changed
from pystate.core.snapshot.metadata import CheckpointType
from pystate.core.snapshot.operator_state import OperatorState
from pystate.core.snapshot.starting_snapshot import Snapshot, read_starting_point
from pystate.core.snapshot.state_assignment import JobVertex, StateAssignment, StateAssignmentOperation
from pystate.core.state.keys.keys import KeyCompatibility, check_key_compatible, key_type_name
from pystate.runtime.execution.restored_job import RestoredJob
from pystate.runtime.plan.chain import OperatorSpec, needs_slot
from pystate.runtime.plan.channels import upstream_of
from pystate.runtime.plan.job_plan import JobPlan
from pystate.runtime.plan.task import TaskSpec
from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator


def load_snapshot(path: str) -> Snapshot:
    """Read the metadata of the snapshot at `path`, a directory or its `_metadata`.

    Raises:
        RestoreError: There is none.
        CorruptSnapshotError: It is damaged.
    """
    location, metadata = read_starting_point(path)
    return Snapshot(location, metadata, starting=True)


def starting_snapshot(
    path: str | None,
    mode: RecoveryClaimMode,
    has_claimed: Callable[[Snapshot], bool],
    *,
    needed: bool,
    begun: bool = False,
) -> Snapshot | None:
    """Return the snapshot a job was started from; None if there is none, or if the job doesn't need it any more.

    Args:
        path: Its present or former location; None for a start without a snapshot.
        mode: Who owns it.
        has_claimed: Whether the job has claimed it.
        needed: Whether the job has no checkpoint of its own. With one, it only has to delete what it has claimed.
        begun: Whether the job has run before: then the snapshot existed, and an unmounted disk is a temporary failure.

    Raises:
        StorageError: It is needed, and doesn't exist any more.
        PystateError: It is needed, and is missing or damaged.
    """
    if path is None or not (needed or mode is RecoveryClaimMode.CLAIM):
        return None
    try:
        starting = load_snapshot(path)
        return starting if needed or has_claimed(starting) else None
    except PystateError as error:
        if needed and begun and isinstance(error, NoSnapshotError):
            message = f"{error.message} The job was started from there: its storage may not be mounted."
            raise StorageError(message, where=path, hint="mount it; where it is gone for good, cancel the job") from error
        if needed:
            raise
        return None  # newer checkpoints have taken its place


class RestorePlan:
    """Assigns snapshots to one job.

    Args:
        plan: The job.
        allow_non_restored: Whether state of operators the job doesn't have may be dropped.
        mode: Who owns the snapshot that the job is started from.
    """

    def __init__(
        self,
        plan: JobPlan,
        *,
        allow_non_restored: bool,
        mode: RecoveryClaimMode = RecoveryClaimMode.NO_CLAIM,
    ) -> None:
        self._plan = plan
        self._allow_non_restored = allow_non_restored
        self._mode = mode

    def adopt_max_parallelism(self, snapshot: Snapshot) -> None:
        """Set the number of key groups of the job's tasks to that of their state.

        Raises:
            RestoreError: The snapshot doesn't fit the job.
        """
        assignment = self._assignment(snapshot)
        for task in self._plan.tasks:
            if task.key is None:
                continue
            task.max_parallelism = assignment.max_parallelism.get(task.uid, task.max_parallelism)

    def notices(self, snapshot: Snapshot) -> list[str]:
        """Return notices about the start from a snapshot.

        Raises:
            RestoreError: The snapshot doesn't fit the job.
        """
        return non_restored_notices(snapshot, self._assignment(snapshot).non_restored)

    def check_parallelism(self) -> None:
        """Reject more subtasks than key groups.

        Raises:
            JobGraphError: So it is.
        """
        for task in self._plan.tasks:
            if task.parallelism > task.max_parallelism:
                message = (
                    f"{task.name!r} has parallelism {task.parallelism} above its max parallelism {task.max_parallelism}."
                )
                raise JobGraphError(message, hint=f"run with -p {task.max_parallelism} or less")

    def restored(self, snapshot: Snapshot | None) -> RestoredJob:
        """Return the state of a snapshot, assigned to this job's slots; empty for None.

        Raises:
            RestoreError: It doesn't fit.
            CorruptSnapshotError: It is damaged.
        """
        if snapshot is None:
            return RestoredJob([{} for _ in range(self._plan.width)])
        self._check_key_types(snapshot)
        assignment = self._assignment(snapshot)
        operators = [self._restored_operators(index, assignment, snapshot) for index in range(self._plan.width)]
        return RestoredJob(operators, snapshot.metadata.checkpoint_id, snapshot.metadata.timestamp_ms)

    def _restored_operators(
        self, index: int, assignment: StateAssignment, snapshot: Snapshot
    ) -> dict[str, RestoredOperator]:
        """Return the restored state of each operator, by slot."""
        uids = {uid for task in self._plan.tasks for uid in (task.uid, *(operator.uid for operator in task.operators))}
        if snapshot.starting:
            owned = self._mode is not RecoveryClaimMode.NO_CLAIM
        else:
            owned = snapshot.metadata.checkpoint_type is not CheckpointType.SAVEPOINT
        return {uid: RestoredOperator.of(assignment, uid, index, snapshot.location.uri, owned=owned) for uid in uids}

    def _assignment(self, snapshot: Snapshot) -> StateAssignment:
        with_state = {operator.uid for operator in snapshot.metadata.operators if operator.has_state}
        explicit = self._plan.explicit_max_parallelism
        vertices = [
            JobVertex(operator.uid, operator.name, task.parallelism, explicit.get(task.uid))
            for task in self._plan.tasks
            for operator in task.operators
            if may_keep_state(task, operator) or operator.uid in with_state
        ]
        vertices += [
            JobVertex(task.uid, task.name, task.parallelism, explicit.get(task.uid))
            for task in self._plan.tasks
            if task.uid in with_state and task.stands_for_itself
        ]
        operation = StateAssignmentOperation(
            snapshot.metadata,
            vertices,
            allow_non_restored=self._allow_non_restored,
            where=snapshot.location.uri,
        )
        assignment = operation.assign()
        for (uid, _), in_flight in assignment.in_flight.items():
            refusal = channels_changed(uid, in_flight.upstream, upstream_of(self._plan, uid))
            if refusal is not None:
                raise refusal
        return assignment

    def _check_key_types(self, snapshot: Snapshot) -> None:
        old = {operator.uid: operator for operator in snapshot.metadata.operators}
        for task in self._plan.tasks:
            operator = old.get(task.uid)
            if operator is None or task.key is None:
                continue
            refusal = key_type_changed(task.name, task.uid, operator, task.key.key_type)
            if refusal is not None:
                raise refusal


def key_type_changed(name: str, uid: str, operator: OperatorState, new: TypeInformation | None) -> RestoreError | None:
    """Return the error for a key type that is incompatible with the state; None if it is compatible.

    Args:
        name: The operator's name for users.
        uid: Its uid.
        operator: What the snapshot says of it.
        new: The type of its keys now; None for untyped ones.
    """
    old = None if operator.key_type is None else TypeInformation.from_plain(operator.key_type)
    if check_key_compatible(old, new) is not KeyCompatibility.INCOMPATIBLE:
        return None
    message = (
        f"The state of {name!r} was written with keys of type {key_type_name(old)}; the job's key_by() gives "
        f"{key_type_name(new)}. A key type never changes."
    )
    return RestoreError(message, where=f"uid {uid}", hint="give key_by() the old key_type")


def may_keep_state(task: TaskSpec, operator: OperatorSpec) -> bool:
    """Whether an operator may have state in a snapshot: it follows key_by(), or its function may keep state."""
    return (task.key is not None and operator is task.head) or needs_slot(operator.function)


def non_restored_notices(snapshot: Snapshot, uids: Iterable[str]) -> list[str]:
    """Return a sentence for each operator whose state is dropped.

    Args:
        snapshot: What the job starts from.
        uids: The uids of its operators that the job doesn't have.
    """
    wanted = set(uids)
    where = snapshot.location.uri
    return [_notice(operator, where) for operator in snapshot.metadata.operators if operator.uid in wanted]


def _notice(operator: OperatorState, where: str) -> str:
    left = (
        f"{operator.state_size:,} bytes of state of {operator.name!r} (uid {operator.uid}) are left behind: "
        f"the job has no such operator (--allowNonRestoredState)."
    )
    waiting = _with_committables(operator)
    if not waiting:
        return left
    return (
        f"{left} In them is what {waiting} of {operator.parallelism} subtasks of this sink had written and not committed "
        "when the snapshot was taken. This job commits none of it. The job before has, if it ended by pystate stop or went "
        "on after the snapshot; if not, it stays invisible unless a program with the sink under this uid is started from "
        f"{where}."
    )


def _with_committables(operator: OperatorState) -> int:
    """Return how many subtasks had committables that weren't committed."""
    states = (subtask.operator_state for subtask in operator.subtasks.values())
    return sum(any(COMMITTABLES in handle.states and handle.states[COMMITTABLES].count for handle in of) for of in states)
