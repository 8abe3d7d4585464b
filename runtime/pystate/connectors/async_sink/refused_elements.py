"""What a sink does with elements that its service refuses, or that no request can be made of: `RefusedElements`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pystate.common.errors import JobGraphError
from pystate.connectors.bad_records import BAD_RECORD, Refused
from pystate.connectors.sink import Sink, SinkWriter, SupportsCommitter, SupportsWriterState, WriterInitContext
from pystate.connectors.typed_sink import SupportsElementType

if TYPE_CHECKING:
    from pystate.core.metrics.metric import Counter

ERRORS_COUNTER = "numRecordsSendErrors"
"""Flink's name for the elements that a sink could not send."""


@dataclass(frozen=True)
class RefusedElements:
    """What is done with elements that a service refuses for good; made by `fail`, `skip` or `to_sink`.

    A service that doesn't answer, or that refuses everything (a wrong password), fails the job in any case.

    Attributes:
        skips: Whether the job goes on without them.
        sink: Where they go; None for nowhere.
    """

    skips: bool = False
    sink: Sink[Any] | None = None

    @staticmethod
    def fail() -> RefusedElements:
        """Fail the job; the default."""
        return RefusedElements()

    @staticmethod
    def skip() -> RefusedElements:
        """Leave such elements out. The metric `numRecordsSendErrors` counts them."""
        return RefusedElements(skips=True)

    @staticmethod
    def to_sink(sink: Sink[Any]) -> RefusedElements:
        """Write such elements to another sink, as rows of the type `BAD_RECORD`, and count them.

        Their `value` is what was to be sent, `source` says whereto. They have arrived when a checkpoint is complete.

        Args:
            sink: An at-least-once sink, without committer or state of its writers.

        Raises:
            JobGraphError: It is none.
        """
        if not isinstance(sink, Sink) or isinstance(sink, (SupportsCommitter, SupportsWriterState)):
            message = f"to_sink() takes an at-least-once sink, not {sink!r}."
            raise JobGraphError(message, hint="a KafkaSink with DeliveryGuarantee.AT_LEAST_ONCE, a SqlSink, a RedisSink")
        if isinstance(sink, SupportsElementType):
            sink = sink.for_elements_of(BAD_RECORD)
        return RefusedElements(skips=True, sink=sink)

    @staticmethod
    def checked(policy: object) -> RefusedElements:
        """Return what a program gave to a builder.

        Raises:
            JobGraphError: It is something else.
        """
        if isinstance(policy, RefusedElements):
            return policy
        message = f"set_refused_elements() takes what RefusedElements makes, not {policy!r}."
        raise JobGraphError(message, hint="RefusedElements.skip() is one")


class DeadLetters:
    """Counts the elements that are refused, and writes them to the sink that the program wants.

    Args:
        policy: What the program wants, not to fail.
        target: Where the elements should have gone.
        context: Of the writer.
    """

    def __init__(self, policy: RefusedElements, target: str, context: WriterInitContext) -> None:
        self._target = target
        self._counter: Counter = context.metric_group().counter(ERRORS_COUNTER)
        self._writer = None if policy.sink is None else policy.sink.create_writer(context)

    def take(self, body: bytes, key: object, timestamp: int | None, why: str, context: SinkWriter.Context) -> None:
        """Take one.

        Args:
            body: What was to be sent.
            key: Its key; None for none.
            timestamp: The element's, ms since 1970.
            why: The service's words.
            context: Of the element; that of a later one does.
        """
        self._counter.inc()
        if self._writer is not None:
            named = key if isinstance(key, bytes) or key is None else str(key).encode()
            letter = Refused(body, self._target, 0, why, key=named, timestamp=timestamp)
            self._writer.write(letter.to_row(), context)

    def flush(self, end_of_input: bool) -> None:  # noqa: FBT001 - Flink's signature
        """Write what is held back."""
        if self._writer is not None:
            self._writer.flush(end_of_input)

    def close(self) -> None:
        """Close the writer."""
        if self._writer is not None:
            self._writer.close()
