"""The interval join (Flink's IntervalJoinOperator): elements wait in keyed state for elements that may match them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, cast

from pystate.common.errors import RecordError
from pystate.common.overrides import override
from pystate.common.type_info import TypeInformation, Types
from pystate.core.api.functions import RuntimeContext
from pystate.core.api.interval_join_operation import IntervalJoinOperation
from pystate.core.api.join_functions import ProcessJoinFunction
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.output_tag import OutputTag
from pystate.core.api.state import MapState, MapStateDescriptor
from pystate.core.api.window.windows import MAX_TIMESTAMP
from pystate.core.metrics.metric import Counter
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.keys.namespaces import KeyNamespaceSerializer
from pystate.runtime.slot.event_time.chain_time import ChainTime
from pystate.runtime.slot.operators.buffered_times import BufferedTimes
from pystate.runtime.slot.operators.keyed_operators import KeyedOperator
from pystate.runtime.slot.operators.operator_output import Emit, Output
from pystate.runtime.slot.operators.windowing.window_operator import LATE_RECORDS
from pystate.runtime.slot.timers.internal_timer_service import InternalTimeServiceManager

BUFFERS = ("LEFT_BUFFER", "RIGHT_BUFFER")
"""The names of the states with the elements of each stream by timestamp, as in Flink."""

CLEANUP_TIMERS = "CLEANUP_TIMER"
"""The name of the cleanup timers' service, as in Flink."""

CLEANUP_NAMESPACES = ("CLEANUP_LEFT", "CLEANUP_RIGHT")


class JoinContext(ProcessJoinFunction.Context):
    """The context of the current pair.

    Attributes:
        left: The timestamp of the left element.
        right: The timestamp of the right element.
    """

    def __init__(self) -> None:
        self.left = self.right = 0

    def get_left_timestamp(self) -> int:
        """Return the timestamp of the left element."""
        return self.left

    def get_right_timestamp(self) -> int:
        """Return the timestamp of the right element."""
        return self.right

    def get_timestamp(self) -> int:
        """Return the later of the two timestamps."""
        return max(self.left, self.right)


class _Side(NamedTuple):
    """One of the two streams.

    Attributes:
        buffer: Its elements by timestamp.
        times: The timestamps in the buffer, by key.
        lower: The least time by which a matching element of the other stream is later than one of this stream, ms.
        upper: The most time by which it is later, ms.
        namespace: The namespace of its timers.
        late_tag: The side output of its late elements.
    """

    buffer: MapState[int, list[Any]]
    times: BufferedTimes
    lower: int
    upper: int
    namespace: str
    late_tag: OutputTag | None

    def cleanup_time(self, timestamp: int) -> int:
        """Return when an element can't be matched any more."""
        return timestamp + max(self.upper, 0)

    def timestamp(self, cleanup_time: int) -> int:
        """Return the timestamp of the elements that are removed at a time."""
        return cleanup_time - max(self.upper, 0)


class IntervalJoin:
    """Joins two keyed streams whose elements are close in event time.

    Args:
        operation: The join of the program.
        input_types: The types of the elements; None for untyped.
        backend: The keyed state.
        runtime: The operator's runtime context.
        time: The chain's time.
        timers: The operator's timer services.
        output: Receives the results.
    """

    def __init__(
        self,
        operation: IntervalJoinOperation,
        input_types: Sequence[TypeInformation | None],
        backend: KeyedStateBackend,
        runtime: RuntimeContext,
        time: ChainTime,
        timers: InternalTimeServiceManager,
        output: Output,
    ) -> None:
        lower, upper = operation.lower, operation.upper
        self._call = operation.function.process_element
        self._time = time
        self._output = output
        namespaces = KeyNamespaceSerializer(Types.STRING())
        self._timers = timers.get_internal_timer_service(CLEANUP_TIMERS, self, namespaces)
        buffers = [
            cast("MapState[int, list[Any]]", backend.get_partitioned_state(_buffer(name, type_info)))
            for name, type_info in zip(BUFFERS, input_types, strict=True)
        ]
        times = [BufferedTimes(buffer.keys, backend.kept_bytes // len(buffers)) for buffer in buffers]
        self._keys = backend.key_context
        self._left = _Side(buffers[0], times[0], lower, upper, CLEANUP_NAMESPACES[0], operation.left_late_tag)
        self._right = _Side(buffers[1], times[1], -upper, -lower, CLEANUP_NAMESPACES[1], operation.right_late_tag)
        self._context = JoinContext()
        self._late_records: Counter = runtime.get_metrics_group().counter(LATE_RECORDS)

    def process_left(self, element: Any) -> None:
        """Join a left element with the buffered right ones, and buffer it."""
        left, right, context = self._left, self._right, self._context
        timestamp = self._take(left, element)
        if timestamp is None:
            return
        context.left = timestamp
        for context.right in right.times.between(self._keys.active_key, timestamp + left.lower, timestamp + left.upper):
            for other in right.buffer.get(context.right) or ():
                self._join(element, other)

    def process_right(self, element: Any) -> None:
        """Join a right element with the buffered left ones, and buffer it."""
        left, right, context = self._left, self._right, self._context
        timestamp = self._take(right, element)
        if timestamp is None:
            return
        context.right = timestamp
        for context.left in left.times.between(self._keys.active_key, timestamp + right.lower, timestamp + right.upper):
            for other in left.buffer.get(context.left) or ():
                self._join(other, element)

    def on_event_time(self, timestamp: int, namespace: Any) -> None:
        """Remove the elements that can't be matched any more."""
        side = self._left if namespace == self._left.namespace else self._right
        removed = side.timestamp(timestamp)
        side.buffer.remove(removed)
        side.times.remove(self._keys.active_key, removed)

    def on_processing_time(self, timestamp: int, namespace: Any) -> None:
        """Do nothing: there are no such timers."""

    def _take(self, side: _Side, element: Any) -> int | None:
        """Buffer an element; return its timestamp, or None if it is late."""
        timestamp = self._time.timestamp
        if timestamp is None:
            message = "An element without a timestamp came to an interval join."
            raise RecordError(message, hint="put assign_timestamps_and_watermarks(...) before it")
        if timestamp < self._time.watermark:
            if side.late_tag is None:
                self._late_records.inc()
            else:
                self._output.emit_tagged(side.late_tag, element)
            return None
        is_new = side.times.add(self._keys.active_key, timestamp)
        elements = None if is_new else side.buffer.get(timestamp)
        if elements is None:
            side.buffer.put(timestamp, [element])
        else:
            elements.append(element)  # which the state notices when the epoch ends
        cleanup_time = side.cleanup_time(timestamp)
        if cleanup_time <= MAX_TIMESTAMP:
            self._timers.register_event_time_timer(side.namespace, cleanup_time)
        return timestamp

    def _join(self, left: Any, right: Any) -> None:
        """Call the function with a pair, and emit the results with the later timestamp of the two."""
        time, output = self._time, self._output
        before, time.timestamp = time.timestamp, self._context.get_timestamp()
        try:
            for result in self._call(left, right, self._context) or ():
                output.collect(result)
        finally:
            time.timestamp = before

    def forget_times(self) -> None:
        """Forget which timestamps are in the buffers: the running epoch's changes of them are discarded."""
        self._left.times.clear()
        self._right.times.clear()


def _buffer(name: str, type_info: TypeInformation | None) -> MapStateDescriptor:
    return MapStateDescriptor(name, Types.LONG(), Types.LIST(type_info or Types.PICKLED_BYTE_ARRAY()))


class IntervalJoinOperator(KeyedOperator):
    """Joins two keyed streams whose elements are close in event time."""

    kinds: ClassVar = (OperatorKind.INTERVAL_JOIN,)
    _forget_times: Callable[[], None] | None = None

    @override
    def _handlers(self, output: Output, input_types: Sequence[TypeInformation | None]) -> list[Emit]:
        backend, timers = self.keyed
        join = IntervalJoin(self.spec.function, input_types, backend, self._context, self._time, timers, output)
        self._forget_times = join.forget_times
        return [join.process_left, join.process_right]

    @override
    def roll_back_epoch(self) -> bool:
        if self._forget_times is not None:
            self._forget_times()
        return super().roll_back_epoch()
