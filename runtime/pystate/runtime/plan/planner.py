"""Translates the program's transformations to tasks: which steps share a task, and where the shuffles are.

Independent of Spark, so that the rules can be tested in isolation.

A step is chained to its input if both have the same parallelism and there is no key, partitioning or second input between
them. A union isn't an operator; what follows a union whose streams all come from one task, or all from sources' stages, runs
there. Otherwise it is a non-keyed task, and a shuffle brings the streams together.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeGuard

from pystate.common.errors import JobGraphError
from pystate.common.key_groups import default_max_parallelism
from pystate.common.type_info import TypeInformation, Types
from pystate.core.api.functions import Function
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import (
    CustomPartitionTransformation,
    KeyByTransformation,
    OneInputTransformation,
    OwnSourceTransformation,
    Partitioning,
    PartitionTransformation,
    SideOutputTransformation,
    SinkKind,
    SinkTransformation,
    SourceTransformation,
    TimestampsTransformation,
    Transformation,
    TwoInputTransformation,
    as_written,
    live_children,
)
from pystate.core.records.codec import KEY_FIELD, PARTITION_FIELD
from pystate.core.records.key_column import KeyColumn
from pystate.core.state.formats.all_formats import is_immutable
from pystate.runtime.plan.chain import (
    CHECKPOINT_MIXINS,
    Chain,
    ChainNode,
    Copies,
    OperatorSpec,
    function_object,
    keeps_results,
)
from pystate.runtime.plan.custom_partitions import CustomPartitions
from pystate.runtime.plan.event_time import EventTime, bounded_notices, connect_channels, idle_notices, own_source_channel
from pystate.runtime.plan.job_plan import JobPlan, SinkPlan, SourcePlan, vertex_id
from pystate.runtime.plan.named_key_column import named_key_column
from pystate.runtime.plan.placement import SourceStages, StreamEdge, edges_into
from pystate.runtime.plan.task import TaskInput, TaskSpec
from pystate.runtime.plan.task_output import OutputKind, OutputSpec, Routing

_ROUTINGS = {
    Partitioning.REBALANCE: Routing.REBALANCE,
    Partitioning.SHUFFLE: Routing.SHUFFLE,
    Partitioning.GLOBAL: Routing.GLOBAL,
    Partitioning.BROADCAST: Routing.BROADCAST,
    Partitioning.CUSTOM: Routing.CUSTOM,
}


@dataclass(eq=False)
class _Draft:
    """A task under construction.

    Attributes:
        steps: The head, or the steps that directly read the input of a task without a head.
        level: The number of shuffles upstream of it.
    """

    spec: TaskSpec
    steps: list[Transformation]
    level: int


@dataclass(frozen=True)
class _TaskEdge:
    """An edge from a step to an input of a task."""

    draft: _Draft
    input_index: int
    routing: Routing
    key_by: KeyByTransformation | None
    declared: PartitionTransformation | None = None


@dataclass
class _ChainBuild:
    """The state of building the chain of one task or source.

    Attributes:
        task_uid: None for a source.
        nodes: The nodes built so far, by `id(step)`: after a union, a node has several parents.
    """

    task_uid: str | None
    sinks: list[SinkPlan]
    tags: Iterator[int] = field(default_factory=itertools.count)
    nodes: dict[int, ChainNode] = field(default_factory=dict)
    outputs: dict[int, OutputSpec] = field(default_factory=dict)


class JobPlanner:
    """Divides one program into tasks.

    Args:
        graph: The program.
        uids: The uid of every step.
        parallelism: The number of subtasks of steps that don't set their own.
        max_parallelism: The number of key groups, if set for the whole job.
        object_reuse: Whether elements are never copied, even if they are shared.
    """

    def __init__(
        self,
        graph: StreamGraph,
        uids: dict[int, str],
        parallelism: int,
        max_parallelism: int | None = None,
        *,
        object_reuse: bool = False,
    ) -> None:
        self._graph = graph
        self._uids = uids
        self._parallelism = parallelism
        self._max_parallelism = max_parallelism
        self._object_reuse = object_reuse
        self._drafts: list[_Draft] = []
        self._groups: dict[tuple[int, int], _Draft] = {}
        self._task_of: dict[int, _Draft] = {}
        self._followers: dict[int, dict[str | None, list[Transformation | _TaskEdge]]] = {}  # by the tags of side outputs
        self._explicit: dict[str, int] = {}
        self._warnings: list[str] = []

    def plan(self, source_types: Iterable[TypeInformation]) -> JobPlan:
        """Return the plan.

        Args:
            source_types: The types of the elements of `graph.spark_sources()`, as their columns say.

        Raises:
            JobGraphError: The program has no end, or a shape that can't be run.
        """
        graph = self._graph
        steps = list(graph.transformations())
        if not any(isinstance(step, SinkTransformation) for step in steps):
            message = "The job has no sink, nobody would see its results."
            raise JobGraphError(message, hint="end a stream with print(), for_each_batch() or add_sink()")
        sources = graph.spark_sources()
        for source, source_type in zip(sources, source_types, strict=True):
            source.output_type = source.output_type or source_type
        graph.resolve_types()
        self._time = EventTime(steps)
        self._stages = SourceStages(graph, self._parallelism)
        for step in steps:
            self._place(step)
        plan = JobPlan([SourcePlan(source, self._uids[id(source)]) for source in sources], self._parallelism)
        plan.batch = graph.batch
        self._build_chains(plan)
        connect_channels(plan)
        plan.explicit_max_parallelism = self._explicit
        self._warnings.extend((*bounded_notices(plan), *idle_notices(plan)))
        plan.warnings = self._warnings
        return plan

    # -- which task a step belongs to

    def _place(self, step: Transformation) -> None:
        if isinstance(step, TimestampsTransformation) and not step.is_read:
            return
        if isinstance(step, SinkTransformation):
            if isinstance(step.parent, KeyByTransformation):
                message = f"{step.name} stands directly after key_by()."
                raise JobGraphError(message, hint="put process() or map() between them")
            self._place_without_key(step)
        elif isinstance(step, OneInputTransformation) and not isinstance(step.parent, KeyByTransformation):
            self._place_without_key(step)
        elif isinstance(step, (OneInputTransformation, TwoInputTransformation)) or _is_live_source(step):
            self._head_task(step)
        else:
            return
        self._warnings.extend(filter(None, [_uid_warning(step)]))

    def _place_without_key(self, step: Transformation) -> None:
        edges = list(edges_into(step.parent))
        if step in self._stages:
            self._follow(edges, step)
            return
        tasks = {self._task_of.get(id(edge.producer)) for edge in edges}
        task = next(iter(tasks)) if len(tasks) == 1 else None
        unrouted = all(edge.partitioning in (None, Partitioning.FORWARD) for edge in edges)
        if task is not None and unrouted and task.spec.parallelism == self._parallelism_of(step):
            self._task_of[id(step)] = task
            self._follow(edges, step)
            return
        group = (id(step.parent), self._parallelism_of(step))
        task = self._groups.get(group)
        if task is None:
            uid, name = self._group_identity(step)
            task = self._groups[group] = self._new_task(uid, name, step, [step.parent])
        elif step.max_parallelism is not None:
            self._set_max_parallelism(task.spec, step.max_parallelism)
        task.steps.append(step)
        self._task_of[id(step)] = task

    def _head_task(self, step: OneInputTransformation | TwoInputTransformation | OwnSourceTransformation) -> None:
        uid = self._uids[id(step)]
        descriptors = list(step.descriptors) if isinstance(step, TwoInputTransformation) else []
        task = self._new_task(uid, step.name if step.parents else f"Source: {step.name}", step, step.parents)
        task.spec.head = OperatorSpec(
            uid, task.spec.name, step.kind, step.function, descriptors, step.output_type, step.taken
        )
        task.steps.append(step)
        self._task_of[id(step)] = task
        keys = [read.key for read in task.spec.inputs if read.key is not None]
        if len(keys) > 1 and keys[0].key_type != keys[1].key_type:
            first, second = ("no declared type" if key.key_type is None else key.key_type.name for key in keys)
            message = f"The keys of two connected streams are of one type: the first has {first}, the second {second}."
            raise JobGraphError(message, where=step.name, hint="give key_by() functions for both, with a key_type")

    def _new_task(self, uid: str, name: str, step: Transformation, roots: Iterable[Transformation]) -> _Draft:
        """Return a new task for `step` (and equivalent ones) with an input per root, connected to its producers."""
        parallelism = self._parallelism_of(step)
        spec = TaskSpec(uid, name, vertex_id(uid), parallelism, default_max_parallelism(parallelism), inputs=[])
        if any(other.spec.uid == uid for other in self._drafts):
            message = f"Two tasks would have the uid {uid!r}."
            raise JobGraphError(message, hint="set other uids")
        explicit = step.max_parallelism or self._max_parallelism
        if explicit is not None:
            self._set_max_parallelism(spec, explicit)
        draft = _Draft(spec, [], level=0 if step.parents else 1)
        if not step.parents:
            timestamped = self._time.goes_to(step.children, step)
            spec.inputs.append(TaskInput(None, timestamped=timestamped, channels={own_source_channel(uid): None}))
        self._drafts.append(draft)
        for index, root in enumerate(roots):
            edges = list(edges_into(root))
            key_by = root if isinstance(root, KeyByTransformation) else None
            routings = [Routing.KEY if key_by is not None else self._routing(edge, step) for edge in edges]
            key = None if key_by is None else _key_column(key_by)
            broadcast = all(routing is Routing.BROADCAST for routing in routings)
            asking = [step] if spec.uid == self._uids[id(step)] else root.children
            timestamped = self._time.goes_to(asking, root)
            spec.inputs.append(TaskInput(root.output_type, key, broadcast=broadcast, timestamped=timestamped))
            for edge, routing in zip(edges, routings, strict=True):
                self._followers_of(edge.producer, edge.tag).append(_TaskEdge(draft, index, routing, key_by, edge.declared))
                producer = self._task_of.get(id(edge.producer))
                draft.level = max(draft.level, 1 + (0 if producer is None else producer.level))
        return draft

    def _set_max_parallelism(self, spec: TaskSpec, max_parallelism: int) -> None:
        spec.max_parallelism = self._explicit[spec.uid] = max_parallelism

    def _group_identity(self, step: Transformation) -> tuple[str, str]:
        """Return uid and name of a task without a head: those of its root, if it reads a branch of a source's stage."""
        root = as_written(step.parent)
        while isinstance(root, TimestampsTransformation) and not root.is_read:
            root = as_written(root.parent)
        if root in self._stages and self._parallelism_of(step) == self._parallelism:
            return f"{self._uids[id(root)]}-sink", root.name
        return self._uids[id(step)], step.name

    def _parallelism_of(self, step: Transformation) -> int:
        return step.parallelism or self._parallelism

    def _routing(self, edge: StreamEdge, step: Transformation) -> Routing:
        """Return the routing of non-keyed elements to a task: round-robin if the parallelisms differ, as in Flink."""
        task = self._task_of.get(id(edge.producer))
        before = self._parallelism if task is None else task.spec.parallelism
        after = self._parallelism_of(step)
        if edge.partitioning is Partitioning.FORWARD and before != after:
            message = (
                f"forward() joins steps of one parallelism: {edge.producer.name!r} has {before}, {step.name!r} {after}."
            )
            raise JobGraphError(message, hint="leave forward() out, or set the same parallelism")
        if edge.partitioning in _ROUTINGS:
            return _ROUTINGS[edge.partitioning]
        return Routing.FORWARD if after in (1, before) else Routing.REBALANCE

    def _follow(self, edges: list[StreamEdge], step: Transformation) -> None:
        for edge in edges:
            self._followers_of(edge.producer, edge.tag).append(step)

    def _followers_of(self, step: Transformation, tag: str | None = None) -> list[Transformation | _TaskEdge]:
        return self._followers.setdefault(id(step), {}).setdefault(tag, [])

    # -- what runs in a task

    def _build_chains(self, plan: JobPlan) -> None:
        chains = [self._chain_after(source.step, _ChainBuild(None, plan.sinks)) for source in plan.sources]
        edges = [output for chain in chains for output in chain.all_outputs()]
        ways = {(edge.target, edge.input_index, edge.routing) for edge in edges}
        plain = not any(chain.children for chain in chains) and len(edges) == len(chains) and len(ways) == 1
        plain = plain and all(draft.steps[0].parents for draft in self._drafts)  # else two kinds of tasks are in front
        bare = not any(edge.selector is not None or edge.routing.takes_turns or edge.timestamped for edge in edges)
        decoded = any(source.step.decoder is not None for source in plan.sources)
        if plain and bare and not decoded:
            plan.direct_routing = edges[0].routing
        else:
            for source, chain in zip(plan.sources, chains, strict=True):
                source.chain = chain
        for number in range(1, 1 + max(draft.level for draft in self._drafts)):
            level = [draft for draft in self._drafts if draft.level == number]
            plan.levels.append([draft.spec for draft in level])
            for draft in level:
                build = _ChainBuild(draft.spec.uid, plan.sinks)
                if draft.spec.head is None:
                    draft.spec.chain = self._chain(draft.steps, build, draft.spec.inputs[0].type_info)
                else:
                    draft.spec.chain = self._chain_after(draft.steps[0], build)

    def _chain_after(self, step: Transformation, build: _ChainBuild) -> Chain:
        """Return the chain of a step's main output, and of its side outputs, up to the next tasks."""
        followers = self._followers.get(id(step), {})
        # a source's elements and those of its side outputs are never the same
        kept = keeps_results(step) or (len(followers) > 1 and not isinstance(step, SourceTransformation))
        chain = self._chain(followers.get(None, ()), build, step.output_type, kept=kept)
        for tag, items in followers.items():
            if tag is not None:
                side = next(
                    child for child in step.children if isinstance(child, SideOutputTransformation) and child.tag == tag
                )
                chain.side_outputs[tag] = self._chain(items, build, side.output_type, kept=True)
        return chain

    def _chain(
        self,
        items: Iterable[Transformation | _TaskEdge],
        build: _ChainBuild,
        type_info: TypeInformation | None,
        *,
        kept: bool = False,
    ) -> Chain:
        """Return the chain of `items` and all downstream steps up to the next task; see `_copies` for `kept`."""
        chain = Chain()
        for item in items:
            if isinstance(item, _TaskEdge):
                chain.outputs.append(self._edge_output(item, next(build.tags)))
            elif isinstance(item, SinkTransformation) and item.kind is not SinkKind.FUNCTION:
                chain.outputs.append(self._sink_output(item, build))
            else:
                chain.children.append(self._node(item, build))
        if not self._object_reuse:
            chain.copies = _copies(chain, type_info, kept=kept)
        return chain

    def _node(self, step: Transformation, build: _ChainBuild) -> ChainNode:
        node = build.nodes.get(id(step))
        if node is None:
            if isinstance(step, SinkTransformation):
                operator = OperatorSpec(self._uids[id(step)], step.name, OperatorKind.SINK, step.function, taken=step.taken)
            else:
                assert isinstance(step, OneInputTransformation)  # noqa: S101 - all others head a task or run nothing
                operator = OperatorSpec(self._uids[id(step)], step.name, step.kind, step.function, taken=step.taken)
            node = build.nodes[id(step)] = ChainNode(operator)
            rest = self._chain_after(step, build)
            node.children, node.outputs, node.side_outputs = rest.children, rest.outputs, rest.side_outputs
            node.copies = rest.copies
        return node

    def _edge_output(self, edge: _TaskEdge, tag: int) -> OutputSpec:
        task = edge.draft.spec
        key = task.inputs[edge.input_index].key
        selector, taken = (None, {}) if edge.key_by is None else (edge.key_by.selector, edge.key_by.taken)
        if isinstance(edge.declared, CustomPartitionTransformation) and edge.routing is Routing.CUSTOM:
            key = KeyColumn(PARTITION_FIELD, Types.INT())
            declared = edge.declared
            selector, taken = (
                CustomPartitions(declared.partitioner, declared.key_selector, task.parallelism, declared.taken),
                {},
            )
        return OutputSpec(
            tag,
            OutputKind.EDGE,
            f"to {task.name}",
            task.inputs[edge.input_index].type_info,
            key,
            selector,
            target=task.uid,
            input_index=edge.input_index,
            routing=edge.routing,
            timestamped=task.inputs[edge.input_index].timestamped,
            taken=taken,
        )

    def _sink_output(self, sink: SinkTransformation, build: _ChainBuild) -> OutputSpec:
        output = build.outputs.get(id(sink))
        if output is None:
            assert build.task_uid is not None  # noqa: S101 - no sink is in a source's stage
            kind = OutputKind.PRINT if sink.kind is SinkKind.PRINT else OutputKind.FRAME
            tag, type_info = next(build.tags), sink.parent.output_type
            output = OutputSpec(tag, kind, sink.name, type_info=type_info, identifier=sink.identifier)
            build.outputs[id(sink)] = output
            build.sinks.append(SinkPlan(build.task_uid, tag, sink))
        return output


def _uid_warning(
    step: OneInputTransformation | TwoInputTransformation | SinkTransformation | OwnSourceTransformation,
) -> str | None:
    """Return a warning about a stateful step without a uid; None if there is none."""
    function = function_object(step.function)
    takes_part = isinstance(function, CHECKPOINT_MIXINS)
    # a plain function on a keyed stream has no context to ask for state
    by_itself = isinstance(step.kind, OperatorKind) and step.kind.traits.keeps_state
    keyed = step.keeps_state and (isinstance(function, Function) or by_itself)
    stateless = isinstance(step, SinkTransformation) and step.stateless
    if step.uid is not None or stateless or not (takes_part or keyed):
        return None
    return (
        f"The operator {step.name!r} keeps state and has no uid: its state is found again only while the program's "
        'shape stays the same. Add .uid("...") to it.'
    )


def _copies(chain: Chain, type_info: TypeInformation | None, *, kept: bool) -> Copies:
    """Return which operators of a place get copies of elements, since the producer may have kept them."""
    if type_info is not None and is_immutable(type_info):
        return Copies.NONE
    if kept and chain.children:
        return Copies.ALL
    return Copies.BUT_LAST if len(chain.children) > 1 else Copies.NONE


def _is_live_source(step: Transformation) -> TypeGuard[OwnSourceTransformation]:
    return isinstance(step, OwnSourceTransformation) and bool(live_children(step))


def _key_column(key_by: KeyByTransformation) -> KeyColumn:
    if key_by.column is None:
        return KeyColumn(KEY_FIELD, key_by.key_type)
    return named_key_column(key_by.column, key_by.parent.output_type, key_by.key_type, key_by.place)
