"""From the program's transformations to tasks: which steps share a task, where the shuffles are.

Free of Spark, so that the rules can be tested alone.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from pystate.api.functions import KeyedProcessFunction
from pystate.api.job_graph import (
    KeyByTransformation,
    OneInputTransformation,
    SinkKind,
    SinkTransformation,
    SourceTransformation,
    StreamGraph,
    Transformation,
)
from pystate.common.errors import JobGraphError
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.slot.chain import Chain, ChainNode, OperatorSpec
from pystate.slot.output import OutputKind, OutputSpec
from pystate.slot.records import KEY_FIELD, RESERVED_PREFIX, KeyColumn
from pystate.slot.task import TaskInput, TaskSpec


@dataclass
class SinkPlan:
    """A sink and the output that feeds it."""

    task_uid: str
    tag: int
    step: SinkTransformation


@dataclass
class SourcePlan:
    """The source and the stateless chain that runs on it in front of the first shuffle.

    Attributes:
        chain: None where Spark's own columns carry everything the first task needs.
    """

    step: SourceTransformation
    uid: str
    chain: Chain | None = None


@dataclass
class JobPlan:
    """A job as it is run: a source, and levels of tasks with one shuffle in front of each level.

    Rows go through the levels in order. Each task of a level is fed by one edge of the level before, or of the source; so
    one epoch of all tasks is one Spark job in which every stage runs once.

    Attributes:
        source: Where the rows come from.
        levels: The tasks of each level.
        sinks: All sinks of all tasks.
        warnings: What the author should know.
    """

    source: SourcePlan
    levels: list[list[TaskSpec]] = field(default_factory=list)
    sinks: list[SinkPlan] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def tasks(self) -> list[TaskSpec]:
        """All tasks, in the order the rows reach them."""
        return [task for level in self.levels for task in level]

    @property
    def bounded(self) -> bool:
        """Whether the job ends by itself."""
        return self.source.step.bounded


@dataclass
class _Target:
    """What an edge leads to.

    Attributes:
        root: The step whose elements go over the edge.
        key_by: How they are keyed; None where they are not.
        below: The steps that run behind the edge: the head of a keyed task, or all that hangs on `root` without a key.
    """

    root: Transformation
    key_by: KeyByTransformation | None
    below: list[Transformation]


def vertex_id(uid: str) -> str:
    """Return Flink's kind of identity for an operator: 32 hex digits made from its uid."""
    return hashlib.md5(uid.encode(), usedforsecurity=False).hexdigest()


class JobPlanner:
    """Cuts one program into tasks.

    Args:
        graph: The program.
        uids: The uid of every step.
        parallelism: The number of subtasks of every task.
        max_parallelism: The number of key groups, by the uid of a task's head.
        default_max: The number of key groups of all others.
    """

    def __init__(
        self, graph: StreamGraph, uids: dict[int, str], parallelism: int, max_parallelism: dict[str, int], default_max: int
    ) -> None:
        self._graph = graph
        self._uids = uids
        self._parallelism = parallelism
        self._max_parallelism = max_parallelism
        self._default_max = default_max
        self._warnings: list[str] = []

    def plan(self, source_type: TypeInformation) -> JobPlan:
        """Return the plan.

        Args:
            source_type: The type of the source's elements, as its columns say.

        Raises:
            JobGraphError: The program has no end, or a shape that can't be run.
        """
        if len(self._graph.sources) != 1:
            message = f"The job reads {len(self._graph.sources)} sources; one job reads one source so far."
            raise JobGraphError(message, hint="union the DataFrames in front of from_data_frame()")
        source = self._graph.sources[0]
        if not any(isinstance(step, SinkTransformation) for step in self._graph.transformations()):
            message = "The job has no sink, nobody would see its results."
            raise JobGraphError(message, hint="end a stream with print() or for_each_batch()")
        source.output_type = source.output_type or source_type
        plan = JobPlan(SourcePlan(source, self._uids[id(source)]), warnings=self._warnings)
        targets: list[_Target] = []
        if _has_key_below(source):
            chain = self._chain_to_edges(source, itertools.count(), targets)
            (first, *more) = chain.all_outputs()
            plain = not chain.children and not more and first.selector is None
            plan.source.chain = None if plain else chain
        else:
            targets.append(_Target(source, None, _live_children(source)))
        while targets:
            level = [self._task(target, plan) for target in targets]
            plan.levels.append([task for task, _ in level])
            targets = [below for _, found in level for below in found]
        return plan

    def _task(self, target: _Target, plan: JobPlan) -> tuple[TaskSpec, list[_Target]]:
        head: OperatorSpec | None = None
        uid, name, below = self._target_uid(target), target.root.name, target.below
        if target.key_by is not None:
            (step,) = target.below
            if not isinstance(step, OneInputTransformation):
                message = f"{step.name} stands directly behind key_by()."
                raise JobGraphError(message, hint="put process() or map() between them")
            name, below = step.name, _live_children(step)
            head = OperatorSpec(uid, name, step.kind, step.function)
            if step.uid is None and isinstance(step.function, KeyedProcessFunction):
                self._warnings.append(
                    f"The operator {name!r} keeps state and has no uid: its state is found again only while the program's "
                    'shape stays the same. Add .uid("...") to it.'
                )
        task = TaskSpec(
            uid=uid,
            name=name,
            vertex_id=vertex_id(uid),
            parallelism=self._parallelism,
            max_parallelism=self._max_parallelism.get(uid, self._default_max),
            inputs=[TaskInput(target.root.output_type, None if target.key_by is None else self._key_column(target.key_by))],
            head=head,
        )
        targets: list[_Target] = []
        task.chain = self._chain_in_task(below, plan, task, itertools.count(), targets)
        return task, targets

    def _target_uid(self, target: _Target) -> str:
        return f"{self._uids[id(target.root)]}-sink" if target.key_by is None else self._uids[id(target.below[0])]

    def _chain_in_task(
        self,
        steps: list[Transformation],
        plan: JobPlan,
        task: TaskSpec,
        tags: Iterator[int],
        targets: list[_Target],
    ) -> Chain:
        """Return the chain of `steps` and all that follows them up to the next key_by() or sink."""
        chain = Chain()
        for step in steps:
            if isinstance(step, KeyByTransformation):
                chain.outputs += self._edges(step, tags, targets)
            elif isinstance(step, SinkTransformation):
                output = self._sink_output(step, next(tags))
                plan.sinks.append(SinkPlan(task.uid, output.tag, step))
                chain.outputs.append(output)
            elif isinstance(step, OneInputTransformation):
                rest = self._chain_in_task(_live_children(step), plan, task, tags, targets)
                chain.children.append(ChainNode(self._operator(step), rest.children, rest.outputs))
        return chain

    def _chain_to_edges(self, step: Transformation, tags: Iterator[int], targets: list[_Target]) -> Chain:
        """Return the stateless chain behind the source that ends in edges only.

        What hangs on a step and leads to no key_by() goes over one edge of its own to a task without a key.
        """
        chain, aside = Chain(), []
        for child in _live_children(step):
            if isinstance(child, KeyByTransformation):
                chain.outputs += self._edges(child, tags, targets)
            elif isinstance(child, OneInputTransformation) and _has_key_below(child):
                rest = self._chain_to_edges(child, tags, targets)
                chain.children.append(ChainNode(self._operator(child), rest.children, rest.outputs))
            else:
                aside.append(child)
        if aside:
            target = _Target(step, None, aside)
            targets.append(target)
            name = f"{step.name} -> aside"
            uid = self._target_uid(target)
            chain.outputs.append(OutputSpec(next(tags), OutputKind.EDGE, name, step.output_type, target=uid))
        return chain

    def _edges(self, key_by: KeyByTransformation, tags: Iterator[int], targets: list[_Target]) -> list[OutputSpec]:
        key, name = self._key_column(key_by), f"{key_by.parent.name} -> KeyBy"
        outputs = []
        for step in _live_children(key_by):
            target = _Target(key_by.parent, key_by, [step])
            targets.append(target)
            outputs.append(
                OutputSpec(
                    next(tags),
                    OutputKind.EDGE,
                    name,
                    key_by.parent.output_type,
                    key,
                    key_by.selector,
                    target=self._target_uid(target),
                )
            )
        return outputs

    def _operator(self, step: OneInputTransformation) -> OperatorSpec:
        return OperatorSpec(self._uids[id(step)], step.name, step.kind, step.function)

    def _sink_output(self, sink: SinkTransformation, tag: int) -> OutputSpec:
        kind = OutputKind.PRINT if sink.kind is SinkKind.PRINT else OutputKind.FRAME
        return OutputSpec(tag, kind, sink.name, type_info=sink.parent.output_type, identifier=sink.identifier)

    def _key_column(self, key_by: KeyByTransformation) -> KeyColumn:
        if key_by.column is None:
            return KeyColumn(KEY_FIELD, key_by.key_type)
        row_type = key_by.parent.output_type
        names = [] if row_type is None or row_type.kind is not TypeKind.ROW else row_type.get_field_names()
        if row_type is None or key_by.column not in names:
            known = ", ".join(names) or "no named fields"
            message = f"key_by({key_by.column!r}): the rows have {known}."
            raise JobGraphError(message, hint="name one of these columns, or give a function")
        column_type = row_type.get_field_types()[names.index(key_by.column)]
        if key_by.key_type is not None and key_by.key_type != column_type:
            message = f"key_by({key_by.column!r}): the column is {column_type.name}, key_type says {key_by.key_type.name}."
            raise JobGraphError(message, hint="leave key_type out, or cast the column")
        column = KeyColumn(key_by.column, column_type)
        if not column.native:
            message = f"key_by({key_by.column!r}): a column of type {column_type.name} can't be a key."
            raise JobGraphError(message, hint=f"key_by(lambda row: row[{key_by.column!r}])")
        return column


def _live_children(step: Transformation) -> list[Transformation]:
    """Return the steps that follow, without a key_by() that nothing follows."""
    return [child for child in step.children if not isinstance(child, KeyByTransformation) or child.children]


def _has_key_below(step: Transformation) -> bool:
    return any(isinstance(child, KeyByTransformation) or _has_key_below(child) for child in _live_children(step))


def check_column_names(type_info: TypeInformation, where: str) -> None:
    """Refuse columns that would collide with ours.

    Raises:
        JobGraphError: A name begins with our prefix.
    """
    for name in type_info.get_field_names() if type_info.kind is TypeKind.ROW else ():
        if name.startswith(RESERVED_PREFIX):
            message = f"The column {name!r} has a name that pystate uses itself."
            raise JobGraphError(message, where=where, hint="rename the column")
