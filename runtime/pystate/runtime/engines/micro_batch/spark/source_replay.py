"""Checks which Spark streams can be replayed after a failure, and that the others were allowed by name.

After a failure a job resumes from its latest checkpoint, so a source has to replay what came after it. A source that can't
loses that data; a job reads it only if its author allows it by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.options import PystateOptions
from pystate.common.errors import JobGraphError
from pystate.connectors.kafka.spark.kafka_starts import FROM_THE_END, FROM_THE_GROUP, STARTS
from pystate.core.api.job_graph import SourceTransformation
from pystate.runtime.engines.micro_batch.spark.source_checks import FORGETFUL, PlanNode, plan_nodes_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OPTION = PystateOptions.SOURCE_ALLOW_NON_REPLAYABLE
_CLEANS = "cleanSource"


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
            if "Kafka" in node.source:
                starts = node.options.get(STARTS)
                source.from_the_end |= FROM_THE_END in (starts, node.options.get("startingoffsets", FROM_THE_END))
                source.from_the_group |= starts == FROM_THE_GROUP
            self.check(source, node)

    def check(self, source: SourceTransformation, node: PlanNode) -> None:
        """Check one node of a source's DataFrame; see `look`."""
        found = not_replayable(node)
        if found is None:
            return
        name, why, alternative = found
        allowed = {source.name, source.uid or source.name, name}.intersection(self._allowed)
        if not allowed:
            message = f"The source {source.name!r} {why}."
            hint = f"{alternative}; or take losses: -D {_OPTION.key}={name}"
            raise JobGraphError(message, where=source.place or source.name, hint=hint)
        self._met.update(allowed)
        source.not_replayable = f"{why}: what it gave after the latest checkpoint is lost"
        source.gives_some_again |= name == _CLEANS  # files that have not been removed yet

    def notices(self) -> list[str]:
        """Return a sentence for each allowed name that matches no such source."""
        return [
            f"{_OPTION.key} names {name!r}, and no source that can't be read again is called so."
            for name in self._allowed
            if name not in self._met
        ]


def not_replayable(node: PlanNode) -> tuple[str, str, str] | None:
    """Return the name by which a stream that can't be replayed is allowed, the reason, and the alternative; else None."""
    clean = node.options.get(_CLEANS.lower(), "off").lower()
    if clean != "off":
        alternative = "leave cleanSource out, and remove files once no savepoint needs them"
        return _CLEANS, f"removes files it has read ({_CLEANS} = {clean})", alternative
    for implementation, name in FORGETFUL.items():
        if implementation in node.source:
            return name, f"can't be read again ({name})", "read from files or Kafka"
    return None
