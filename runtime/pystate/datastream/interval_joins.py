"""`keyed.interval_join(other)`: joins elements of one key with close timestamps, as in Flink's Java API."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pystate.common.errors import JobGraphError
from pystate.common.time import Duration, Time
from pystate.common.type_info import TypeInformation
from pystate.core.api.checkpointed import CheckpointedFunction, CheckpointListener, ListCheckpointed
from pystate.core.api.interval_join_operation import IntervalJoinOperation
from pystate.core.api.join_functions import ProcessJoinFunction
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.output_tag import OutputTag
from pystate.core.api.transformations import KeyByTransformation, TwoInputTransformation
from pystate.core.api.window.triggers import milliseconds
from pystate.datastream.connected_streams import InputStream
from pystate.datastream.wrong_functions import shown

StreamT = TypeVar("StreamT")

CHECKPOINTED = (CheckpointedFunction, ListCheckpointed, CheckpointListener)


class IntervalJoin(Generic[StreamT]):
    """Two keyed streams to join; generic in the resulting stream.

    Args:
        left: The first stream.
        right: The second stream.

    Raises:
        JobGraphError: A stream has no key, or they belong to different environments.
    """

    def __init__(self, left: InputStream[StreamT], right: InputStream[Any]) -> None:
        keyed = isinstance(getattr(right, "transformation", None), KeyByTransformation)
        if not keyed or right.get_execution_environment() is not left.get_execution_environment():
            message = f"interval_join() takes a keyed stream of the same environment, not {shown(right)}."
            raise JobGraphError(message, hint="write first.key_by(...).interval_join(second.key_by(...))")
        self._left = left
        self._right = right

    def in_event_time(self) -> IntervalJoin[StreamT]:
        """Use event time, which is always used."""
        return self

    def in_processing_time(self) -> IntervalJoin[StreamT]:
        """Not allowed, as in Flink.

        Raises:
            JobGraphError: Always.
        """
        message = "An interval join goes by event time only."
        raise JobGraphError(message, hint="give elements times with assign_timestamps_and_watermarks(...)")

    def between(self, lower_bound: Time | Duration, upper_bound: Time | Duration) -> IntervalJoined[StreamT]:
        """Set how far apart the elements of a pair may be: left time + lower <= right time <= left time + upper.

        Args:
            lower_bound: The minimum of right time minus left time; may be negative.
            upper_bound: The maximum of right time minus left time.

        Raises:
            JobGraphError: The lower bound is above the upper one, or one of them isn't a duration.
        """
        lower, upper = milliseconds(lower_bound, "The lower bound"), milliseconds(upper_bound, "The upper bound")
        if lower > upper:
            message = f"The lower bound of an interval join ({lower} ms) is above its upper bound ({upper} ms)."
            raise JobGraphError(message)
        return IntervalJoined(self._left, self._right, lower, upper)


class IntervalJoined(Generic[StreamT]):
    """Two keyed streams and the bounds of their join; made by `between`.

    Args:
        left: The first stream.
        right: The second stream.
        lower: The lower bound, ms.
        upper: The upper bound, ms.
    """

    def __init__(self, left: InputStream[StreamT], right: InputStream[Any], lower: int, upper: int) -> None:
        self._left = left
        self._right = right
        self._lower = lower
        self._upper = upper
        self._lower_exclusive = self._upper_exclusive = 0
        self._left_late_tag: OutputTag | None = None
        self._right_late_tag: OutputTag | None = None

    def lower_bound_exclusive(self) -> IntervalJoined[StreamT]:
        """Exclude pairs that are exactly the lower bound apart."""
        self._lower_exclusive = 1
        return self

    def upper_bound_exclusive(self) -> IntervalJoined[StreamT]:
        """Exclude pairs that are exactly the upper bound apart."""
        self._upper_exclusive = 1
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> IntervalJoined[StreamT]:
        """Send late left elements to a side output instead of dropping them."""
        self._left_late_tag = _tag(output_tag, "side_output_left_late_data")
        return self

    def side_output_right_late_data(self, output_tag: OutputTag) -> IntervalJoined[StreamT]:
        """Send late right elements to a side output instead of dropping them."""
        self._right_late_tag = _tag(output_tag, "side_output_right_late_data")
        return self

    def process(self, process_join_function: ProcessJoinFunction, output_type: TypeInformation | None = None) -> StreamT:
        """Call a function with each pair. Its results have the later timestamp of the two.

        Raises:
            JobGraphError: It isn't a `ProcessJoinFunction`, or it takes part in checkpoints itself.
        """
        function = process_join_function
        if not isinstance(function, ProcessJoinFunction):
            message = f"process() of an interval join takes a ProcessJoinFunction, not {shown(function)}."
            raise JobGraphError(message)
        refuse_checkpointed(function)
        lower, upper = self._lower + self._lower_exclusive, self._upper - self._upper_exclusive
        operation = IntervalJoinOperation(lower, upper, function, self._left_late_tag, self._right_late_tag)
        parents = (self._left.transformation, self._right.transformation)
        step = TwoInputTransformation(
            "Interval Join", parents, output_type, kind=OperatorKind.INTERVAL_JOIN, function=operation, keyed=True
        )
        return self._left.followed_by(step)


def refuse_checkpointed(function: Any) -> None:
    """Reject a join function that takes part in checkpoints.

    Raises:
        JobGraphError: It does.
    """
    if isinstance(function, CHECKPOINTED):
        message = f"{type(function).__name__} is a function of a join, which takes no part in checkpoints itself."
        raise JobGraphError(message, hint="keep its state in a process function after the join")


def _tag(output_tag: Any, method: str) -> OutputTag:
    if not isinstance(output_tag, OutputTag):
        message = f"{method}() takes an OutputTag, not {output_tag!r}."
        raise JobGraphError(message)
    return output_tag
