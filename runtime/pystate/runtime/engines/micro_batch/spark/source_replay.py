"""Checks which Spark streams can be replayed after a failure, and that the others were allowed by name.

After a failure a job resumes from its latest checkpoint, so a source has to replay what came after it. A source that can't
loses that data; a job reads it only if its author allows it by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.errors import JobGraphError
from pystate.connectors.source import StartsAt
from pystate.connectors.spark_format import Loss
from pystate.core.api.transformations import SourceTransformation
from pystate.runtime.engines.micro_batch.spark.source_checks import PlanNode, plan_nodes_of
from pystate.runtime.engines.micro_batch.spark.stream_formats import stream_format

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OPTION = PystateOptions.SOURCE_ALLOW_NON_REPLAYABLE


class SourceReplay:
    """Checks the sources of one job.

    Args:
        configuration: The effective options.
    """

    def __init__(self, configuration: Configuration) -> None:
        allowed = configuration.get(_OPTION) or ""
        self._allowed = [name.strip() for name in allowed.split(",") if name.strip()]
        self._met: set[str] = set()

    def look(self, source: SourceTransformation, frame: DataFrame) -> None:
        """Record in a source whether it can be replayed, and where it begins.

        Args:
            source: The source transformation.
            frame: Its DataFrame.

        Raises:
            JobGraphError: It can't be replayed, and is not allowed by name.
        """
        for node in plan_nodes_of(frame):
            known = stream_format(node.format, node.source)
            if known is not None:
                starts_at = known.starts_at(node.options)
                source.from_the_end |= starts_at is StartsAt.THE_END
                source.from_the_group |= starts_at is StartsAt.THE_GROUPS_OFFSETS
            self.check(source, node)

    def check(self, source: SourceTransformation, node: PlanNode) -> None:
        """Check one node of a source's DataFrame; see `look`."""
        found = not_replayable(node)
        if found is None:
            return
        allowed = {source.name, source.uid or source.name, found.name}.intersection(self._allowed)
        if not allowed:
            message = f"The source {source.name!r} {found.reason}."
            hint = f"{found.alternative}; or take losses: -D {_OPTION.key}={found.name}"
            raise JobGraphError(message, where=source.place or source.name, hint=hint)
        self._met.update(allowed)
        source.not_replayable = f"{found.reason}: what it gave after the latest checkpoint is lost"
        source.gives_some_again |= found.gives_some_again

    def notices(self) -> list[str]:
        """Return a sentence for each allowed name that matches no such source."""
        return [
            f"{_OPTION.key} names {name!r}, and no source that can't be read again is called so."
            for name in self._allowed
            if name not in self._met
        ]


def not_replayable(node: PlanNode) -> Loss | None:
    """Return why a stream can't be replayed; None if it can."""
    known = stream_format(node.format, node.source)
    return None if known is None else known.loss(node.options)
