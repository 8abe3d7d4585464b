"""Start and end offsets of a source; the names are those of `pyflink.datastream.connectors.kafka`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from pystate.common.errors import JobGraphError
from pystate.common.files.foreign_json import parse_json

EARLIEST, LATEST = -2, -1
"""How Spark writes these in the place of an offset."""


class KafkaTopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class KafkaOffsetResetStrategy(Enum):
    """Where to start if there is no offset."""

    LATEST = 0
    EARLIEST = 1
    NONE = 2


class OffsetsKind(Enum):
    """How an initializer finds offsets."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    COMMITTED = "committed"
    GIVEN = "given"


@dataclass(frozen=True)
class KafkaOffsetsInitializer:
    """Determines the offset of each partition; made by its static methods.

    Attributes:
        kind: How offsets are determined.
        timestamp_ms: For TIMESTAMP.
        given: For GIVEN.
        reset: For COMMITTED and GIVEN: where partitions without an offset start.
    """

    kind: OffsetsKind
    timestamp_ms: int = 0
    given: Mapping[KafkaTopicPartition, int] = field(default_factory=dict)
    reset: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """Start at the beginning of each partition."""
        return KafkaOffsetsInitializer(OffsetsKind.EARLIEST)

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Start, or stop, at the end of each partition when the job starts."""
        return KafkaOffsetsInitializer(OffsetsKind.LATEST)

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """Start at the first record of a time or later, ms since 1970; if there is none, at the end.

        Raises:
            JobGraphError: It isn't a timestamp.
        """
        if type(timestamp) is not int or timestamp < 0:
            message = f"KafkaOffsetsInitializer.timestamp() takes ms since 1970, not {timestamp!r}."
            raise JobGraphError(message)
        return KafkaOffsetsInitializer(OffsetsKind.TIMESTAMP, timestamp_ms=timestamp)

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """Start at the committed offsets of the consumer group.

        Args:
            offset_reset_strategy: Where partitions without a committed offset start; NONE: the job fails.
        """
        return KafkaOffsetsInitializer(OffsetsKind.COMMITTED, reset=_strategy(offset_reset_strategy))

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """Start at these offsets.

        Args:
            offsets: The offsets by partition.
            offset_reset_strategy: Where other partitions start; NONE: the job fails.

        Raises:
            JobGraphError: A value isn't an offset.
        """
        given = {}
        for partition, offset in dict(offsets).items():
            if type(offset) is not int or offset < 0:
                message = f"The offset of {tuple(partition)} is {offset!r}; offsets are numbers from 0 on."
                raise JobGraphError(message)
            given[KafkaTopicPartition(*partition)] = offset
        reset = _strategy(offset_reset_strategy)
        return KafkaOffsetsInitializer(OffsetsKind.GIVEN, given=given, reset=reset)


def partition_offsets(text: str) -> dict[KafkaTopicPartition, int]:
    """Return the offsets of a Kafka stream as Spark writes them: `{"topic": {"0": 17}}`."""
    return {
        KafkaTopicPartition(topic, int(number)): int(value)
        for topic, partitions in parse_json(text).items()
        for number, value in partitions.items()
    }


def _strategy(value: Any) -> KafkaOffsetResetStrategy:
    if not isinstance(value, KafkaOffsetResetStrategy):
        message = f"{value!r} is no KafkaOffsetResetStrategy."
        raise JobGraphError(message)
    return value
