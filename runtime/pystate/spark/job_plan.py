"""From the program's transformations to tasks: which steps share a task, where the shuffles are.

Free of Spark, so that the rules can be tested alone.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

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
from pystate.slot.task import TaskSpec

EDGE_TAG = 0
"""The tag of a task's edge to the next task; sinks count from 1."""


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
    """A job as it is run: a source, tasks in a row with a shuffle in front of each, sinks.

    Attributes:
        source: Where the rows come from.
        tasks: In the order the rows go through them.
        sinks: All sinks of all tasks.
        warnings: What the author should know.
    """

    source: SourcePlan
    tasks: list[TaskSpec] = field(default_factory=list)
    sinks: list[SinkPlan] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def bounded(self) -> bool:
        """Whether the job ends by itself."""
        return self.source.step.bounded


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
        edge = self._edge_below(source)
        if edge is None:
            self._add_task(plan, source, None, source.output_type)
            return plan
        self._refuse_sinks_beside(source, edge)
        path = _path(source, edge)
        if path or edge.selector is not None:
            plan.source.chain = self._linear_chain(path, self._edge_output(edge))
        self._add_task(plan, source, edge, edge.parent.output_type)
        return plan

    def _add_task(
        self, plan: JobPlan, root: Transformation, key_by: KeyByTransformation | None, input_type: TypeInformation | None
    ) -> None:
        if key_by is None:
            head, below, uid, name = None, root, f"{self._uids[id(root)]}-sink", root.name
        else:
            (below,) = self._live_children(key_by, one=True)
            if not isinstance(below, OneInputTransformation):
                message = f"{below.name} stands directly behind key_by()."
                raise JobGraphError(message)
            uid, name = self._uids[id(below)], below.name
            head = OperatorSpec(uid, name, below.kind, below.function)
            if below.uid is None and isinstance(below.function, KeyedProcessFunction):
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
            input_type=input_type,
            head=head,
            key=None if key_by is None else self._key_column(key_by),
        )
        next_edges: list[KeyByTransformation] = []
        task.chain = self._chain_below(below, plan, task, next_edges)
        plan.tasks.append(task)
        if len(next_edges) > 1:
            names = ", ".join(repr(edge.parent.name) for edge in next_edges)
            message = f"The task {name!r} feeds {len(next_edges)} key_by() steps ({names}); one is possible so far."
            raise JobGraphError(message, hint="put the stateful steps in a row, or make two jobs of it")
        if next_edges:
            self._add_task(plan, next_edges[0].parent, next_edges[0], next_edges[0].parent.output_type)

    def _chain_below(self, step: Transformation, plan: JobPlan, task: TaskSpec, edges: list[KeyByTransformation]) -> Chain:
        chain = Chain()
        for child in self._live_children(step):
            if isinstance(child, KeyByTransformation):
                edges.append(child)
                chain.outputs.append(self._edge_output(child))
            elif isinstance(child, SinkTransformation):
                chain.outputs.append(self._sink_output(child, plan, task))
            elif isinstance(child, OneInputTransformation):
                operator = OperatorSpec(self._uids[id(child)], child.name, child.kind, child.function)
                rest = self._chain_below(child, plan, task, edges)
                chain.children.append(ChainNode(operator, rest.children, rest.outputs))
        return chain

    def _sink_output(self, sink: SinkTransformation, plan: JobPlan, task: TaskSpec) -> OutputSpec:
        tag = 1 + sum(1 for known in plan.sinks if known.task_uid == task.uid)
        plan.sinks.append(SinkPlan(task.uid, tag, sink))
        kind = OutputKind.PRINT if sink.kind is SinkKind.PRINT else OutputKind.FRAME
        return OutputSpec(tag, kind, sink.name, type_info=sink.parent.output_type, identifier=sink.identifier)

    def _edge_output(self, key_by: KeyByTransformation) -> OutputSpec:
        name = f"{key_by.parent.name} -> KeyBy"
        key = self._key_column(key_by)
        return OutputSpec(EDGE_TAG, OutputKind.EDGE, name, key_by.parent.output_type, key, key_by.selector)

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

    def _linear_chain(self, path: list[OneInputTransformation], output: OutputSpec) -> Chain:
        chain = Chain(outputs=[output])
        for step in reversed(path):
            operator = OperatorSpec(self._uids[id(step)], step.name, step.kind, step.function)
            chain = Chain(children=[ChainNode(operator, chain.children, chain.outputs)])
        return chain

    def _edge_below(self, source: SourceTransformation) -> KeyByTransformation | None:
        edges: list[KeyByTransformation] = []
        stack: list[Transformation] = [source]
        while stack:
            for child in self._live_children(stack.pop()):
                if isinstance(child, KeyByTransformation):
                    edges.append(child)
                else:
                    stack.append(child)
        if len(edges) > 1:
            message = f"The source {source.name!r} feeds {len(edges)} key_by() steps; one is possible so far."
            raise JobGraphError(message, hint="put the stateful steps in a row, or make two jobs of it")
        return edges[0] if edges else None

    def _refuse_sinks_beside(self, source: SourceTransformation, edge: KeyByTransformation) -> None:
        on_path = {id(source), *(id(step) for step in _path(source, edge)), id(edge)}
        for step_id in list(on_path - {id(edge)}):
            step = next(s for s in self._graph.transformations() if id(s) == step_id)
            for child in self._live_children(step):
                if id(child) not in on_path:
                    message = f"{child.name!r} branches off in front of the key_by() behind {edge.parent.name!r}."
                    raise JobGraphError(message, hint="branch off behind the stateful operator, or make two jobs of it")

    def _live_children(self, step: Transformation, *, one: bool = False) -> list[Transformation]:
        """Return the steps that follow, without a key_by() that nothing follows."""
        live = [child for child in step.children if not isinstance(child, KeyByTransformation) or child.children]
        if one and len(live) != 1:
            names = ", ".join(repr(child.name) for child in live)
            message = f"One key_by() is used by {len(live)} steps ({names})."
            raise JobGraphError(message, hint="call key_by() once for each")
        return live


def _path(source: SourceTransformation, edge: KeyByTransformation) -> list[OneInputTransformation]:
    path: list[OneInputTransformation] = []
    step: Any = edge.parent
    while step is not source:
        path.insert(0, step)
        step = step.parent
    return path


def check_column_names(type_info: TypeInformation, where: str) -> None:
    """Refuse columns that would collide with ours.

    Raises:
        JobGraphError: A name begins with our prefix.
    """
    for name in type_info.get_field_names() if type_info.kind is TypeKind.ROW else ():
        if name.startswith(RESERVED_PREFIX):
            message = f"The column {name!r} has a name that pystate uses itself."
            raise JobGraphError(message, where=where, hint="rename the column")
