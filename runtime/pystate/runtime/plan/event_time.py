"""Propagation of event time: which inputs need timestamps and watermarks, and which channels each of them waits for.

A record carries its timestamp only between a step that assigns timestamps and one that needs them. A job without two such
steps is planned without event time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pystate.connectors.operators.sink_operator import SinkOperator
from pystate.connectors.source import Source
from pystate.core.api.functions import Function
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.transformations import (
    OneInputTransformation,
    OwnSourceTransformation,
    SinkTransformation,
    TimestampsTransformation,
    Transformation,
    TwoInputTransformation,
)
from pystate.runtime.plan.chain import Chain, ChainNode
from pystate.runtime.plan.job_plan import JobPlan, edges_of
from pystate.runtime.plan.task_output import OutputSpec


class EventTime:
    """The steps that have timestamps, and those that need them. Marks timestamp assigners that no step needs.

    Args:
        steps: The steps of the program, parents before children.
    """

    def __init__(self, steps: Sequence[Transformation]) -> None:
        self._asking: set[int] = set()
        for step in reversed(steps):
            if _asks(step) or any(id(child) in self._asking for child in step.children):
                self._asking.add(id(step))
        self._having: set[int] = set()
        for step in steps:
            if isinstance(step, TimestampsTransformation):
                step.is_read = any(id(child) in self._asking for child in step.children)
            gives = isinstance(step, TimestampsTransformation) and step.is_read
            gives = gives or isinstance(step, OwnSourceTransformation)  # it may hand elements on with times
            if gives or any(id(parent) in self._having for parent in step.parents):
                self._having.add(id(step))

    def goes_to(self, steps: Iterable[Transformation], root: Transformation) -> bool:
        """Return whether elements from `root` to any of `steps` need timestamps."""
        return id(root) in self._having and any(id(step) in self._asking for step in steps)


def _asks(step: Transformation) -> bool:
    if isinstance(step, SinkTransformation):
        return isinstance(step.function, SinkOperator)
    if not isinstance(step, (OneInputTransformation, TwoInputTransformation)):
        return False
    return step.kind.traits.has_context and isinstance(step.function, Function)


def connect_channels(plan: JobPlan) -> None:
    """Set which watermarks each edge with timestamps carries, and which channels each input waits for.

    The Spark tasks of a source are one channel, since they only last for an epoch. For a source with durable partitions that
    channel stands for all of them until their first rows arrive (`source_channel`, `whole_channel`). Each subtask of a task
    is one channel.
    """
    for source in plan.sources:
        if source.chain is not None:
            for edge in _timed_edges(source.chain, source.chain.all_outputs()):
                names = [source_channel(source.uid, edge)]
                _add(plan, edge, names, _idle_timeout(source.chain, edge))
    for task in plan.tasks:
        for edge in _timed_edges(task.chain, edges_of(task)):
            _add(plan, edge, [task_channel(task.uid, edge, subtask) for subtask in range(task.parallelism)], None)


def source_channel(uid: str, edge: OutputSpec, partition: str | None = None) -> str:
    """Return the name of the channel from a source, or from one of its durable partitions, along an edge."""
    return f"{uid}/{edge.tag}" if partition is None else f"{uid}/{edge.tag}/{partition}"


def source_channels(plan: JobPlan) -> dict[str, list[str]]:
    """Return the channels of each source that Spark reads and that has any, by its uid."""
    found: dict[str, list[str]] = {}
    for source in plan.sources:
        for edge in () if source.chain is None else source.chain.all_outputs():
            name = source_channel(source.uid, edge)
            if edge.timestamped and name in plan.task(str(edge.target)).inputs[edge.input_index].channels:
                found.setdefault(source.uid, []).append(name)
    return found


def idle_timeout(plan: JobPlan, channel: str) -> int | None:
    """Return the time after which a channel without elements is idle, ms; None for never."""
    return next((read.channels[channel] for task in plan.tasks for read in task.inputs if channel in read.channels), None)


def own_source_channel(uid: str) -> str:
    """Return the name of the channel on which a source in slots sends watermarks to its task."""
    return f"{uid}/source"


def whole_channel(channel: str) -> str:
    """Return the source's channel to which a partition's channel belongs."""
    return channel.rpartition("/")[0]


def task_channel(uid: str, edge: OutputSpec, subtask: int) -> str:
    """Return the name of the channel from a subtask along an edge."""
    return f"{uid}/{edge.tag}/{subtask}"


def assigners_upstream(chain: Chain) -> dict[str, frozenset[str | None]]:
    """Return the watermark that each operator of a chain sees: uids of assigners; None for the task's own.

    Only operators downstream of an assigner are included.
    """
    found: dict[str, set[str | None]] = {}
    for place, assigner in _ways(chain, None):
        for node in place.children:
            found.setdefault(node.operator.uid, set()).add(assigner)
    return {uid: frozenset(seen) for uid, seen in found.items() if seen != {None}}


def assigners_after_head(chain: Chain) -> set[str]:
    """Return the uids of the assigners that see each element directly from the head, upstream of buffering operators."""
    found: set[str] = set()
    places: list[Chain | ChainNode] = [chain]
    while places:
        place = places.pop()
        if isinstance(place, ChainNode) and place.operator.kind.traits.asynchronous:
            continue
        if isinstance(place, ChainNode) and place.operator.kind is OperatorKind.ASSIGN_TIMESTAMPS:
            found.add(place.operator.uid)
        places += [*place.children, *place.side_outputs.values()]
    return found


def _ways(place: Chain | ChainNode, assigner: str | None) -> Iterator[tuple[Chain | ChainNode, str | None]]:
    """Yield the places of a chain with the last assigner on the path; a place after a union once per path."""
    if isinstance(place, ChainNode) and place.operator.kind is OperatorKind.ASSIGN_TIMESTAMPS:
        assigner = place.operator.uid
    yield place, assigner
    for child in place.children:
        yield from _ways(child, assigner)
    for side in place.side_outputs.values():
        yield from _ways(side, assigner)


def _timed_edges(chain: Chain, outputs: Iterable[OutputSpec]) -> list[OutputSpec]:
    edges = {edge.tag: edge for edge in outputs if edge.timestamped}
    found: dict[int, set[str | None]] = {tag: set() for tag in edges}
    if edges:
        for place, assigner in _ways(chain, None):
            for output in place.outputs:
                if output.tag in found:
                    found[output.tag].add(assigner)
    for tag, edge in edges.items():
        edge.assigners = frozenset(found[tag])
    return list(edges.values())


def _idle_timeout(chain: Chain, edge: OutputSpec) -> int | None:
    strategies = [operator.function for operator in chain.all_operators() if operator.uid in edge.assigners]
    timeouts = [strategy.idle_timeout_ms for strategy in strategies]
    if None in edge.assigners or not timeouts or None in timeouts:
        return None
    return int(max(timeouts))


def _add(plan: JobPlan, edge: OutputSpec, names: Iterable[str], idle_timeout_ms: int | None) -> None:
    channels = plan.task(str(edge.target)).inputs[edge.input_index].channels
    channels.update(dict.fromkeys(names, idle_timeout_ms))


def bounded_notices(plan: JobPlan) -> Iterator[str]:
    """Yield a sentence for each bounded source that holds back event time although it may be exhausted."""
    channels = {} if plan.bounded else source_channels(plan)
    for source in plan.sources:
        step = source.step
        knows_its_end = not step.bounded or step.collection is not None or step.stopping is not None
        if knows_its_end or all(idle_timeout(plan, channel) is not None for channel in channels.get(source.uid, ())):
            continue
        yield (
            f"Event time waits for the source {step.name!r}, whose end nobody tells of beside sources without one: windows "
            "and timers downstream stand still when it gives no more. Give its WatermarkStrategy with_idleness(...)."
        )


def idle_notices(plan: JobPlan) -> Iterator[str]:
    """Yield a sentence for each source in slots whose subtasks without splits hold back event time."""
    for task in () if plan.batch else plan.own_sources:
        source = None if task.head is None else getattr(task.head.function, "source", None)
        splits = source.scarce_splits if isinstance(source, Source) else None
        timed = any(edge.timestamped for edge in edges_of(task))
        chained = [one.function for one in task.chain.all_operators() if one.kind is OperatorKind.ASSIGN_TIMESTAMPS]
        waits = any(one.max_out_of_orderness_ms is not None and one.idle_timeout_ms is None for one in chained)
        if splits is not None and timed and waits and task.parallelism > 1:
            yield (
                f"Event time waits for each of the {task.parallelism} subtasks of {task.name!r}, and one without {splits} "
                "gives no watermark: windows and timers downstream stand still until it has some. Give its "
                "WatermarkStrategy with_idleness(Duration.of_seconds(...))."
            )
