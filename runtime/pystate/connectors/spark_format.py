"""What the micro-batch engine has to know about one of Spark's streaming sources: `SparkFormat`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pystate.connectors.source import StartsAt
from pystate.core.metrics.sample import MetricSample

__all__ = [
    "Loss",
    "ReadLimit",
    "ReadUnit",
    "SparkFormat",
    "StartsAt",
]


class ReadUnit(Enum):
    """What the limit of a source counts, and so which of pystate's options sets it."""

    BYTES = "bytes"  # pystate.source.max-bytes-per-epoch
    ROWS = "rows"  # pystate.source.max-rows-per-epoch


@dataclass(frozen=True)
class ReadLimit:
    """How a source is told how much one epoch reads at most.

    Attributes:
        option: The source's option, which gets the limit.
        unit: What it counts.
        others: The source's other options that limit an epoch: an author who sets one of them wants no second limit.
    """

    option: str
    unit: ReadUnit
    others: Sequence[str] = ()


@dataclass(frozen=True)
class Loss:
    """Why a source can't give again what it gave: the job is refused unless its author allows it by name.

    Attributes:
        name: The name by which it is allowed, in `pystate.source.allow-non-replayable`.
        reason: The reason, which goes on after the name of the source.
        alternative: What to do instead.
        gives_some_again: Whether a part of what it gave may come again all the same.
    """

    name: str
    reason: str
    alternative: str
    gives_some_again: bool = False


class SparkFormat:
    """A streaming source of Spark, by what `spark.readStream.format(...)` calls it.

    A subclass sets the attributes and overrides the methods that apply; those left out say nothing of the source.

    Attributes:
        names: The names of the format, in lower case.
        implementation: A part of what Spark calls the class that implements it, for programs that name the class.
        limit: How an epoch is limited; None if there is no such option.
        limits_itself: Whether it reads no more than its own defaults allow.
        keeps_place: Whether an offset of it means something to a later query.
        partition_columns: The columns that name the partition of a row, where partitions last from epoch to epoch: event
            time is then that of the slowest of them.
        quiet_loggers: The classes whose warnings are left out of the log.
        outages: Patterns of Java's exceptions that mean that the system doesn't answer, so that a start is tried again.
    """

    names: Sequence[str] = ()
    implementation: str | None = None
    limit: ReadLimit | None = None
    limits_itself: bool = False
    keeps_place: bool = True
    partition_columns: tuple[str, ...] = ()
    quiet_loggers: Sequence[str] = ()
    outages: Sequence[str] = ()

    def reads(self, name: str, implementation: str) -> bool:
        """Return whether a stream of a plan is of this format.

        Args:
            name: The name of its format, as the program gave it.
            implementation: What Spark calls the class that implements it.
        """
        found = self.implementation is not None and self.implementation in implementation
        return found or name.lower() in self.names

    def starts_at(self, options: Mapping[str, str]) -> StartsAt:
        """Return where the source starts in a job without a snapshot.

        Args:
            options: Its options, with keys in lower case.
        """
        return StartsAt.THE_BEGINNING

    def loss(self, options: Mapping[str, str]) -> Loss | None:
        """Return why the source can't be read again after a failure; None if it can.

        Args:
            options: Its options, with keys in lower case.
        """
        return None

    def describe_offset(self, offset: Any, log: Mapping[str, bytes]) -> str | None:
        """Return an offset as text for people; None if it isn't one of this format.

        Args:
            offset: The offset in Spark's offset log, parsed from JSON.
            log: The files of Spark's log of this source, by name; empty if there are none.
        """
        return None

    def rows_between(self, read: Any, latest: Any) -> int | None:
        """Return how many rows lie between two offsets; None if they don't tell, or aren't of this format.

        Args:
            read: How far the source was read, parsed from JSON.
            latest: How far there is something to read.
        """
        return None

    def position_samples(self, read: Any, latest: Any) -> list[MetricSample]:
        """Return metrics that tell how far each part of the source is read; none if it has no parts.

        Args:
            read: How far the source was read, parsed from JSON, as with `rows_between`.
            latest: How far there is something to read.
        """
        return []
