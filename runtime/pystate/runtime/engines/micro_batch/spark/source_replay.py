"""Which of Spark's streams can be read again behind a failure, and who has asked for one that can't.

After a failure a job goes on at its latest checkpoint, so a source has to give what came behind it once more. One that
doesn't loses that; a job reads it only where its author says so by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.options import PystateOptions
from pystate.common.errors import JobGraphError
from pystate.core.api.job_graph import SourceTransformation
from pystate.core.api.kafka_starts import FROM_THE_END, FROM_THE_GROUP, STARTS
from pystate.runtime.engines.micro_batch.spark.source_checks import FORGETFUL, PlanNode, plan_nodes_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OPTION = PystateOptions.SOURCE_ALLOW_NON_REPLAYABLE
_CLEANS = "cleanSource"


class SourceReplay:
    """Looks at the sources of one job.

    Args:
        configuration: The options in force.
    """

    def __init__(self, configuration: Configuration) -> None:
        allowed = configuration.get(_OPTION) or ""
        self._allowed = [name.strip() for name in allowed.split(",") if name.strip()]
        self._met: set[str] = set()

    def look(self, source: SourceTransformation, frame: DataFrame) -> None:
        """Note in a source whether it can be read again, and where it begins.

        Args:
            source: Of the job.
            frame: What it reads.

        Raises:
            JobGraphError: It can't, and nobody has asked for it by name.
        """
        for node in plan_nodes_of(frame):
            if "Kafka" in node.source:
                starts = node.options.get(STARTS)
                source.from_the_end |= FROM_THE_END in (starts, node.options.get("startingoffsets", FROM_THE_END))
                source.from_the_group |= starts == FROM_THE_GROUP
            self.check(source, node)

    def check(self, source: SourceTransformation, node: PlanNode) -> None:
        """Look at one node of a source's DataFrame; see `look`."""
        found = not_replayable(node)
        if found is None:
            return
        name, why, way_out = found
        asked = {source.name, source.uid or source.name, name}.intersection(self._allowed)
        if not asked:
            message = f"The source {source.name!r} {why}."
            hint = f"{way_out}; or take losses: -D {_OPTION.key}={name}"
            raise JobGraphError(message, where=source.place or source.name, hint=hint)
        self._met.update(asked)
        source.not_replayable = f"{why}: what it gave behind the latest checkpoint is lost"
        source.gives_some_again |= name == _CLEANS  # files that aren't removed yet

    def notices(self) -> list[str]:
        """Return a sentence for each name that no such source has."""
        return [
            f"{_OPTION.key} names {name!r}, and no source that can't be read again is called so."
            for name in self._allowed
            if name not in self._met
        ]


def not_replayable(node: PlanNode) -> tuple[str, str, str] | None:
    """Return by which name a stream is asked for that can't be read again, why it can't, and the way out; None if it can."""
    clean = node.options.get(_CLEANS.lower(), "off").lower()
    if clean != "off":
        way_out = "leave cleanSource out, and remove files once no savepoint needs them"
        return _CLEANS, f"removes files it has read ({_CLEANS} = {clean})", way_out
    for implementation, name in FORGETFUL.items():
        if implementation in node.source:
            return name, f"can't be read again ({name})", "read from files or Kafka"
    return None
