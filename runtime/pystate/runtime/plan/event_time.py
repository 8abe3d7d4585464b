"""Where time goes: which inputs need times and watermarks, and whose watermarks each of them waits for.

A record carries its time only between a step that gives times and one that asks for them. A job that has no two such steps
is planned as if there were no time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pystate.connectors.sink_operator import SinkOperator
from pystate.core.api.functions import Function
from pystate.core.api.job_graph import (
    OneInputTransformation,
    OperatorKind,
    OwnSourceTransformation,
    SinkTransformation,
    TimestampsTransformation,
    Transformation,
    TwoInputTransformation,
)
from pystate.runtime.plan.chain import Chain, ChainNode
from pystate.runtime.plan.job_plan import JobPlan, edges_of
from pystate.runtime.plan.task_output import OutputSpec

_READERS = (
    OperatorKind.PROCESS,
    OperatorKind.WINDOW,
    OperatorKind.PLAIN_PROCESS,
    OperatorKind.CO_PROCESS,
    OperatorKind.KEYED_CO_PROCESS,
    OperatorKind.INTERVAL_JOIN,
    OperatorKind.BROADCAST_PROCESS,
    OperatorKind.KEYED_BROADCAST_PROCESS,
)


class EventTime:
    """The steps that have times, and those that ask for them. Marks the steps that give times to nobody.

    Args:
        steps: Of the program, parents before children.
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
        """Return whether what `root` gives to any of `steps` needs its time."""
        return id(root) in self._having and any(id(step) in self._asking for step in steps)


def _asks(step: Transformation) -> bool:
    if isinstance(step, SinkTransformation):
        return isinstance(step.function, SinkOperator)
    if not isinstance(step, (OneInputTransformation, TwoInputTransformation)):
        return False
    return step.kind in _READERS and (isinstance(step.function, Function) or step.kind is OperatorKind.WINDOW)


def connect_channels(plan: JobPlan) -> None:
    """Tell each edge with times whose watermark it carries, and each input which channels it waits for.

    The Spark tasks of a source are one channel: they last for an epoch only. Of one with lasting partitions that one stands
    for them, until rows of some have come (`source_channel`, `whole_channel`). The subtasks of a task are one channel each.
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
    """Return the name of the channel from a source, or from one of its lasting partitions, along an edge."""
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
    """Return after how long a channel without elements is idle, ms; None for never."""
    return next((read.channels[channel] for task in plan.tasks for read in task.inputs if channel in read.channels), None)


def own_source_channel(uid: str) -> str:
    """Return the name of the channel on which a source in slots tells its task of its watermarks."""
    return f"{uid}/source"


def whole_channel(channel: str) -> str:
    """Return the channel that the one of a partition is a part of."""
    return channel.rpartition("/")[0]


def task_channel(uid: str, edge: OutputSpec, subtask: int) -> str:
    """Return the name of the channel from a subtask along an edge."""
    return f"{uid}/{edge.tag}/{subtask}"


def assigners_in_front(chain: Chain) -> dict[str, frozenset[str | None]]:
    """Return whose watermark each operator of a chain sees: uids of assigners; None among them for the task's own.

    Only those behind an assigner are told of.
    """
    found: dict[str, set[str | None]] = {}
    for place, assigner in _ways(chain, None):
        for node in place.children:
            found.setdefault(node.operator.uid, set()).add(assigner)
    return {uid: frozenset(seen) for uid, seen in found.items() if seen != {None}}


def assigners_behind_head(chain: Chain) -> set[str]:
    """Return the uids of the assigners that see each element while the head hands it on: in front of all that waits."""
    found: set[str] = set()
    places: list[Chain | ChainNode] = [chain]
    while places:
        place = places.pop()
        if isinstance(place, ChainNode) and place.operator.kind is OperatorKind.ASYNC_WAIT:
            continue
        if isinstance(place, ChainNode) and place.operator.kind is OperatorKind.ASSIGN_TIMESTAMPS:
            found.add(place.operator.uid)
        places += [*place.children, *place.side_outputs.values()]
    return found


def _ways(place: Chain | ChainNode, assigner: str | None) -> Iterator[tuple[Chain | ChainNode, str | None]]:
    """Yield the places of a chain with the last assigner on the way there; one behind a union once for each way."""
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
