"""Runs `StateBootstrapFunction` and `BroadcastStateBootstrapFunction` over data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pystate.common.errors import StateError
from pystate.common.type_info import TypeInformation
from pystate.core.api.state import BroadcastState, MapStateDescriptor
from pystate.core.snapshot.handles.operator_state_handle import OPERATOR_STATE, OperatorStateHandle, StateMetaInfo
from pystate.core.snapshot.operator_state import OperatorSubtaskState
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.operator.format import OperatorStateMode
from pystate.core.state.operator.operator_state_backend import OperatorStateBackend, OperatorStateSnapshot
from pystate.core.state.operator.raw_state import RawOperatorStateWriter
from pystate.runtime.slot.operators.contexts import InitializationContext, SnapshotContext
from pystate.state_processor.entry_frames import INLINE_BYTES
from pystate.state_processor.offline import OfflineRuntimeContext, pickled, unpickled
from pystate.state_processor.processor_functions import BroadcastStateBootstrapFunction, StateBootstrapFunction
from pystate.state_processor.results import collect_all, result_batch, result_schema
from pystate.state_processor.transformations import (
    ORDINAL_FIELD,
    Elements,
    OperatorStateTransformation,
    OperatorTarget,
    decoded,
)


@dataclass(frozen=True)
class OperatorStateBootstrap(OperatorStateTransformation):
    """A bootstrap function over non-keyed elements.

    Attributes:
        elements: The elements.
        function: The function.
    """

    elements: Elements
    function: StateBootstrapFunction | BroadcastStateBootstrapFunction
    _taken: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Pickle the function in its current state, like jobs do."""
        object.__setattr__(self, "_taken", pickled(self.function))

    def write(self, target: OperatorTarget, location: SnapshotLocation, prefix: str) -> dict[int, OperatorSubtaskState]:
        """Write the states."""
        is_broadcast = isinstance(self.function, BroadcastStateBootstrapFunction)
        parallelism = 1 if is_broadcast else target.parallelism
        subtasks = (parallelism, target.parallelism, target.max_parallelism)
        run = _Run(target.uid, self._taken, self.elements.type_info, subtasks, location, prefix)
        parts = self.elements.frame(target.spark).repartition(parallelism).sortWithinPartitions(ORDINAL_FIELD)
        written = {}
        for index, (handle, plain) in collect_all(parts.mapInArrow(run, result_schema())).items():
            states = {name: StateMetaInfo(OperatorStateMode(mode), count) for name, mode, count in plain}
            written[index] = OperatorSubtaskState(operator_state=[OperatorStateHandle(states, OPERATOR_STATE, handle)])
        if not written:
            message = f"{type(self.function).__name__} declares no state."
            raise StateError(message, where=f"uid {target.uid}")
        # broadcast state is the same in all subtasks, so all refer to one file
        return {index: written[0] for index in range(target.parallelism)} if is_broadcast else written


class _BroadcastContext(BroadcastStateBootstrapFunction.Context):
    def __init__(self, backend: OperatorStateBackend) -> None:
        self._backend = backend

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        return self._backend.get_broadcast_state(state_descriptor)


@dataclass(frozen=True)
class _Run:
    """The code that runs in the tasks."""

    uid: str
    function: bytes
    type_info: TypeInformation | None
    subtasks: tuple[int, int, int]
    location: SnapshotLocation
    prefix: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the function over the elements of one subtask, and write its state."""
        from pyspark import TaskContext

        task = TaskContext.get()
        subtask = 0 if task is None else task.partitionId()
        backend = OperatorStateBackend(f"uid {self.uid}")
        function = unpickled(self.function)
        parallelism, max_parallelism = self.subtasks[1:]
        context = OfflineRuntimeContext(self.uid, function, (subtask, parallelism), max_parallelism, None)
        elements = (element for _, found in decoded(self.type_info, batches) for element in found)
        if isinstance(function, BroadcastStateBootstrapFunction):
            self._feed_broadcast(function, backend, context, elements)
        else:
            self._feed(function, backend, context, elements)
        backend.finish_epoch()
        snapshot = backend.snapshot()
        if snapshot is not None:
            yield self._written(subtask, snapshot)

    @staticmethod
    def _feed_broadcast(
        function: BroadcastStateBootstrapFunction,
        backend: OperatorStateBackend,
        context: OfflineRuntimeContext,
        elements: Iterator[Any],
    ) -> None:
        function.open(context)
        ctx = _BroadcastContext(backend)
        for element in elements:
            function.process_element(element, ctx)
        function.close()

    @staticmethod
    def _feed(
        function: StateBootstrapFunction,
        backend: OperatorStateBackend,
        context: OfflineRuntimeContext,
        elements: Iterator[Any],
    ) -> None:
        function.initialize_state(InitializationContext(None, backend, context, lambda: iter(()), lambda: iter(())))
        function.open(context)
        ctx = StateBootstrapFunction.Context()
        for element in elements:
            function.process_element(element, ctx)
        raw = RawOperatorStateWriter()
        function.snapshot_state(SnapshotContext(0, 0, None, raw, context.get_task_name()))
        if raw.snapshot() is not None:
            message = "A bootstrap function can't write raw state."
            raise StateError(message, where=context.get_task_name())
        function.close()

    def _written(self, subtask: int, snapshot: OperatorStateSnapshot) -> pa.RecordBatch:
        handle = self.location.write_state(f"{self.prefix}-{subtask}-operator", snapshot.write, INLINE_BYTES)
        states = [[info.name, info.mode.value, info.entries] for info in snapshot.infos]
        return result_batch(subtask, handle, states)
