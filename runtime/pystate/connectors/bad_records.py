"""What a source does with records that can't be deserialized: `BadRecords`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pystate.common.errors import JobGraphError, PystateError, RecordError
from pystate.common.row import Row
from pystate.common.type_info import Types
from pystate.core.api.output_tag import OutputTag

if TYPE_CHECKING:
    from pystate.core.metrics.metric import MetricGroup

ERRORS_COUNTER = "numRecordsInErrors"
"""Flink's name for the records that a source could not deserialize."""

BAD_RECORD = Types.ROW_NAMED(
    ["value", "key", "source", "partition", "position", "timestamp", "reason"],
    [
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
        Types.STRING(),
        Types.INT(),
        Types.LONG(),
        Types.LONG(),
        Types.STRING(),
    ],
)
"""The type of records that went to a side output: their bytes, their key if they have one, where they are (a topic, its
partition and the offset; or a file, None and the position in it), their time in ms since 1970, and why they can't be
read."""


@dataclass(frozen=True)
class BadRecords:
    """What is done with records that can't be deserialized; made by `fail`, `skip` or `to_side_output`.

    Errors that aren't about a record fail the job in any case: a schema registry that doesn't answer, a file that can't be
    read.

    Attributes:
        skips: Whether the job goes on without them.
        tag: The side output that they go to; None for none.
    """

    skips: bool = False
    tag: OutputTag | None = None

    @staticmethod
    def fail() -> BadRecords:
        """Fail the job; the default."""
        return BadRecords()

    @staticmethod
    def skip() -> BadRecords:
        """Leave such records out. The metric `numRecordsInErrors` counts them."""
        return BadRecords(skips=True)

    @staticmethod
    def to_side_output(output_tag: OutputTag) -> BadRecords:
        """Send such records to a side output of the source, and count them.

        Args:
            output_tag: `OutputTag("name", BAD_RECORD)`; `get_side_output` of the source's stream takes it.

        Raises:
            JobGraphError: It isn't such a tag.
        """
        if not isinstance(output_tag, OutputTag) or output_tag.type_info != BAD_RECORD:
            message = f"to_side_output() takes a tag of the type BAD_RECORD, not {output_tag!r}."
            raise JobGraphError(message, hint='write OutputTag("bad records", BAD_RECORD)')
        return BadRecords(skips=True, tag=output_tag)

    @staticmethod
    def checked(call: str, policy: object) -> BadRecords:
        """Return what a program gave to a builder.

        Raises:
            JobGraphError: It is something else.
        """
        if isinstance(policy, BadRecords):
            return policy
        message = f"{call}() takes what BadRecords makes, not {policy!r}."
        raise JobGraphError(message, hint="BadRecords.skip() is one")


@dataclass(frozen=True)
class Refused:
    """A record that can't be deserialized.

    Attributes:
        value: Its bytes; None where they can't be told from others.
        source: The topic, or the file.
        position: The offset, or the position in the file.
        reason: Why.
        key: Its key, if it has one.
        partition: The partition of the topic.
        timestamp: Its time, ms since 1970.
    """

    value: bytes | None
    source: str
    position: int
    reason: str
    key: bytes | None = None
    partition: int | None = None
    timestamp: int | None = None

    def to_row(self) -> Row:
        """Return the row of the type `BAD_RECORD`."""
        names = BAD_RECORD.row_names
        values = [self.value, self.key, self.source, self.partition, self.position, self.timestamp, self.reason]
        return Row.of_fields(names, values)


def is_of_the_record(error: Exception) -> bool:
    """Return whether an error of a deserializer says something about the record, and not about what it needed."""
    if isinstance(error, PystateError):
        return isinstance(error, RecordError)
    return not isinstance(error, (OSError, MemoryError, ImportError))


def why(error: Exception) -> str:
    """Return the reason of an error, in words."""
    if isinstance(error, PystateError):
        return error.message
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class Measured(Protocol):
    """What has a metric group: the context of a source."""

    def metric_group(self) -> MetricGroup:
        """Return the metric group of the source."""


class RefusedRecords:
    """Counts the records that a subtask's source refuses, and sends them where the program wants them.

    Args:
        policy: What the program wants.
        context: Of the source; asked for its metrics where the job goes on without such records.
    """

    def __init__(self, policy: BadRecords, context: Measured) -> None:
        self._tag = policy.tag
        self._counter = context.metric_group().counter(ERRORS_COUNTER) if policy.skips else None

    def take(self, refused: Refused, collect_side: Callable[[OutputTag, Row, int | None], None]) -> None:
        """Take one.

        Args:
            refused: The record.
            collect_side: Emits an element with a timestamp to a side output.
        """
        if self._counter is not None:
            self._counter.inc()
        if self._tag is not None:
            collect_side(self._tag, refused.to_row(), refused.timestamp)
