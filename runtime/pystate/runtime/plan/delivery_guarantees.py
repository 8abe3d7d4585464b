"""The delivery guarantee from each source to each sink of a job, failures included, and its reason.

The guarantee is the weakest of three: of the source, which may not be replayable; of the job, which may have no snapshot to
continue from; and of the sink, which may write replayed elements twice. Each rule below is one of those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import (
    CheckpointingMode,
    CheckpointingOptions,
    ExternalizedCheckpointRetention,
)
from pystate.common.configuration.groups.execution_options import ExecutionEngine, ExecutionOptions
from pystate.common.configuration.state_settings import StateSettings, is_checkpointing_enabled
from pystate.common.stream_guarantee import EndToEndGuarantee, StreamGuarantee
from pystate.connectors.operators.sink_operator import SinkOperator
from pystate.connectors.sink import DeliveryGuarantee, Sink, SupportsCommitter
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import (
    OwnSourceTransformation,
    SinkKind,
    SinkTransformation,
    SourceTransformation,
    Transformation,
)
from pystate.core.api.window.window_operation import WindowOperation
from pystate.runtime.job_folder.restart_strategies import restart_strategy
from pystate.runtime.plan.chain import function_object

Verdict = tuple[EndToEndGuarantee, str]

_EXACTLY, _AT_LEAST, _AT_MOST, _NONE = (
    EndToEndGuarantee.EXACTLY_ONCE,
    EndToEndGuarantee.AT_LEAST_ONCE,
    EndToEndGuarantee.AT_MOST_ONCE,
    EndToEndGuarantee.NONE,
)
_ONCE = {_EXACTLY: _AT_LEAST, _AT_MOST: _NONE}
"""What becomes of a promise that no element comes twice where one may count twice in state."""
_WRITER = "Writer"
"""Flink's name of a sink step without a name."""


class Recovery(Enum):
    """What a job continues from after a failure."""

    CHECKPOINT = "checkpoint"  # the latest one, whatever dies
    MEMORY = "memory"  # the latest one, unless the driver dies, which has it in its memory
    START = "start"  # nothing: it starts over
    NO_MORE = "no more"  # it doesn't


class DeliveryGuarantees:
    """Determines the guarantee for each source and sink of a job.

    Args:
        graph: The program, with what the engine has found about its sources.
        uids: The uid of every step, by `id(step)`.
        configuration: The options in force.
        supervised: Whether a job manager starts the program again when its driver dies.
    """

    def __init__(
        self, graph: StreamGraph, uids: Mapping[int, str], configuration: Configuration, *, supervised: bool = True
    ) -> None:
        self._graph = graph
        self._supervised = supervised
        self._uids = uids
        self._every_epoch = bool(configuration.get(CheckpointingOptions.EVERY_EPOCH)) and not graph.batch
        self._checkpoints = is_checkpointing_enabled(configuration) and not graph.batch
        mode = configuration.get(CheckpointingOptions.CHECKPOINTING_CONSISTENCY_MODE)
        real_time = configuration.get(ExecutionOptions.ENGINE) is ExecutionEngine.REAL_TIME
        self._has_epochs = not real_time
        self._counts_twice = self._checkpoints and real_time and mode is CheckpointingMode.AT_LEAST_ONCE
        self._restarts = restart_strategy(configuration).restarts_at_all
        self._recovery = self._recovery_of(configuration)

    def all(self) -> list[StreamGuarantee]:
        """Return the guarantee of each pair of a source and a sink that it feeds."""
        return [
            StreamGuarantee(source.name, self._uids[id(source)], name, self._uids[id(sink)], *self._of(source, sink))
            for source in self._graph.live_sources()
            for sink in dict.fromkeys(_sinks_downstream(source))
            for name in [sink_name(sink.name, sink.function)]
        ]

    def _recovery_of(self, configuration: Configuration) -> Recovery:
        restarts = self._restarts
        if not self._checkpoints:
            return Recovery.START if restarts else Recovery.NO_MORE
        in_memory = StateSettings.of(configuration).in_memory_only
        retention = configuration.get(CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION)
        retained = retention is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS and not in_memory
        if not (restarts or retained):
            return Recovery.NO_MORE
        return Recovery.MEMORY if in_memory else Recovery.CHECKPOINT

    def _of(self, source: SourceTransformation, sink: SinkTransformation) -> Verdict:
        function = sink.function
        if isinstance(function, SinkOperator) and function.sink.delivery_guarantee is DeliveryGuarantee.NONE:
            return _NONE, function.sink.guarantee_reason
        loss = self._loss(source)
        if loss is not None:
            return (_NONE, f"{loss}, and some of it may come twice") if self._repeats(source, sink) else (_AT_MOST, loss)
        if isinstance(source, OwnSourceTransformation):
            if not source.function.keeps_position:
                return _NONE, "the source's function keeps no position in checkpoints, and starts over after a failure"
            if source.function.unlike_again is not None and self._recovery is not Recovery.START:
                return _NONE, source.function.unlike_again
        guarantee, reason = self._of_sink_downstream(source, sink)
        if self._counts_twice and guarantee in _ONCE:
            key = CheckpointingOptions.CHECKPOINTING_CONSISTENCY_MODE.key
            guarantee, reason = _ONCE[guarantee], f"{key} = AT_LEAST_ONCE: after a failure state may count elements twice"
        if isinstance(source, OwnSourceTransformation) and source.function.comes_again is not None and guarantee in _ONCE:
            guarantee, reason = _ONCE[guarantee], source.function.comes_again
        if source.from_the_end and not self._every_epoch:
            reason += "; until the first checkpoint is complete, a restart begins at what is new then"
        return guarantee, reason

    def _of_sink_downstream(self, source: SourceTransformation, sink: SinkTransformation) -> Verdict:
        function = sink.function
        if isinstance(function, SinkOperator):
            return self._of_sink(function.sink, source, sink)
        if sink.kind is SinkKind.FOR_EACH_BATCH:
            return self._of_batches(source)
        if sink.kind is SinkKind.COLLECT:
            return self._of_results()
        done = "printed" if sink.kind is SinkKind.PRINT else "handed to the function"
        return _AT_LEAST, f"{self._again()} is {done} again"

    def _loss(self, source: SourceTransformation) -> str | None:
        """Return why elements may be lost, whatever the sink does; None if none are."""
        if source.not_replayable is not None:
            return source.not_replayable
        if self._recovery is Recovery.NO_MORE:
            nothing = "nothing is left to go on from" if self._checkpoints else "there are no checkpoints"
            return f"the job isn't restarted, and {nothing}: what isn't out when it fails never comes"
        if self._recovery is Recovery.START and source.from_the_end:
            return "there are no checkpoints, and a restart reads what is new from then on"
        if self._recovery is Recovery.MEMORY and source.from_the_end:
            return "checkpoints are gone if the driver dies, and the next one reads what is new from then on"
        if self._recovery is Recovery.MEMORY and source.from_the_group:
            return "checkpoints are gone if the driver dies, and the next one goes on at the group's offsets, without state"
        return None

    def _repeats(self, source: SourceTransformation, sink: SinkTransformation) -> bool:
        """Whether a source that loses elements may also repeat others."""
        from_memory = source.not_replayable is None and self._recovery is Recovery.MEMORY
        if self._recovery is Recovery.NO_MORE or not (source.gives_some_again or from_memory):
            return False
        function = sink.function
        if isinstance(function, SinkOperator) and function.sink.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            once = isinstance(function.sink, SupportsCommitter)
            if not once:
                return bool(source.non_deterministic)
        else:
            held = sink.kind is SinkKind.COLLECT and self._restarts
            once = held or (sink.kind is SinkKind.FOR_EACH_BATCH and self._every_epoch)
        # output after a checkpoint is repeated if a start without a snapshot reads its input again
        return not once or (source.gives_some_again and self._recovery is not Recovery.CHECKPOINT)

    def _again(self) -> str:
        if self._recovery is Recovery.START:
            return "there are no checkpoints: a restart starts over, and all"
        return "what comes after the latest checkpoint when the job fails"

    def _of_sink(self, sink: Sink[object], source: SourceTransformation, step: SinkTransformation) -> Verdict:
        reason = sink.guarantee_reason
        if sink.delivery_guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            if self._recovery is Recovery.START:
                return _AT_LEAST, f"{self._again()} is written again"
            return _AT_LEAST, reason
        if not isinstance(sink, SupportsCommitter):  # the same element has the same effect, however often it comes
            if source.non_deterministic:
                made = ", ".join(source.non_deterministic)
                return _AT_LEAST, f"{reason}, but {made} of the source makes another element when it is read again"
            by_clock = _windows_by_clock(source, step)
            if by_clock:
                return _AT_LEAST, f"{reason}, but processing-time windows ({', '.join(by_clock)}) make other ones then"
            return _EXACTLY, reason
        if self._recovery is Recovery.START:
            return _AT_LEAST, "there are no checkpoints: it commits when the job ends, and a restart starts over"
        if self._recovery is Recovery.MEMORY:
            return _AT_LEAST, f"{reason}, but checkpoints are gone if the driver dies, and the job then starts over"
        return _EXACTLY, reason

    def _of_batches(self, source: SourceTransformation) -> Verdict:
        key = CheckpointingOptions.EVERY_EPOCH.key
        if not self._every_epoch:
            way_out = f" ({key} = true gives the same ones)" if self._has_epochs else ""
            return _AT_LEAST, f"{self._again()} is given again, as other epochs{way_out}"
        if self._recovery is Recovery.MEMORY:
            return _AT_LEAST, "checkpoints are gone if the driver dies, and all is then given again, as other epochs"
        if source.non_deterministic:
            made = ", ".join(source.non_deterministic)
            return _AT_LEAST, f"{made} of the source makes other rows when an epoch is run again"
        return _EXACTLY, "if the function takes an epoch once: after a failure it comes again with the same number and rows"

    def _of_results(self) -> Verdict:
        if self._recovery is Recovery.START:
            fails = "there are no checkpoints: a job that would start over fails instead, once results were taken"
            return (_NONE, f"{fails}, and if its driver dies all comes again") if self._supervised else (_AT_MOST, fails)
        if not self._restarts:  # nothing is held back where no attempt follows
            return _AT_LEAST, "handed over at once, and again by a job that is started from this one's checkpoint"
        if self._supervised:
            if self._recovery is Recovery.MEMORY:
                return _AT_LEAST, "checkpoints are gone if the driver dies, and the program that is started again gets all"
            return _AT_MOST, "held back until a checkpoint holds them; gone if the driver dies before they are handed over"
        return _EXACTLY, "held back until a checkpoint holds them"


def _sinks_downstream(step: Transformation) -> Iterator[SinkTransformation]:
    seen: set[int] = set()
    stack = [step]
    while stack:
        one = stack.pop()
        if isinstance(one, SinkTransformation):
            yield one
        if id(one) not in seen:
            seen.add(id(one))
            stack.extend(reversed(one.children))


def _windows_by_clock(source: Transformation, sink: Transformation) -> list[str]:
    """Return the names of processing-time windows on the path from a source to a sink."""
    downstream, upstream = _reached(source, lambda step: step.children), _reached(sink, lambda step: step.parents)
    between = [step for key, step in downstream.items() if key in upstream]
    operations = ((step.name, function_object(getattr(step, "function", None))) for step in between)
    return sorted({name for name, function in operations if isinstance(function, WindowOperation) and function.by_clock})


def _reached(
    start: Transformation, following: Callable[[Transformation], Iterable[Transformation]]
) -> dict[int, Transformation]:
    found: dict[int, Transformation] = {}
    stack = [start]
    while stack:
        one = stack.pop()
        if id(one) not in found:
            found[id(one)] = one
            stack.extend(following(one))
    return found


def sink_name(name: str, function: object) -> str:
    """Return the displayed name of a sink.

    Args:
        name: The step's.
        function: What runs in it.
    """
    return type(function.sink).__name__ if isinstance(function, SinkOperator) and name == _WRITER else name
