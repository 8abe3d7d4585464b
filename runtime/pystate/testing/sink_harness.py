"""The test harness of a sink: its writer and its committer in one subtask, driven as its slot drives them."""

from __future__ import annotations

from typing import Any

from pystate.common.type_info import TypeInformation
from pystate.connectors.sink import Sink
from pystate.connectors.sink_operator import SinkOperator
from pystate.testing.harnesses import OneInputOperatorTestHarness


class SinkTestHarness(OneInputOperatorTestHarness):
    """A sink that stands behind one stream.

    What `snapshot` returns is what a checkpoint would hold; `notify_of_completed_checkpoint` makes it complete, and the sink
    commits. A crash is to make another harness, with the last snapshot (`initialize_state`) that was taken. Commits that
    ask for another try get it at once.

    Args:
        sink: What `sink_to` takes.
        input_type: The type of the elements, None for untyped.
        options: See `OperatorTestHarness`.
    """

    def __init__(self, sink: Sink[Any], *, input_type: TypeInformation | None = None, **options: Any) -> None:
        self._operator = SinkOperator(sink, sleep=lambda _: None)
        super().__init__(self._operator, input_type=input_type, **options)

    def end_input(self) -> None:
        """Have the input end: the next flush is the last one."""
        self._begin()
        self._chain.advance_watermarks(end_of_input=True)

    def commit_rest(self) -> None:
        """Make all visible, as at the end of a job that takes no checkpoints."""
        self._between_epochs()
        self._operator.commit_rest()

    def num_pending_committables(self) -> int:
        """Return how many committables are not committed yet."""
        return self._operator.pending_committables
