"""The test harness of a sink: its writer and committer in one subtask, driven like in a slot."""

from __future__ import annotations

from typing import Any

from pystate.common.type_info import TypeInformation
from pystate.connectors.operators.sink_operator import SinkOperator
from pystate.connectors.sink import Sink
from pystate.testing.harnesses import OneInputOperatorTestHarness


class SinkTestHarness(OneInputOperatorTestHarness):
    """A harness for a sink of one stream.

    `snapshot` returns what a checkpoint would contain; `notify_of_completed_checkpoint` completes it, and the sink commits.
    To test a crash, create another harness with the last snapshot (`initialize_state`). Commits that request a retry get it
    at once.

    Args:
        sink: A sink for `sink_to`.
        input_type: The type of the elements; None for untyped.
        options: See `OperatorTestHarness`.
    """

    def __init__(self, sink: Sink[Any], *, input_type: TypeInformation | None = None, **options: Any) -> None:
        self._operator = SinkOperator(sink, sleep=lambda _: None)
        super().__init__(self._operator, input_type=input_type, **options)

    def end_input(self, *, of_all: bool = True) -> None:
        """End the input: the next flush is the last one.

        Args:
            of_all: Whether the inputs of all subtasks have ended, so that the next snapshot is the job's last one.
        """
        self._all_ended = of_all
        self._begin()
        self._chain.advance_watermarks(end_of_input=True)

    def commit_rest(self) -> None:
        """Commit everything, as at the end of a job without checkpoints."""
        self._between_epochs()
        self._operator.commit_rest()

    def num_pending_committables(self) -> int:
        """Return the number of uncommitted committables."""
        return self._operator.pending_committables
