"""The lifecycle of one operator in one subtask, from creation to close.

    create -> initialize_state -> open -> elements, snapshot_state at barriers, notify -> close

Between creation and close it runs epochs: the changes of an epoch to the operator's state are committed or rolled back. What
it does with elements is its class's own: each family of kinds has one, in a module of this folder.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pystate.common.key_groups import KeyGroupRange
from pystate.common.type_info import TypeInformation
from pystate.common.user_code.inlined_code import inlined
from pystate.core.api.checkpointed import BoundedOneInput, CheckpointedFunction, CheckpointListener, ListCheckpointed
from pystate.core.api.functions import Function, SinkFunction
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.state import ListStateDescriptor
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.operator.operator_state_backend import OperatorStateBackend
from pystate.core.state.operator.raw_state import RawKeyedStateWriter, RawOperatorStateWriter
from pystate.runtime.plan.chain import OperatorSpec, function_object
from pystate.runtime.slot.event_time.chain_time import ChainTime
from pystate.runtime.slot.operators.contexts import InitializationContext, SnapshotContext, SubtaskRuntimeContext
from pystate.runtime.slot.operators.keyed_batches import ColumnHandler
from pystate.runtime.slot.operators.one_input import Emit
from pystate.runtime.slot.operators.operator_output import Output
from pystate.runtime.slot.operators.source_input import SourceInput
from pystate.runtime.slot.operators.timestamps import TimestampsAndWatermarks
from pystate.runtime.slot.snapshots.frozen_task import FrozenOperator
from pystate.runtime.slot.timers.internal_timer_service import InternalTimeServiceManager

if TYPE_CHECKING:
    from pystate.runtime.slot.snapshots.restored_operator import RestoredOperator

LIST_CHECKPOINTED_STATE = "_default_"
"""The name of the list state that holds the parts of a `ListCheckpointed` function, as in Flink."""

ProcessKeyedBatch = Callable[[Sequence[Hashable], Sequence[int], Sequence[Any], Sequence[int | None]], None]
"""(internal keys, key groups, elements, timestamps)"""


class Operator(ABC):
    """One operator of one subtask; a subclass runs those of some kinds.

    Args:
        spec: The operator's specification.
        context: The runtime context of its function.
        backend: The keyed state; None for an operator that doesn't directly follow key_by().
        key_groups: The key groups of the subtask.
        time: The chain's time.
        watermark: Returns the event time of an operator downstream of an assigner; None if that is the chain's.

    Attributes:
        kinds: The kinds that the class runs.
        is_broadcast: Whether the function has a broadcast side.
        state: Its operator state.
        timers: Its timer services; None if it has no keyed state.
        assigner: The timestamp assigner, if the operator is one.
        process_batch: Processes the elements of a batch with their keys and timestamps, in a keyed operator that supports
            it. None for one that processes them one by one.
        columns: Processes whole batches as columns; None for an operator that processes elements.
        source: The input that epochs read, if the operator is a source.
        touched: Whether the running epoch has passed an element to a function that keeps state in its own fields.
    """

    kinds: ClassVar[tuple[OperatorKind, ...]] = ()
    is_broadcast: ClassVar[bool] = False

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
        self.process_batch: ProcessKeyedBatch | None = None
        self.columns: ColumnHandler | None = None
        self.source: SourceInput | None = None
        self.touched = False
        self._where = f"uid {spec.uid}"
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

    @abstractmethod
    def _handlers(self, output: Output, input_types: Sequence[TypeInformation | None]) -> list[Emit]:
        """Return the handler of each input's elements; see `handlers`."""

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

    def drain(self) -> None:  # noqa: B027 - most emit at once
        """Emit what waits for the end of an epoch, or for pending calls."""

    def interrupt(self) -> bool:
        """Make threads that wait for pending calls fail; return whether the operator makes such calls at all."""
        return False

    def _fire(self, advance: Callable[[int], int], time: int) -> None:
        self.touched |= advance(time) > 0 and self.keeps_fields

    def finish_epoch(self) -> list[Callable[[], None]]:
        """Return the functions that commit the epoch's changes to the operator state; may fail, and changes nothing yet."""
        return self.state.prepare_flush()

    def roll_back_epoch(self) -> bool:
        """Discard the epoch's changes of the operator state; return whether the function's own fields have changed, too."""
        self.state.roll_back_epoch()
        touched, self.touched = self.touched, False
        return touched

    def snapshot_state(self, checkpoint_id: int, timestamp: int, *, last: bool = False) -> FrozenOperator:
        """Have the function store its fields in its state, and freeze the operator state.

        If the function raises, its changes to the operator state in this call are undone. Keyed state is not frozen here.
        """
        function = self._function
        raw_keyed = None if self.backend is None else RawKeyedStateWriter(self._key_groups)
        raw_operator = RawOperatorStateWriter()
        try:
            if isinstance(function, CheckpointedFunction):
                of_checkpoint = SnapshotContext(checkpoint_id, timestamp, raw_keyed, raw_operator, self._where, last)
                function.snapshot_state(of_checkpoint)
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

    def commit_rest(self) -> None:  # noqa: B027 - only sinks have something to commit
        """Commit everything, if it is a sink, at the end of a job that takes no checkpoints."""

    def close(self) -> None:
        """Close the function."""
        if isinstance(self._function, Function):
            self._function.close()

    def _parts(self) -> Any:
        return self.state.get_list_state(ListStateDescriptor(LIST_CHECKPOINTED_STATE))

    def _flush_state(self) -> None:
        self.state.finish_epoch()

    def _marking(self, handle: Emit) -> Emit:
        return inlined(lambda code, element: [f"{code.bind(self, 'operator')}.touched = True", *code.apply(handle, element)])
