"""Which subtask of the new job gets which handles of an old snapshot."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field

from pystate.checkpoint.metadata import CheckpointMetadata, KeyedStateHandle, OperatorState
from pystate.common.errors import CorruptSnapshotError, RestoreError
from pystate.common.key_groups import default_max_parallelism, operator_index


@dataclass(frozen=True)
class JobVertex:
    """An operator of the job that is to start.

    Attributes:
        uid: Its identity across versions of the job.
        name: What people see.
        parallelism: Its number of subtasks.
        max_parallelism: Its number of key groups as its author set it; None where that is left to us.
    """

    uid: str
    name: str
    parallelism: int
    max_parallelism: int | None = None


@dataclass(frozen=True)
class StateAssignment:
    """Where old state goes.

    Attributes:
        keyed_state_handles: By (uid, subtask index): the handles with key groups of that subtask, whole. A handle may be
            in several lists. Subtasks without any are left out.
        max_parallelism: The number of key groups of each operator of the job.
        non_restored: The uids of the snapshot whose state is left behind.
    """

    keyed_state_handles: dict[tuple[str, int], list[KeyedStateHandle]] = field(default_factory=dict)
    max_parallelism: dict[str, int] = field(default_factory=dict)
    non_restored: list[str] = field(default_factory=list)


class StateAssignmentOperation:
    """Fits the state of a snapshot to a job.

    Args:
        metadata: The snapshot's.
        vertices: The job's operators.
        allow_non_restored: Whether state of operators that the job doesn't have may be left behind.
    """

    def __init__(
        self, metadata: CheckpointMetadata, vertices: Iterable[JobVertex], *, allow_non_restored: bool = False
    ) -> None:
        self._metadata = metadata
        self._vertices = {vertex.uid: vertex for vertex in vertices}
        self._allow_non_restored = allow_non_restored

    def assign(self) -> StateAssignment:
        """Return which subtask gets what.

        Operators of the snapshot without state are ignored, new operators of the job begin empty.

        Raises:
            RestoreError: The snapshot doesn't fit the job.
            CorruptSnapshotError: State of some key groups is missing in the snapshot.
        """
        with_state = {operator.uid: operator for operator in self._metadata.operators if operator.has_state}
        missing = [uid for uid in with_state if uid not in self._vertices]
        if missing and not self._allow_non_restored:
            raise self._cannot_map(with_state[missing[0]], missing)
        assignment = StateAssignment(non_restored=missing)
        for vertex in self._vertices.values():
            operator = with_state.get(vertex.uid)
            assignment.max_parallelism[vertex.uid] = self._max_parallelism(vertex, operator)
            if operator is not None:
                self._assign_operator(operator, vertex, assignment)
        return assignment

    @staticmethod
    def _assign_operator(operator: OperatorState, vertex: JobVertex, assignment: StateAssignment) -> None:
        handles = [handle for _, state in sorted(operator.subtasks.items()) for handle in state.keyed_state]
        _check_whole(operator, handles)
        for handle in handles:
            first, last = (
                operator_index(group, vertex.parallelism, operator.max_parallelism)
                for group in (handle.start_key_group, handle.end_key_group)
            )
            for index in range(first, last + 1):
                assignment.keyed_state_handles.setdefault((vertex.uid, index), []).append(handle)

    def _max_parallelism(self, vertex: JobVertex, operator: OperatorState | None) -> int:
        explicit = vertex.max_parallelism
        if operator is None:
            return default_max_parallelism(vertex.parallelism) if explicit is None else explicit
        where = f"operator {vertex.name!r}, uid {vertex.uid}"
        restored = operator.max_parallelism
        if explicit is not None and explicit != restored:
            message = (
                "Max parallelism mismatch between checkpoint/savepoint state and new program. Cannot map operator "
                f"{vertex.uid} with max parallelism {restored} to new program with max parallelism {explicit}. This "
                "indicates that the program has been changed in a non-compatible way after the checkpoint/savepoint."
            )
            raise RestoreError(message, where=where, hint=f"set the max parallelism back to {restored}, or leave it unset")
        if vertex.parallelism > restored:
            message = (
                f"The state of operator {vertex.uid} cannot be restored at parallelism {vertex.parallelism}: it was written "
                f"with max parallelism {restored}, which stays for the life of the state."
            )
            raise RestoreError(message, where=where, hint=f"run with -p {restored} or less")
        return restored

    def _cannot_map(self, operator: OperatorState, missing: list[str]) -> RestoreError:
        free = [uid for uid in self._vertices if uid not in {known.uid for known in self._metadata.operators}]
        ours = ", ".join(sorted(self._vertices)) or "none"
        message = (
            f"Cannot map checkpoint/savepoint state for operator {operator.uid} ({operator.name!r}) to the new program, "
            f"because the operator is not available in the new program. Uids with state in the snapshot but not in the "
            f"program: {', '.join(missing)}; uids of the program: {ours}."
        )
        near = difflib.get_close_matches(operator.uid, free, n=3, cutoff=0.5)
        names = {vertex.uid: vertex.name for vertex in self._vertices.values()}
        near += [uid for uid in free if names[uid] == operator.name and uid not in near]
        allow = "to leave that state behind: --allowNonRestoredState"
        hint = allow
        if near:
            which = " or ".join(f"{uid} ({names[uid]!r})" for uid in near)
            hint = f'is it {which} now? Then give that one .uid("{operator.uid}"); {allow}'
        return RestoreError(message, where=f"checkpoint {self._metadata.checkpoint_id}", hint=hint)


def _check_whole(operator: OperatorState, handles: list[KeyedStateHandle]) -> None:
    """Refuse a snapshot in which some key groups have no handle: their state would be missing in silence."""
    if not handles:
        return
    reached = 0
    for handle in sorted(handles, key=lambda one: one.start_key_group):
        if handle.start_key_group > reached:
            break
        reached = max(reached, handle.end_key_group + 1)
    if reached < operator.max_parallelism:
        message = f"The snapshot has no state for key group {reached} of operator {operator.uid} ({operator.name!r})."
        raise CorruptSnapshotError(message, hint="restore from another checkpoint or savepoint")
