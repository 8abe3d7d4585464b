"""The lifecycle of one operator in one subtask, from creation to close.

    create -> initialize_state -> open -> elements, snapshot_state at barriers, notify -> close

Between creation and close it runs epochs: the changes of an epoch to the operator's state are committed or rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from pystate.common.configuration.execution_options import ExecutionOptions
from pystate.common.errors import JobGraphError
from pystate.common.key_groups import KeyGroupRange
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.common.user_code.inlined_code import inlined
from pystate.connectors.sink_operator import SinkOperator
from pystate.connectors.source_operator import SourceOperator
from pystate.core.api.checkpointed import BoundedOneInput, CheckpointedFunction, CheckpointListener, ListCheckpointed
from pystate.core.api.functions import Function, SinkFunction
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.state import ListStateDescriptor
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.operator.operator_state_backend import OperatorStateBackend
from pystate.core.state.operator.raw_state import RawKeyedStateWriter, RawOperatorStateWriter
from pystate.runtime.plan.chain import OperatorSpec, function_object
from pystate.runtime.slot.event_time.chain_time import ChainTime
from pystate.runtime.slot.operators.async_wait import AsyncWaitOperator
from pystate.runtime.slot.operators.broadcast import broadcast_handlers
from pystate.runtime.slot.operators.column_reduces import column_reduce
from pystate.runtime.slot.operators.contexts import InitializationContext, SnapshotContext, SubtaskRuntimeContext
from pystate.runtime.slot.operators.epoch_results import EpochResults
from pystate.runtime.slot.operators.interval_join import IntervalJoinOperator
from pystate.runtime.slot.operators.keyed import final_reduce_handler, keyed_context, reduce_handler
from pystate.runtime.slot.operators.keyed_batches import ColumnHandler, ColumnOutput, KeyedBatchHandler, takes_batches
from pystate.runtime.slot.operators.one_input import Emit, callables, process_handler, stateless_handler
from pystate.runtime.slot.operators.operator_output import Output
from pystate.runtime.slot.operators.sink_functions import sink_handler
from pystate.runtime.slot.operators.source_input import SourceInput
from pystate.runtime.slot.operators.timestamps import TimestampsAndWatermarks
from pystate.runtime.slot.operators.two_input import two_input_handlers
from pystate.runtime.slot.operators.windowing.aligned_windows import AlignedWindowOperator, is_aligned
from pystate.runtime.slot.operators.windowing.pane_windows import PaneWindowOperator, pane_state
from pystate.runtime.slot.operators.windowing.window_columns import window_columns
from pystate.runtime.slot.operators.windowing.window_operator import WindowOperator
from pystate.runtime.slot.snapshots.frozen_task import FrozenOperator
from pystate.runtime.slot.timers.internal_timer_service import InternalTimeServiceManager

if TYPE_CHECKING:
    from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator

LIST_CHECKPOINTED_STATE = "_default_"
"""The name of the list state that holds the parts of a `ListCheckpointed` function, as in Flink."""

_TWO_INPUT = (OperatorKind.CO_MAP, OperatorKind.CO_FLAT_MAP, OperatorKind.CO_PROCESS, OperatorKind.KEYED_CO_PROCESS)
_KEYED = (OperatorKind.PROCESS, OperatorKind.REDUCE, OperatorKind.WINDOW, OperatorKind.INTERVAL_JOIN)
_BROADCAST = (OperatorKind.BROADCAST_PROCESS, OperatorKind.KEYED_BROADCAST_PROCESS)


ProcessKeyedBatch = Callable[[Sequence[Hashable], Sequence[int], Sequence[Any], Sequence[int | None]], None]
"""(internal keys, key groups, elements, timestamps)"""


class Operator:
    """One operator of one subtask.

    Args:
        spec: The operator's specification.
        context: The runtime context of its function.
        backend: The keyed state; None for an operator that doesn't directly follow key_by().
        key_groups: The key groups of the subtask.
        time: The chain's time.
        watermark: Returns the event time of an operator downstream of an assigner; None if that is the chain's.

    Attributes:
        state: Its operator state.
        timers: Its timer services; None if it has no keyed state.
        assigner: The timestamp assigner, if the operator is one.
        async_wait: The pending asynchronous calls, if the operator makes such calls.
        epoch_results: The results that wait for the end of the epoch, if the operator emits one result per key and epoch.
        process_batch: Processes the elements of a batch with their keys and timestamps, in a keyed operator that supports
            it. None for one that processes them one by one.
        columns: Processes whole batches as columns; None for an operator that processes elements.
        source: The input that epochs read, if the operator is a source.
        touched: Whether the running epoch has passed an element to a function that keeps state in its own fields.
    """

    def __init__(
        self,
        spec: OperatorSpec,
        context: SubtaskRuntimeContext,
        backend: KeyedStateBackend | None,
        key_groups: KeyGroupRange,
        time: ChainTime,
        watermark: Callable[[], int] | None = None,
    ) -> None:
        self.spec = spec
        self.backend = backend
        self.timers = None if backend is None else InternalTimeServiceManager(backend, time)
        self.state = OperatorStateBackend(f"uid {spec.uid}")
        self.assigner: TimestampsAndWatermarks | None = None
        self.async_wait: AsyncWaitOperator | None = None
        self.epoch_results: EpochResults | None = None
        self.process_batch: ProcessKeyedBatch | None = None
        self.columns: ColumnHandler | None = None
        self.source: SourceInput | None = None
        self.touched = False
        self._context = context
        self._key_groups = key_groups
        self._time = time
        self._watermark = watermark
        self._function = function_object(spec.function)

    @property
    def keeps_fields(self) -> bool:
        """Whether the function keeps state in its own fields, which is not rolled back with an epoch."""
        return isinstance(self._function, (CheckpointedFunction, ListCheckpointed, SinkFunction))

    @property
    def listens(self) -> bool:
        """Whether the function listens for completed checkpoints."""
        return isinstance(self._function, CheckpointListener)

    @property
    def is_broadcast(self) -> bool:
        """Whether the function has a broadcast side."""
        return self.spec.kind in _BROADCAST

    def initialize_state(self, restored: RestoredOperator, checkpoint_id: int | None) -> None:
        """Restore the operator state, and let the function initialize from it.

        Args:
            restored: The restored state of this subtask. Keyed state has been restored before.
            checkpoint_id: The checkpoint that the job starts from, or None.
        """
        restored.restore_operator(self.state)
        function = self._function
        if isinstance(function, CheckpointedFunction):
            function.initialize_state(
                InitializationContext(
                    restored_checkpoint_id=checkpoint_id,
                    operator_state=self.state,
                    keyed_state=self._context,
                    raw_keyed=lambda: restored.raw_keyed(self._key_groups),
                    raw_operator=restored.raw_operator,
                )
            )
        elif isinstance(function, ListCheckpointed):
            parts = self._parts().get()
            if checkpoint_id is not None:
                function.restore_state(list(parts))

    def open(self) -> None:
        """Open the function."""
        if isinstance(self._function, Function):
            self._function.open(self._context)

    def handlers(self, output: Output, input_types: Sequence[TypeInformation | None] = ()) -> list[Emit]:
        """Return the handler of each input's elements.

        Args:
            output: Receives the results.
            input_types: The element types of the inputs, for a head.
        """
        made = self._handlers(output, input_types)
        return [self._marking(handle) for handle in made] if self.keeps_fields else made

    def advance_watermark(self, watermark: int) -> None:
        """Fire the timers due at an event time, after pending calls, so that no watermark overtakes them."""
        if self.timers is not None:
            self._fire(self.timers.advance_watermark, watermark)
        self.drain()

    def advance_processing_time(self, now: int) -> None:
        """Fire the due processing-time timers."""
        if self.timers is not None:
            self._fire(self.timers.advance_processing_time, now)

    def end_input(self) -> None:
        """Notify the function that no element follows."""
        self.drain()
        if isinstance(self._function, BoundedOneInput):
            self.touched |= self.keeps_fields
            self._function.end_input()

    def drain(self) -> None:
        """Wait for pending calls, see `AsyncWaitOperator.drain`; emit what waits for the end of an epoch."""
        if self.epoch_results is not None:
            self.epoch_results.drain()
        if self.async_wait is not None:
            self.async_wait.drain()

    def interrupt(self) -> bool:
        """Make threads that wait for pending calls fail; return whether the operator makes such calls at all."""
        if self.async_wait is not None:
            self.async_wait.interrupt()
        return self.async_wait is not None

    def _fire(self, advance: Callable[[int], int], time: int) -> None:
        self.state.read_only = self.is_broadcast  # each subtask has different timers
        try:
            fired = advance(time)
        finally:
            self.state.read_only = False
        self.touched |= fired > 0 and self.keeps_fields

    def finish_epoch(self) -> list[Callable[[], None]]:
        """Return the functions that commit the epoch's changes to the operator state; may fail, and changes nothing yet."""
        changes = self.state.prepare_flush()
        return changes if self.assigner is None else [*changes, self.assigner.finish_epoch]

    def roll_back_epoch(self) -> bool:
        """Discard the epoch's changes of the operator state; return whether the function's own fields have changed, too."""
        self.state.roll_back_epoch()
        if self.assigner is not None:
            self.assigner.roll_back_epoch()
        if self.async_wait is not None:
            self.async_wait.roll_back_epoch()
        if self.epoch_results is not None:
            self.epoch_results.roll_back_epoch()
        touched, self.touched = self.touched, False
        return touched

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> FrozenOperator:
        """Have the function store its fields in its state, and freeze the operator state.

        If the function raises, its changes to the operator state in this call are undone. Keyed state is not frozen here.
        """
        function, where = self._function, f"uid {self.spec.uid}"
        raw_keyed = None if self.backend is None else RawKeyedStateWriter(self._key_groups)
        raw_operator = RawOperatorStateWriter()
        try:
            if isinstance(function, CheckpointedFunction):
                function.snapshot_state(SnapshotContext(checkpoint_id, timestamp, raw_keyed, raw_operator, where))
            elif isinstance(function, ListCheckpointed):
                self._parts().update(function.snapshot_state(checkpoint_id, timestamp) or [])
            self._flush_state()
        except BaseException:
            self.state.roll_back_epoch()
            raise
        return FrozenOperator(
            self.spec.uid,
            self._key_groups,
            operator=self.state.snapshot(),
            raw_keyed=None if raw_keyed is None else raw_keyed.snapshot(),
            raw_operator=raw_operator.snapshot(),
        )

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the function that a checkpoint is complete."""
        if isinstance(self._function, CheckpointListener):
            self._function.notify_checkpoint_complete(checkpoint_id)
            self._flush_state()

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify the function that a checkpoint was aborted."""
        if isinstance(self._function, CheckpointListener):
            self._function.notify_checkpoint_aborted(checkpoint_id)
            self._flush_state()

    def commit_rest(self) -> None:
        """Have a sink commit everything, at the end of a job that takes no checkpoints."""
        if isinstance(self._function, SinkOperator):
            self._function.commit_rest()

    def close(self) -> None:
        """Cancel pending calls, and close the function."""
        if self.async_wait is not None:
            self.async_wait.close()
        if isinstance(self._function, Function):
            self._function.close()

    def _parts(self) -> Any:
        return self.state.get_list_state(ListStateDescriptor(LIST_CHECKPOINTED_STATE))

    def _touch(self) -> None:
        self.touched = True

    def _flush_state(self) -> None:
        self.state.finish_epoch()

    def _handlers(self, output: Output, input_types: Sequence[TypeInformation | None]) -> list[Emit]:
        kind, function, backend, time = self.spec.kind, self.spec.function, self.backend, self._time
        if kind is OperatorKind.ASSIGN_TIMESTAMPS:
            self.assigner = TimestampsAndWatermarks(function, output.emit, time, self.spec.name)
            return [self.assigner.process_element]
        if kind is OperatorKind.ASYNC_WAIT:
            self.async_wait = AsyncWaitOperator(function, output.emit, time, f"uid {self.spec.uid}")
            return [self.async_wait.process_element]
        if kind in _TWO_INPUT:
            return two_input_handlers(kind, function, output, time, backend, self.timers)
        if kind in _BROADCAST:
            where = f"uid {self.spec.uid}"
            descriptors = self.spec.descriptors
            return broadcast_handlers(kind, function, descriptors, output, time, backend, self.timers, self.state, where)
        if isinstance(function, SourceOperator):
            self.source = SourceInput(function, output.emit, time, self.spec.uid, self._touch)
            return [output.emit]
        if kind is OperatorKind.SINK:
            return [sink_handler(callables(kind, function)[0], time, self._watermark)]
        if kind in _KEYED:
            return self._keyed_handlers(output, input_types)
        return [stateless_handler(kind, function, output, time, self._watermark)]

    def _keyed_handlers(self, output: Output, input_types: Sequence[TypeInformation | None]) -> list[Emit]:
        kind, function, backend, timers = self.spec.kind, self.spec.function, self.backend, self.timers
        if backend is None or timers is None:
            message = f"{self.spec.name!r} doesn't stand directly after key_by()."
            raise JobGraphError(message, where=f"uid {self.spec.uid}", hint="put key_by(...) before it")
        if kind is OperatorKind.INTERVAL_JOIN:
            join = IntervalJoinOperator(function, input_types, backend, self._context, self._time, timers, output)
            return join.handlers()
        input_type = input_types[0]
        if kind is OperatorKind.WINDOW:
            where = f"uid {self.spec.uid}"
            made = AlignedWindowOperator if is_aligned(function) else WindowOperator
            if pane_state(function, input_type) is not None and not self._time.sorted_input:
                made = PaneWindowOperator
            windows = made(function, input_type, backend, self._context, self._time, timers, output, where)
            if isinstance(windows, AlignedWindowOperator):
                self.process_batch = windows.process_batch
                self.columns = None if self._time.sorted_input else window_columns(function, input_type, windows, where)
            return [windows.process_element]
        calls = callables(kind, function)
        if kind is OperatorKind.REDUCE:
            if self._time.sorted_input:
                return [final_reduce_handler(calls[0], output.emit, backend, input_type, timers)]
            emit, where = output.emit, f"uid {self.spec.uid}"
            if self._context.get_job_configuration().get(ExecutionOptions.MINI_BATCH_ENABLED):
                self.epoch_results = EpochResults(backend.key_context, self._time, emit)
                emit = self.epoch_results.note
            one_by_one = reduce_handler(calls[0], emit, backend, input_type)
            columns = ColumnOutput(output, input_type, where)
            self.columns = column_reduce(function, input_type, backend, columns, one_by_one, where, self.epoch_results)
            return [one_by_one]
        context = keyed_context(function, output, self._time, backend, timers)
        if takes_batches(function):
            if input_type is None or input_type.kind is TypeKind.PICKLED_BYTE_ARRAY:
                message = f"process_batch of {self.spec.name!r} takes columns, and the elements have no type."
                raise JobGraphError(
                    message, where=f"uid {self.spec.uid}", hint="give the step before key_by() an output_type"
                )
            columns = ColumnOutput(output, self.spec.output_type, f"uid {self.spec.uid}")
            self.columns = KeyedBatchHandler(function.process_batch, context, backend, self._time, output, columns)
        return [process_handler(call, output, context) for call in calls]

    def _marking(self, handle: Emit) -> Emit:
        return inlined(lambda code, element: [f"{code.bind(self, 'operator')}.touched = True", *code.apply(handle, element)])
