"""Reports completely how a program fits a snapshot: each operator and source of both, and all problems.

A start ends at the first problem; before stopping a job, users want to see all of them. Spark isn't needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import StateRecoveryOptions
from pystate.common.errors import PystateError
from pystate.common.type_info import TypeInformation
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import SourceTransformation
from pystate.core.snapshot.handles.input_channel_state import no_channels
from pystate.core.snapshot.operator_state import OperatorState
from pystate.core.snapshot.starting_snapshot import Snapshot
from pystate.core.snapshot.state_assignment import JobVertex, StateAssignmentOperation
from pystate.core.state.keys.keys import key_type_name
from pystate.runtime.driver.program.early_check import (
    has_channels,
    key_type_refusal,
    native_refusal,
    parallelisms_of,
    vertices_of,
)
from pystate.runtime.engines.micro_batch.spark.source_progress import source_progress
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import NO_OFFSET


class Fit(Enum):
    """How an operator or a source is restored."""

    RESTORED = "restored"
    NEW = "new"
    LEFT = "left behind"
    MISFIT = "does not fit"


@dataclass(frozen=True)
class Fitted:
    """An operator or a source of the program or the snapshot.

    Attributes:
        uid: Its identity in snapshot and program.
        fit: How it is restored.
        before: Its description in the snapshot; None if it isn't there.
        after: Its description in the program; None if it isn't there.
        problem: Why it does not fit.
        hint: What to do about it.
    """

    uid: str
    fit: Fit
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    problem: str | None = None
    hint: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-able data."""
        return {
            "uid": self.uid,
            "fit": self.fit.value,
            "snapshot": self.before,
            "program": self.after,
            "problem": self.problem,
            "hint": self.hint,
        }


@dataclass(frozen=True)
class RestoreCheck:
    """How a program fits a snapshot."""

    path: str
    operators: list[Fitted]
    sources: list[Fitted]

    @property
    def fits(self) -> bool:
        """Whether a job of the program would start."""
        return all(one.fit is not Fit.MISFIT for one in (*self.operators, *self.sources))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-able data."""
        return {
            "path": self.path,
            "fits": self.fits,
            "operators": [operator.to_json() for operator in self.operators],
            "sources": [source.to_json() for source in self.sources],
        }


def check_against(
    graph: StreamGraph, uids: Mapping[int, str], configuration: Configuration, snapshot: Snapshot
) -> RestoreCheck:
    """Return how a program fits a snapshot.

    The types of values are declared in `open()`, which runs in slots: they are compared there. The types of keys that are
    columns are known with Spark only.

    Args:
        graph: The program.
        uids: The uid of every step, by `id(step)`.
        configuration: The options in force.
        snapshot: What is to be restored.

    Raises:
        SnapshotError: The snapshot can't be read.
    """
    allow = configuration.get(StateRecoveryOptions.SAVEPOINT_IGNORE_UNCLAIMED_STATE)
    operators = _Operators(graph, uids, configuration, snapshot, allow=allow)
    return RestoreCheck(snapshot.location.uri, list(operators.fitted()), list(_sources(graph, uids, snapshot, allow=allow)))


class _Operators:
    """The operators of program and snapshot side by side."""

    def __init__(
        self,
        graph: StreamGraph,
        uids: Mapping[int, str],
        configuration: Configuration,
        snapshot: Snapshot,
        *,
        allow: bool,
    ) -> None:
        self._configuration = configuration
        self._metadata = snapshot.metadata
        self._where = snapshot.location.uri
        self._allow = allow
        self._old = {operator.uid: operator for operator in snapshot.metadata.operators if operator.has_state}
        self._vertices = vertices_of(graph, uids, configuration, self._old.keys())
        self._parallelisms = parallelisms_of(graph, uids, configuration)
        self._has_channels = has_channels(configuration)
        self._steps = {uids[id(step)]: step for step in graph.transformations()}

    def fitted(self) -> Iterator[Fitted]:
        """Yield the operators of the snapshot, then the new ones."""
        ours = {vertex.uid: vertex for vertex in self._vertices}
        for uid, operator in self._old.items():
            vertex = ours.get(uid)
            yield self._missing(operator) if vertex is None else self._both(operator, vertex)
        for vertex in self._vertices:
            if vertex.uid not in self._old:
                yield Fitted(vertex.uid, Fit.NEW, None, _of_program(vertex, vertex.max_parallelism))

    def _missing(self, operator: OperatorState) -> Fitted:
        if self._allow:
            return Fitted(operator.uid, Fit.LEFT, _of_snapshot(operator), None)
        # told with all operators of the program: one of them may be the same under another uid
        error = self._refusal(operator, self._vertices)
        return _misfit(operator.uid, _of_snapshot(operator), None, error)

    def _both(self, operator: OperatorState, vertex: JobVertex) -> Fitted:
        before, after = _of_snapshot(operator), _of_program(vertex, operator.max_parallelism)
        error = self._refusal(operator, [vertex])
        if error is None:
            error = key_type_refusal(vertex.uid, self._steps[vertex.uid], operator)
        if error is None:
            error = native_refusal(self._configuration, operator)
        if error is None:
            return Fitted(operator.uid, Fit.RESTORED, before, after)
        explicit = vertex.max_parallelism
        return _misfit(operator.uid, before, _of_program(vertex, explicit or operator.max_parallelism), error)

    def _refusal(self, operator: OperatorState, vertices: list[JobVertex]) -> PystateError | None:
        alone = replace(self._metadata, operators=[operator])
        if alone.has_data_in_flight and not self._has_channels:
            return no_channels(self._where)
        try:
            StateAssignmentOperation(alone, vertices, parallelisms=self._parallelisms).assign()
        except PystateError as error:
            return error
        return None


def _misfit(uid: str, before: dict[str, Any] | None, after: dict[str, Any] | None, error: PystateError | None) -> Fitted:
    assert error is not None  # noqa: S101 - asked where something is wrong
    return Fitted(uid, Fit.MISFIT, before, after, error.message, error.hint)


def _of_snapshot(operator: OperatorState) -> dict[str, Any]:
    key_type = None
    if operator.key_encoding is not None:
        plain = operator.key_type
        key_type = key_type_name(None if plain is None else TypeInformation.from_plain(plain))
    return {
        "name": operator.name,
        "parallelism": operator.parallelism,
        "max-parallelism": operator.max_parallelism,
        "key-type": key_type,
        "bytes": operator.state_size,
    }


def _of_program(vertex: JobVertex, max_parallelism: int | None) -> dict[str, Any]:
    return {"name": vertex.name, "parallelism": vertex.parallelism, "max-parallelism": max_parallelism}


def _sources(graph: StreamGraph, uids: Mapping[int, str], snapshot: Snapshot, *, allow: bool) -> Iterator[Fitted]:
    ours = {uids[id(source)]: source for source in graph.spark_sources()}
    position = snapshot.metadata.source_position
    read = []
    if position is not None:
        read = source_progress(position, snapshot.location.read_whole(position.files))
    # a source may be made of several streams of Spark's
    for uid in dict.fromkeys(one.uid for one in read):
        before = {"position": "; ".join(one.words for one in read if one.uid == uid)}
        source = ours.get(uid)
        if source is not None:
            offsets = [one.offset for one in read if one.uid == uid and one.offset != NO_OFFSET]
            yield _resumed(uid, source, before, offsets)
        elif allow:
            yield Fitted(uid, Fit.LEFT, before, None)
        else:
            message = f"The job has no source {uid!r}, of which the snapshot says how far it was read."
            hint = "give the source its old uid, or leave it behind with --allowNonRestoredState"
            yield Fitted(uid, Fit.MISFIT, before, None, message, hint)
    in_slots = {operator.uid for operator in snapshot.metadata.operators if operator.has_state}
    for uid, source in ours.items():
        if uid not in in_slots and all(one.uid != uid for one in read):
            yield Fitted(uid, Fit.NEW, None, {"name": source.name})


def _resumed(uid: str, source: SourceTransformation, before: dict[str, Any], offsets: list[str]) -> Fitted:
    after = {"name": source.name}
    if source.collection is not None:
        from pystate.runtime.spark.spark_collection_source import check_collection_offset

        try:
            for offset in offsets:
                check_collection_offset(source, offset)
        except PystateError as error:
            return _misfit(uid, before, after, error)
    return Fitted(uid, Fit.RESTORED, before, after)
