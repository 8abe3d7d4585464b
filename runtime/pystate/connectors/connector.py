"""What a system outside brings along beside the classes of its sources and sinks: `Connector`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration
    from pystate.connectors.finding import Finding
    from pystate.connectors.project_template import ProjectTemplate
    from pystate.connectors.spark_format import SparkFormat

__all__ = [
    "Connector",
]


class Connector:
    """One system, for those parts of pystate that know no system by name.

    A subclass overrides what its system has, and leaves out the rest. It is found by an entry point of the group
    `pystate.connectors`, in whichever distribution that is, and made without arguments. So its module is imported without
    need: imports of the system's client, and of all that takes long, stand in the methods.
    """

    def spark_formats(self) -> Sequence[SparkFormat]:
        """Return what there is to know about Spark's streaming sources of the system, for the micro-batch engine."""
        return ()

    def position_of_splits(self, splits: Sequence[Any]) -> str | None:
        """Return how far a source in slots was read, from its splits in a snapshot.

        Args:
            splits: The plain forms of the splits (`SourceSplit.to_plain`), at least one, of a source that isn't known.

        Returns:
            The position as JSON, which one of the `spark_formats` may describe; None if these aren't splits of this system.
        """
        return None

    def position_of_source(self, found: Any, splits: Sequence[Any]) -> str | None:
        """Return how far a source in slots was read, from all that a snapshot has of it; by default from its splits.

        Args:
            found: What its enumerator keeps beside the unassigned splits: what it has found; None where it keeps nothing.
            splits: The plain forms of the splits; none where all that was found is read.

        Returns:
            As of `position_of_splits`.
        """
        return self.position_of_splits(splits) if splits else None

    def check(self, configuration: Configuration) -> Iterable[Finding]:
        """Yield what `pystate doctor` says about jobs that use the system: whether its client is here, and fits.

        Args:
            configuration: The settings that jobs would get.
        """
        return ()

    def templates(self) -> Mapping[str, ProjectTemplate]:
        """Return the projects that `pystate new --template NAME` makes, by name."""
        return {}
