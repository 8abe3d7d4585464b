"""The plan of a job: sources with their stateless stages, and levels of tasks downstream of shuffles."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from pystate.common.errors import JobGraphError
from pystate.common.stream_guarantee import StreamGuarantee
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.core.api.transformations import SinkKind, SinkTransformation, SourceTransformation
from pystate.core.records.codec import RESERVED_PREFIX
from pystate.runtime.plan.chain import Chain
from pystate.runtime.plan.task import TaskSpec
from pystate.runtime.plan.task_output import KindsPlace, OutputKind, OutputSpec, Routing


@dataclass
class SinkPlan:
    """A sink and the output that feeds it."""

    task_uid: str
    tag: int
    step: SinkTransformation


@dataclass
class SourcePlan:
    """A source and the stateless chain that runs on it upstream of the first shuffle.

    Attributes:
        chain: None if Spark's own columns carry everything the first task needs.
    """

    step: SourceTransformation
    uid: str
    chain: Chain | None = None


@dataclass
class JobPlan:
    """The executable plan of a job: sources, and levels of tasks with one shuffle before each level.

    Rows go through the levels in order, so one epoch of all tasks is one Spark job in which every stage runs once. A task is
    fed by edges of sources and of tasks of any earlier level: what isn't for the next level passes through it.

    Attributes:
        sources: The sources that Spark reads, in the program's order.
        direct_routing: The routing to the only task of the first level if Spark's columns feed it directly; None if sources
            have chains.
        parallelism: The default parallelism of tasks.
        levels: The tasks of each level.
        sinks: All sinks of all tasks.
        explicit_max_parallelism: The number of key groups of the tasks for which it was set, by uid.
        warnings: Sentences for the author.
        guarantees: The delivery guarantee of each source and sink.
        batch: Whether all input is one epoch, which keyed tasks get key by key in time order.
    """

    sources: list[SourcePlan]
    parallelism: int
    direct_routing: Routing | None = None
    levels: list[list[TaskSpec]] = field(default_factory=list)
    sinks: list[SinkPlan] = field(default_factory=list)
    explicit_max_parallelism: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    guarantees: list[StreamGuarantee] = field(default_factory=list)
    batch: bool = False

    @property
    def tasks(self) -> list[TaskSpec]:
        """All tasks, in the order the rows reach them."""
        return [task for level in self.levels for task in level]

    @property
    def width(self) -> int:
        """The number of slots the job needs: slot i hosts subtask i of every task with enough subtasks."""
        return max(task.parallelism for task in self.tasks)

    @property
    def own_sources(self) -> list[TaskSpec]:
        """The tasks whose head is a source."""
        return [task for task in self.tasks if task.is_own_source]

    @property
    def bounded(self) -> bool:
        """Whether all that Spark reads has an end."""
        return all(source.step.bounded for source in self.sources)

    def task(self, uid: str) -> TaskSpec:
        """Return the task with that uid."""
        return next(task for task in self.tasks if task.uid == uid)

    def hosted_by(self, slot: int) -> list[TaskSpec]:
        """Return the tasks of which the slot hosts a subtask."""
        return [task for task in self.tasks if slot < task.parallelism]

    def source_edges(self) -> list[OutputSpec]:
        """Return the edges that leave the stateless stages of all sources."""
        return [output for source in self.sources if source.chain is not None for output in source.chain.all_outputs()]

    def place_kinds(self, place: KindsPlace) -> None:
        """Have the kinds of declared rows between tasks at a place, and beside all rows that the program collects."""
        for edge in (*self.source_edges(), *(edge for task in self.tasks for edge in edges_of(task))):
            edge.place_kinds(place)
        for sink in self.sinks:
            if sink.step.kind is SinkKind.COLLECT:
                self.task(sink.task_uid).output(sink.tag).place_kinds(KindsPlace.COLUMN)


def vertex_id(uid: str) -> str:
    """Return the id of an operator in Flink's form: 32 hex digits derived from its uid."""
    return hashlib.md5(uid.encode(), usedforsecurity=False).hexdigest()


def edges_of(task: TaskSpec) -> list[OutputSpec]:
    """Return the outputs of a task that lead to other tasks."""
    return [output for output in task.outputs if output.kind is OutputKind.EDGE]


def check_column_names(type_info: TypeInformation, where: str) -> None:
    """Reject columns whose names collide with internal ones.

    Raises:
        JobGraphError: A name begins with our prefix.
    """
    for name in type_info.get_field_names() if type_info.kind is TypeKind.ROW else ():
        if name.startswith(RESERVED_PREFIX):
            message = f"The column {name!r} has a name that pystate uses itself."
            raise JobGraphError(message, where=where, hint="rename the column")
