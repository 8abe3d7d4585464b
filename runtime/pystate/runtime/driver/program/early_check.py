"""Checks of a program before Spark is started: of its graph, and of the snapshot it starts from.

Otherwise these errors would be found only after a Spark session has started, half a minute later. `pystate info` makes the
same checks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import StateRecoveryOptions
from pystate.common.configuration.groups.execution_options import (
    CoreOptions,
    ExecutionEngine,
    ExecutionOptions,
    PipelineOptions,
)
from pystate.common.configuration.groups.state_backend_options import StateBackendOptions
from pystate.common.errors import JobGraphError, PystateError, RestoreError
from pystate.common.user_code.taken import late_name_refusal
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import (
    KeyByTransformation,
    OneInputTransformation,
    OwnSourceTransformation,
    SinkKind,
    SinkTransformation,
    SourceTransformation,
    Transformation,
    TwoInputTransformation,
    is_read_by_spark,
)
from pystate.core.snapshot.handles.incremental_handle import IncrementalKeyedStateHandle
from pystate.core.snapshot.handles.input_channel_state import no_channels
from pystate.core.snapshot.operator_state import OperatorState
from pystate.core.snapshot.starting_snapshot import Snapshot
from pystate.core.snapshot.state_assignment import JobVertex, StateAssignmentOperation
from pystate.core.snapshot.storage.readability import check_readable
from pystate.core.state.base.backend_snapshot import unreadable_native
from pystate.core.state.base.loader import takes_native_snapshots
from pystate.runtime.execution.restore import key_type_changed, load_snapshot
from pystate.runtime.plan.chain import needs_slot
from pystate.runtime.plan.repeated_epochs import every_epoch_refusal

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PATTERN = re.compile(r"[{}\[\]*?\\]")


def check_before_spark(graph: StreamGraph, configuration: Configuration, *, starts: bool = True) -> Snapshot | None:
    """Reject a program that can't run or can't be restored, as far as that is known without Spark.

    Args:
        graph: The program.
        configuration: The options in force.
        starts: Whether the job is new. A recovering job has its own checkpoints, and may have deleted the snapshot that it
            was started from; a temporarily unavailable storage must not end it.

    Returns:
        The snapshot that the job is started from; None if there is none.

    Raises:
        JobGraphError: A uid is missing or used twice, a function refers to what was defined after it, or the files that a
            source reads are not there.
        RestoreError: There is no snapshot at `execution.state-recovery.path`, it doesn't fit the program, or a file
            of it may not be read.
        CorruptSnapshotError: It is damaged.
    """
    uids = graph.assign_uids(auto=configuration.get(PipelineOptions.AUTO_GENERATE_UIDS))
    if not starts:
        return None
    check_program(graph, configuration)
    path = configuration.get(StateRecoveryOptions.SAVEPOINT_PATH)
    if path is None:
        return None
    snapshot = load_snapshot(path)
    check_restore(graph, uids, configuration, snapshot)
    check_readable(snapshot.location, snapshot.metadata)
    return snapshot


def check_program(graph: StreamGraph, configuration: Configuration) -> None:
    """Reject a program that can't run, whatever it starts from.

    Args:
        graph: The program.
        configuration: The options in force.

    Raises:
        JobGraphError: A function refers to what was defined after it, the files that a source reads are not there, or epochs
            would have to be run again that need not have the same rows.
    """
    refusal = next(program_refusals(graph, configuration), None)
    if refusal is not None:
        raise refusal


def program_refusals(graph: StreamGraph, configuration: Configuration) -> Iterator[PystateError]:
    """Yield all reasons why a program can't run, whatever it starts from; see `check_program`."""
    yield from _late_names(graph)
    yield from _missing_paths(graph, configuration)
    in_slots = next((f"Source: {source.name}" for source in graph.live_sources() if _is_in_slots(source)), None)
    refusal = every_epoch_refusal(configuration, in_slots)
    if refusal is not None:
        yield refusal


def check_restore(graph: StreamGraph, uids: Mapping[int, str], configuration: Configuration, snapshot: Snapshot) -> None:
    """Reject a snapshot that doesn't fit a program: operators, key types that the program declares, max parallelism.

    The types of values are declared in `open()` and compared when the slots restore them.

    Args:
        graph: The program.
        uids: The uid of every step, by `id(step)`.
        configuration: The options in force.
        snapshot: What is to be restored.

    Raises:
        RestoreError: It doesn't fit.
        CorruptSnapshotError: It lacks the state of some key groups.
    """
    if snapshot.metadata.has_data_in_flight and not has_channels(configuration):
        raise no_channels(snapshot.location.uri)
    with_state = {operator.uid: operator for operator in snapshot.metadata.operators if operator.has_state}
    vertices = vertices_of(graph, uids, configuration, with_state.keys())
    allow = configuration.get(StateRecoveryOptions.SAVEPOINT_IGNORE_UNCLAIMED_STATE)
    parallelisms = parallelisms_of(graph, uids, configuration)
    StateAssignmentOperation(
        snapshot.metadata,
        vertices,
        allow_non_restored=allow,
        parallelisms=parallelisms,
        where=snapshot.location.uri,
    ).assign()
    for step in graph.transformations():
        uid = uids[id(step)]
        if uid not in with_state:
            continue
        refusal = key_type_refusal(uid, step, with_state[uid]) or native_refusal(configuration, with_state[uid])
        if refusal is not None:
            raise refusal


def has_channels(configuration: Configuration) -> bool:
    """Whether the engine can replay in-flight data.

    Args:
        configuration: The options in force.
    """
    return configuration.get(ExecutionOptions.ENGINE) is not ExecutionEngine.MICRO_BATCH


def parallelisms_of(graph: StreamGraph, uids: Mapping[int, str], configuration: Configuration) -> dict[str, int]:
    """Return the parallelism of every step of a program, on the engine that has channels, by uid.

    Args:
        graph: The program.
        uids: The uid of every step, by `id(step)`.
        configuration: The options in force.
    """
    parallelism = configuration.get(CoreOptions.DEFAULT_PARALLELISM)
    return {
        uids[id(step)]: 1 if _is_collection(step) else step.parallelism or parallelism for step in graph.transformations()
    }


def vertices_of(
    graph: StreamGraph, uids: Mapping[int, str], configuration: Configuration, with_state: Collection[str]
) -> list[JobVertex]:
    """Return the operators of a program that may have state, now or in a snapshot.

    Args:
        graph: The program.
        uids: The uid of every step, by `id(step)`.
        configuration: The options in force.
        with_state: The uids that have state in the snapshot.
    """
    parallelism = configuration.get(CoreOptions.DEFAULT_PARALLELISM)
    max_parallelism = max(0, configuration.get(PipelineOptions.MAX_PARALLELISM))
    steps = [(uids[id(step)], step) for step in graph.transformations()]
    return [
        JobVertex(uid, step.name, step.parallelism or parallelism, step.max_parallelism or max_parallelism or None)
        for uid, step in steps
        if _is_operator(step) and (uid in with_state or _may_keep_state(step)) or uid in with_state and _may_head_task(step)
    ]


def key_type_refusal(uid: str, step: Transformation, operator: OperatorState) -> RestoreError | None:
    """Return the error for a step whose declared key type doesn't match its state; None if they match.

    Args:
        uid: The step's.
        step: Of the program.
        operator: Its state in the snapshot.
    """
    if not operator.has_keyed_state:
        return None
    refusals = (key_type_changed(step.name, uid, operator, key_by.key_type) for key_by in _key_bys(step))
    return next((refusal for refusal in refusals if refusal is not None), None)


def native_refusal(configuration: Configuration, operator: OperatorState) -> RestoreError | None:
    """Return the error for native state, if the job's backend can't read it; None if it may.

    Args:
        configuration: The options in force.
        operator: Its state in the snapshot.
    """
    keyed = (handle for subtask in operator.subtasks.values() for handle in subtask.keyed_state)
    formats = {handle.format for handle in keyed if isinstance(handle, IncrementalKeyedStateHandle)}
    backend = configuration.get(StateBackendOptions.STATE_BACKEND)
    if not formats or takes_native_snapshots(backend) is not False:
        return None
    return unreadable_native(formats, f"the {backend} state backend")


def _late_names(graph: StreamGraph) -> Iterator[JobGraphError]:
    for step in graph.transformations():
        for taken in step.taken.values():
            for name, function in taken.names_defined_since():
                yield late_name_refusal(step.name, name, function, step.place)


def _missing_paths(graph: StreamGraph, configuration: Configuration) -> Iterator[JobGraphError]:
    """Yield the errors for local paths that don't exist, as Spark does later; files for a pattern may still be created."""
    elsewhere = any(key.endswith("fs.defaultFS") for key in configuration.key_set()) or "HADOOP_CONF_DIR" in os.environ
    for source, path in ((each, path) for each in graph.live_sources() for path in each.paths):
        local = path.removeprefix("file://").removeprefix("file:")
        is_local = local != path or not (elsewhere or _SCHEME.match(path))
        if is_local and not _PATTERN.search(path) and not os.path.exists(local):
            message = f"The source {source.name!r} reads {path}, which does not exist."
            hint = "make the folder, or mend the path; a relative one begins where the job was started"
            yield JobGraphError(message, where=source.place, hint=hint)


def _may_head_task(step: Transformation) -> bool:
    """Whether a step without an operator may be in a snapshot: with its position, or with data in flight to it."""
    return may_be_in_slots(step) or isinstance(step, SinkTransformation)


def may_be_in_slots(step: Transformation) -> bool:
    """Whether a step is a source that some engine runs in slots, with its position as state."""
    return isinstance(step, SourceTransformation) and (_is_collection(step) or step.in_slots is not None)


def _is_in_slots(source: SourceTransformation) -> bool:
    """Whether both engines run a source in slots."""
    return not is_read_by_spark(source) or (source.frame is None and source.in_slots is not None)


def _is_collection(step: Transformation) -> bool:
    """Whether a step is a collection of the program, which one subtask reads in order."""
    return isinstance(step, SourceTransformation) and step.collection is not None


def _is_operator(step: Transformation) -> bool:
    if isinstance(step, SinkTransformation):
        return step.kind is SinkKind.FUNCTION
    return isinstance(step, (OneInputTransformation, TwoInputTransformation, OwnSourceTransformation))


def _may_keep_state(step: Transformation) -> bool:
    keyed = isinstance(step, (OneInputTransformation, TwoInputTransformation)) and step.keyed
    return keyed or needs_slot(getattr(step, "function", None))


def _key_bys(step: Transformation) -> Iterator[KeyByTransformation]:
    """Yield the key_by() inputs of a step whose key type is known without the columns of the rows."""
    for parent in step.parents:
        if isinstance(parent, KeyByTransformation) and (parent.selector is not None or parent.key_type is not None):
            yield parent
