"""Assigns the handles of a snapshot to the subtasks of a new job."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pystate.common.errors import CorruptSnapshotError, RestoreError
from pystate.common.key_groups import default_max_parallelism, operator_index
from pystate.core.snapshot.handles.incremental_handle import AnyKeyedStateHandle
from pystate.core.snapshot.handles.input_channel_state import InputChannelStateHandle, data_in_flight_stays
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.handles.operator_state_handle import OperatorStateHandle, OperatorStateShare
from pystate.core.snapshot.metadata import CheckpointMetadata
from pystate.core.snapshot.operator_state import OperatorState, OperatorSubtaskState
from pystate.core.snapshot.round_robin_repartitioner import repartition

H = TypeVar("H", bound=AnyKeyedStateHandle)


@dataclass(frozen=True)
class JobVertex:
    """An operator of the job that is to start.

    Attributes:
        uid: Its identity across versions of the job.
        name: The displayed name.
        parallelism: Its number of subtasks.
        max_parallelism: Its number of key groups if set by the author; else None.
    """

    uid: str
    name: str
    parallelism: int
    max_parallelism: int | None = None


@dataclass(frozen=True)
class StateAssignment:
    """The assignment of old state to new subtasks.

    Attributes:
        keyed_state_handles: By (uid, subtask index): the handles with key groups of that subtask, whole. A handle may be
            in several lists. Subtasks without any are left out.
        operator_state: By (uid, subtask index): what that subtask reads of which handle.
        raw_keyed_state: As `keyed_state_handles`, for bytes the operator wrote itself.
        raw_operator_state: As `operator_state`, for bytes the operator wrote itself.
        in_flight: By (uid, subtask index): the in-flight data of that subtask.
        max_parallelism: The number of key groups of each operator of the job.
        non_restored: The uids of the snapshot whose state is dropped.
    """

    keyed_state_handles: dict[tuple[str, int], list[AnyKeyedStateHandle]] = field(default_factory=dict)
    operator_state: dict[tuple[str, int], list[OperatorStateShare]] = field(default_factory=dict)
    raw_keyed_state: dict[tuple[str, int], list[KeyedStateHandle]] = field(default_factory=dict)
    raw_operator_state: dict[tuple[str, int], list[OperatorStateShare]] = field(default_factory=dict)
    in_flight: dict[tuple[str, int], InputChannelStateHandle] = field(default_factory=dict)
    max_parallelism: dict[str, int] = field(default_factory=dict)
    non_restored: list[str] = field(default_factory=list)


class StateAssignmentOperation:
    """Assigns the state of a snapshot to a job.

    Args:
        metadata: The metadata of the snapshot.
        vertices: The job's operators.
        allow_non_restored: Whether state of operators that the job doesn't have may be dropped.
        parallelisms: The parallelism of all possible senders to the operators, by uid; None if unknown.
        where: The snapshot's location, for errors.
    """

    def __init__(
        self,
        metadata: CheckpointMetadata,
        vertices: Iterable[JobVertex],
        *,
        allow_non_restored: bool = False,
        parallelisms: Mapping[str, int] | None = None,
        where: str | None = None,
    ) -> None:
        self._metadata = metadata
        self._where = where
        self._vertices = {vertex.uid: vertex for vertex in vertices}
        self._allow_non_restored = allow_non_restored
        self._parallelisms = parallelisms

    def assign(self) -> StateAssignment:
        """Return the assignment.

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

    def _assign_operator(self, operator: OperatorState, vertex: JobVertex, assignment: StateAssignment) -> None:
        old = [operator.subtasks.get(index, OperatorSubtaskState()) for index in range(operator.parallelism)]
        keyed = [handle for state in old for handle in state.keyed_state]
        _check_whole(operator, keyed)
        _assign_keyed(keyed, operator, vertex, assignment.keyed_state_handles)
        raw_keyed = [handle for state in old for handle in state.raw_keyed_state]
        _assign_keyed(raw_keyed, operator, vertex, assignment.raw_keyed_state)
        _assign_shares([state.operator_state for state in old], vertex, assignment.operator_state)
        _assign_shares([state.raw_operator_state for state in old], vertex, assignment.raw_operator_state)
        in_flight = {(vertex.uid, index): state.input_channel_state for index, state in enumerate(old)}
        found = {place: state for place, state in in_flight.items() if state is not None}
        if found and vertex.parallelism != operator.parallelism:
            before = operator.parallelism
            raise data_in_flight_stays(vertex.uid, f"its parallelism was {before} and is {vertex.parallelism}", before)
        if self._parallelisms is not None:
            for state in found.values():
                refusal = state.senders_changed(vertex.uid, self._parallelisms)
                if refusal is not None:
                    raise refusal
        assignment.in_flight.update(found)

    def _max_parallelism(self, vertex: JobVertex, operator: OperatorState | None) -> int:
        explicit = vertex.max_parallelism
        if operator is None or not operator.has_keyed_state:  # nothing but keyed state is bound to key groups
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
        message = (
            f"Cannot map checkpoint/savepoint state for operator {operator.uid} ({operator.name!r}) to the new program, "
            f"because the operator is not available in the new program."
        )
        near = self._nearest(operator)
        allow = "to leave that state behind: --allowNonRestoredState"
        hint = allow
        if near:
            which = " or ".join(f"{vertex.uid} ({vertex.name!r})" for vertex in near)
            hint = f'is it {which} now? Then give that one .uid("{operator.uid}"); {allow}'
        where = self._where or f"checkpoint {self._metadata.checkpoint_id}"
        return RestoreError(message, where=where, hint=hint, table=self._side_by_side(set(missing)))

    def _new_vertices(self) -> list[JobVertex]:
        known = {operator.uid for operator in self._metadata.operators}
        return [vertex for vertex in self._vertices.values() if vertex.uid not in known]

    def _nearest(self, operator: OperatorState) -> list[JobVertex]:
        """Return the new operators of the job that may correspond to an operator of the snapshot."""
        free = {vertex.uid: vertex for vertex in self._new_vertices()}
        near = difflib.get_close_matches(operator.uid, free, n=3, cutoff=0.5)
        near += [uid for uid, vertex in free.items() if vertex.name == operator.name and uid not in near]
        return [free[uid] for uid in near]

    def _side_by_side(self, missing: set[str]) -> list[tuple[str, str]]:
        """Return the operators of snapshot and job as a table, by uid."""
        rows = [("savepoint operators", "job operators")]
        offered: set[str] = set()
        for operator in self._metadata.operators:
            vertex = self._vertices.get(operator.uid)
            if vertex is not None:
                ours = _shown(vertex)
            elif operator.uid in missing:
                near = self._nearest(operator)
                offered.update(one.uid for one in near)
                ours = f"missing; nearest: {', '.join(map(_shown, near))}" if near else "missing"
            else:
                ours = "- (no state to restore)"
            rows.append((_shown(operator), ours))
        rows += [("-", f"{_shown(vertex)}, new") for vertex in self._new_vertices() if vertex.uid not in offered]
        return rows


def _shown(operator: OperatorState | JobVertex) -> str:
    return f"{operator.uid} ({operator.name})"


def _check_whole(operator: OperatorState, handles: list[AnyKeyedStateHandle]) -> None:
    """Reject a snapshot in which some key groups have no handle: their state would be lost silently."""
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


def _assign_keyed(
    handles: list[H],
    operator: OperatorState,
    vertex: JobVertex,
    assigned: dict[tuple[str, int], list[H]],
) -> None:
    for handle in handles:
        first, last = (
            operator_index(group, vertex.parallelism, operator.max_parallelism)
            for group in (handle.start_key_group, handle.end_key_group)
        )
        for index in range(first, last + 1):
            assigned.setdefault((vertex.uid, index), []).append(handle)


def _assign_shares(
    old: list[list[OperatorStateHandle]], vertex: JobVertex, assigned: dict[tuple[str, int], list[OperatorStateShare]]
) -> None:
    for index, shares in enumerate(repartition(old, vertex.parallelism)):
        if shares:
            assigned[(vertex.uid, index)] = shares
